"""Programs that were written for Qualcomm's libraries run on ours, unchanged: ONNX Runtime's QNN provider, ExecuTorch's AOT and delegate.

Small models; SIXFOLD_CLIENTS=all takes MobileNetV2 and all programs of make_npu_peer_programs.py and make_torchao_programs.py too.
"""
import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("onnxruntime_qnn")
from conftest import ROOT, SIXFOLD, WORK, call

BUILD = SIXFOLD.parent
SDK = BUILD / "qnn"
LIBRARIES = SDK / "lib/x86_64-linux-clang"
ALL = os.environ.get("SIXFOLD_CLIENTS") == "all"
MODELS = ["small", "mobilenet"] if ALL else ["small"]
# ExecuTorch's programs that a host cannot run (see test_npu_files.py), that need DLCs, which are Qualcomm's own format, or that exir
# cannot write, with Qualcomm's libraries either (state_cut: it erases a getitem that a node on the CPU uses).
REFUSED = {"dynamic", "heads", "online", "online_q8_cut", "state_cut", "state_inside"}


@pytest.fixture(scope="module")
def libraries():
    done = subprocess.run(["cmake", "--build", BUILD, "--target", "qnn_libraries"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    return LIBRARIES


def run(script, *args, **env):
    """In a process of its own, with nothing of Qualcomm's in reach but what the wheel's provider brings."""
    clean = {k: v for k, v in os.environ.items() if k not in ("QNN_SDK_ROOT", "LD_LIBRARY_PATH")}
    done = subprocess.run([sys.executable, ROOT / "test" / script, *map(str, args)], capture_output=True, text=True, timeout=900,
                          env={**clean, **env})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("model", MODELS)
def test_onnx_runtime_runs_a_quantized_model_on_htp_alone(model, libraries, tmp_path):
    flags = ["--mobilenet"] if model == "mobilenet" else []
    said = json.loads(run("onnx_client.py", libraries / "libQnnHtp.so", tmp_path, "--profile", tmp_path / "events.csv", *flags).splitlines()[-1])
    assert said["same_from_context"] and said["same_class"]
    assert said["different"] > 3 and said["steps"] <= (16 if flags else 2)
    rows = list(csv.DictReader((tmp_path / "events.csv").open()))
    assert any("Conv" in row["Event Identifier"] or "cycles" in row["Event Identifier"] for row in rows), rows[:3]


def test_executorch_lowers_and_runs_with_our_libraries(libraries):
    out = WORK / "client_programs"
    only = "" if ALL else "^q8_one$"
    env = {"QNN_SDK_ROOT": str(SDK), "LD_LIBRARY_PATH": str(libraries)}
    listed = run("make_npu_peer_programs.py", out, "--list", "--only", only).split()
    wanted = [n for n in listed if n not in REFUSED]
    run("make_npu_peer_programs.py", out, "--only", f"^({'|'.join(wanted)})$", **env)
    for name in wanted:
        folder = out / name
        for method, count in json.loads((folder / "calls.json").read_text()).items():
            for n in range(count):
                assert list(folder.glob(f"{method}.{n}.out_*.npy")), f"{name}, {method}: no outputs"
        assert b"S6FOLDQ" in (folder / "model.pte").read_bytes(), f"{name}: not ours"
    # As far from the model in float as 8 bits are.
    import make_npu_peer_programs as peers
    import torch

    torch.manual_seed(1)
    model = peers.Convs().eval()
    want = model(*peers.IMAGE).detach().numpy()
    got = np.load(out / "q8_one/forward.0.out_0.npy")
    assert np.linalg.norm(want - got) < 0.05 * np.linalg.norm(want)


def test_models_that_torchao_quantized_become_the_integers_that_executorch_makes(libraries):
    """Both programs give the same bits: encodings, weights and biases of the file are what is computed with."""
    out = WORK / "torchao_programs"
    only = "" if ALL else r"^(image\.8a8w\.qat|rows\.16a4w_block\.ptq)$"
    names = run("make_torchao_programs.py", out, "--list", "--only", only).split()
    assert len(names) == (15 if ALL else 2)
    run("make_torchao_programs.py", out, "--only", only, QNN_SDK_ROOT=str(SDK), LD_LIBRARY_PATH=str(libraries))
    for name in names:
        folder = out / name
        report = json.loads(call("compile", folder / "model.pt2", "-o", folder / "ours.pte", "--json").stdout)
        assert report["delegates"] == 1 and report["cpu_nodes"] == [], name
        results = []
        for program in ("model", "ours"):
            assert call("run", folder / f"{program}.pte", "--input", folder / "x.npy", "--output-dir", folder / program).returncode == 0, name
            results.append(np.load(folder / program / "output_0.npy"))
        assert np.array_equal(*results), name
