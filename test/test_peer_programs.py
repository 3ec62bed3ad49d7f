"""Programs that ExecuTorch wrote, run by our runtime: a sample of the conformance cases, and what those do not have.

The references are eager torch's; the peer's own runtime is not asked, since it gives some of these other results (sizes that the
data tells, outputs in the caller's memory) or has no kernel for them.
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, SIXFOLD, WORK, call, fails

sys.path.insert(0, str(ROOT / "test"))
from make_peer_programs import PROGRAMS
from test_conformance import INPUT_SAVED_TOO_LATE

FILES = ROOT / "test/pte"
# Half precision is rounded between kernels, by ExecuTorch as well, and only once in eager torch.
ONE_STEP_OFF = {"float/fp16a8w_fp16_simple_model"}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_of_executorch_gives_eager_torchs_numbers(name, tmp_path):
    made, calls, results = PROGRAMS[name]()
    with open(tmp_path / "model.pte", "wb") as f:
        made.write_to_file(f)
    lines = []
    for k, inputs in enumerate(calls):
        for i, x in enumerate(inputs):
            np.save(tmp_path / f"in_{k}_{i}.npy", np.asarray(x))
        lines.append(" ".join(str(tmp_path / f"in_{k}_{i}.npy") for i in range(len(inputs))))
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    done = call("run", tmp_path / "model.pte", "--input-list", tmp_path / "list.txt", "--output-dir", out)
    assert done.returncode == 0, done.stderr
    for k, expected in enumerate(results):
        for i, want in enumerate(expected):
            want = want.detach().numpy() if hasattr(want, "detach") else np.asarray(want)
            got = np.load(out / f"output_{k}_{i}.npy")
            assert got.shape == want.shape, (k, i)
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1e-5, err_msg=f"call {k}, output {i}")


def test_a_sample_of_the_cases(cases, tmp_path):
    """SIXFOLD_PEER_PROGRAMS names a folder of programs of all cases; without it every 45th is made here."""
    programs = os.environ.get("SIXFOLD_PEER_PROGRAMS")
    if not programs:
        programs = WORK / "peer_programs"
        script = [sys.executable, ROOT / "test/export_peer_programs.py", cases, programs, "--sample", "45"]
        done = subprocess.run(script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    script = [sys.executable, ROOT / "test/run_peer_programs.py", SIXFOLD, cases, programs, "--json", tmp_path / "results.json"]
    done = subprocess.run(script, capture_output=True, text=True)
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results) >= 20
    failed = {name for name, result in results.items() if result["state"] not in ("passed", "skipped")}
    assert failed <= INPUT_SAVED_TOO_LATE | ONE_STEP_OFF, done.stdout[-4000:]


def test_a_method_is_chosen_by_name(tmp_path):
    made, _, _ = PROGRAMS["several_methods"]()
    with open(tmp_path / "m.pte", "wb") as f:
        made.write_to_file(f)
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    done = call("run", tmp_path / "m.pte", "--method", "twice", "--input", tmp_path / "x.npy", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "output_0.npy").tolist() == [2, 4, 6]
    done = call("run", tmp_path / "m.pte", "--method", "answer", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "output_0.npy") == 42
    assert "it has answer, forward, twice" in fails("run", tmp_path / "m.pte", "--method", "other")


def test_a_bundled_program_is_checked(tmp_path):
    done = call("run", FILES / "mlp.bpte")
    assert done.returncode == 0 and "2 outputs as expected" in done.stdout, done.stderr
    bundle = (FILES / "mlp.bpte").read_bytes()
    # Another expected value: the last f32 that is not part of the program must be found to differ.
    for at in range(len(bundle) - 4, 0, -4):
        changed = bundle[:at] + bytes([bundle[at] ^ 0x55, bundle[at + 1], bundle[at + 2], bundle[at + 3] ^ 0x41]) + bundle[at + 4 :]
        (tmp_path / "changed.bpte").write_bytes(changed)
        done = call("run", tmp_path / "changed.bpte")
        if "differs from the expected values" in done.stderr:
            assert done.returncode != 0
            return
    pytest.fail("no changed byte was found to differ")


def test_constants_in_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    args = ["run", FILES / "mlp_external.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "external"]
    assert "fc.weight is in an external data file, and none was given" in fails(*args)
    done = call(*args, "--data", FILES / "mlp_external.ptd")
    assert done.returncode == 0, done.stderr
    done = call("run", FILES / "mlp.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "inside")
    assert done.returncode == 0, done.stderr
    for i in range(2):
        name = f"output_{i}.npy"
        assert np.array_equal(np.load(tmp_path / "external" / name), np.load(tmp_path / "inside" / name))
