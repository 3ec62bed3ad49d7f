"""Every case of ExecuTorch's own QNN operator suite gives eager torch's numbers on the CPU engine.

The cases are captured once, into .work/cases; SIXFOLD_CASES names a folder that is there already.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, SIXFOLD, WORK

SCRIPTS = ROOT / "test/conformance"


@pytest.fixture(scope="module")
def cases():
    if "SIXFOLD_CASES" in os.environ:
        return pathlib.Path(os.environ["SIXFOLD_CASES"])
    folder = WORK / "cases"
    if not folder.exists():
        partial = WORK / "cases.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        script = [sys.executable, SCRIPTS / "capture_peer_cases.py", partial]
        done = subprocess.run(script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        partial.rename(folder)
    return folder


def test_every_case_equals_eager_torch(cases):
    assert sum(1 for _ in cases.rglob("case.json")) > 1000
    script = [sys.executable, SCRIPTS / "run_cases.py", SIXFOLD, cases, "--mode", "float"]
    done = subprocess.run(script, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]
