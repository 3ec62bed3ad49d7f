"""Whole models give eager torch's numbers on the CPU engine.

By default models of well-known shapes with seeded weights, made once into .work/zoo. SIXFOLD_ZOO names a folder that
zoo/make_zoo.py wrote, and then all of it runs, every row.
"""
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, SIXFOLD, WORK

QUICK = ["rand_kws_gru", "rand_kws_lstm", "rand_mobilenet_v2", "rand_stories15m_decode", "rand_stories15m_prefill", "rand_vit_tiny"]


def make_quick(name):
    folder = WORK / "zoo" / name
    if not folder.exists():
        partial = WORK / "zoo.partial" / name
        shutil.rmtree(partial, ignore_errors=True)
        script = [sys.executable, ROOT / "test/quick_zoo.py", partial.parent, name]
        done = subprocess.run(script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(folder)


def run(zoo, *options):
    script = [sys.executable, ROOT / "test/zoo/run_zoo.py", SIXFOLD, zoo, "--engine", "cpu", *options]
    done = subprocess.run(script, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


if "SIXFOLD_ZOO" in os.environ:

    def test_the_whole_zoo_equals_eager_torch():
        run(os.environ["SIXFOLD_ZOO"])

else:

    @pytest.mark.parametrize("name", QUICK)
    def test_model_equals_eager_torch(name):
        make_quick(name)
        assert "1 passed" in run(WORK / "zoo", "--only", f"^{name}$", "--rows", "1")
