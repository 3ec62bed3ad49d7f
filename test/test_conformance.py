"""Every case of ExecuTorch's own QNN operator suite gives eager torch's numbers on the CPU engine.

The cases are captured once (conftest.py).
"""
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, SIXFOLD, WORK

SCRIPTS = ROOT / "test/conformance"


def run_on_npu(folder, kind, engine, step, out, env):
    """Every step-th case of a kind, compiled and run on an engine; returns how many ran, those that failed, and what was printed."""
    names = sorted(p.parent.name for p in (folder / kind).glob("*/case.json"))[::step]
    only = f"^{kind}/(" + "|".join(re.escape(n) for n in names) + ")$"
    script = [sys.executable, SCRIPTS / "run_cases.py", SIXFOLD, folder, "--mode", "htp", "--engine", engine, "--only", only, "--json", out]
    done = subprocess.run(script, capture_output=True, text=True, env=env)
    results = json.loads(out.read_text())
    assert len(results) == len(names)
    failed = {name: r for name, r in results.items() if r["state"] not in ("passed", "skipped")}
    return len(results), failed, done.stdout[-4000:]


# The op works in place on the case's own input, and the capture saved that input afterwards: torch itself does not turn
# the saved input into the saved output.
INPUT_SAVED_TOO_LATE = {"float/leaky_relu.2", "quant/leaky_relu.2"}


def test_every_case_equals_eager_torch(cases, tmp_path):
    script = [sys.executable, SCRIPTS / "run_cases.py", SIXFOLD, cases, "--mode", "float", "--json", tmp_path / "results.json"]
    done = subprocess.run(script, capture_output=True, text=True)
    print(done.stdout)
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results) > 1000
    failed = {name for name, result in results.items() if result["state"] not in ("passed", "skipped")}
    assert failed == INPUT_SAVED_TOO_LATE, done.stdout[-4000:]


@pytest.mark.parametrize("name", sorted(INPUT_SAVED_TOO_LATE))
def test_the_known_bad_cases_hold_their_output_as_input(name, cases):
    assert np.array_equal(np.load(cases / name / "in_0.npy"), np.load(cases / name / "out_0.npy"))
