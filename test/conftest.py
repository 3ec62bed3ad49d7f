"""What the Python tests share: where the program is, and how it is called. SIXFOLD names another binary."""
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / ".work"
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()
MODEL = ROOT / "demo/digits.pt2"
TEST_SET = ROOT / "demo/digits_test.npz"


def call(*args, timeout=120, **kwargs):
    """Runs sixfold; returns the finished process with its text."""
    command = [str(SIXFOLD), *(str(a) for a in args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **kwargs)


def fails(*args, **kwargs):
    """Runs sixfold, which must refuse: an exit status of its own (no signal), nothing on stdout, one sentence on stderr."""
    done = call(*args, **kwargs)
    assert 0 < done.returncode < 126, f"exit {done.returncode}: {done.stderr}"
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr.strip()


@pytest.fixture
def image(tmp_path):
    """One digit, as the file that run --input takes."""
    path = tmp_path / "digit.npy"
    np.save(path, np.load(TEST_SET)["in0"][0])
    return path


@pytest.fixture(scope="session", autouse=True)
def _program_is_built():
    if not SIXFOLD.exists():
        pytest.exit(f"{SIXFOLD} is missing: build it first (make demo), or set SIXFOLD", returncode=2)


@pytest.fixture(scope="session")
def cases():
    """The cases of ExecuTorch's own QNN suite, captured once into .work/cases; SIXFOLD_CASES names a folder that is there already."""
    if "SIXFOLD_CASES" in os.environ:
        return pathlib.Path(os.environ["SIXFOLD_CASES"])
    folder = WORK / "cases"
    if not folder.exists():
        partial = WORK / "cases.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        script = [sys.executable, ROOT / "test/conformance/capture_peer_cases.py", partial]
        done = subprocess.run(script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        partial.rename(folder)
    return folder
