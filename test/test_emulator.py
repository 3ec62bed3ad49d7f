"""Models on the NPU, as our own emulator computes it: no package of Qualcomm's is needed.

Every fourth case of ExecuTorch's own op suite is run; SIXFOLD_EMULATOR=all runs all of them. The cases are those of
test_conformance.py.
"""
import json
import os

import numpy as np
from conftest import MODEL, TEST_SET, call
from test_conformance import cases, run_on_npu  # noqa: F401  (a fixture)


def run_suite(folder, kind, out):
    # Nothing of Qualcomm's is in reach.
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "QNN_SDK_ROOT")}
    count, failed, text = run_on_npu(folder, kind, "emulator", 1 if os.environ.get("SIXFOLD_EMULATOR") == "all" else 4, out, env)
    assert count > 100
    return failed, text


def test_float_cases_run_with_the_delegates_that_the_suite_expects(cases, tmp_path):  # noqa: F811
    failed, text = run_suite(cases, "float", tmp_path / "results.json")
    assert not failed, text


def test_quantized_cases_run_with_the_delegates_that_the_suite_expects(cases, tmp_path):  # noqa: F811
    failed, text = run_suite(cases, "quant", tmp_path / "results.json")
    assert not failed, text


def test_digits_are_classified_as_on_the_cpu(tmp_path):
    program, out = tmp_path / "digits.pte", tmp_path / "out.npz"
    done = call("compile", MODEL, "-o", program, "--backend", "htp", "--precision", "fp16", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["delegates"] == 1 and report["cpu_nodes"] == [] and report["engine"] == "sixfold emulator"  # by default
    ran = call("run", program, "--npz", TEST_SET, "--npz-out", out, "--json")
    assert ran.returncode == 0 and json.loads(ran.stdout)["engine"] == "emulator"
    expected = tmp_path / "cpu.npz"
    assert call("run", MODEL, "--npz", TEST_SET, "--npz-out", expected).returncode == 0
    ours, float32 = np.load(out)["out0"], np.load(expected)["out0"]
    assert np.array_equal(ours.argmax(-1), float32.argmax(-1))
    assert not np.array_equal(ours, float32)  # halves


def test_a_program_is_the_same_every_time(tmp_path):
    for name in ("a.pte", "b.pte"):
        assert call("compile", MODEL, "-o", tmp_path / name, "--backend", "htp", "--engine", "emulator", "--precision", "fp16").returncode == 0
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()
