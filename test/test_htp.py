"""Models on the NPU, as Qualcomm's host library computes it: ExecuTorch's own op suite, and its own runtime.

Every 20th float case is run; SIXFOLD_HTP=all runs all of them. The cases are those of test_conformance.py.
"""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import MODEL, TEST_SET, WORK, call, fails
from test_conformance import run_on_npu
from test_qnn import WHEEL, needs_libraries

pytestmark = needs_libraries


def environment():
    return dict(os.environ, VIRTUAL_ENV=str(WHEEL.parents[3]))


def every(step):
    """All cases on request, else every step-th."""
    return 1 if os.environ.get("SIXFOLD_HTP") == "all" else step


def test_float_cases_run_on_the_npu_with_the_delegates_that_the_suite_expects(cases, tmp_path):
    count, failed, text = run_on_npu(cases, "float", "qnn", every(20), tmp_path / "results.json", environment())
    assert count > 20
    assert not failed, text


EXECUTORCH = """
import sys, numpy as np, torch
from executorch.runtime import Runtime
program = Runtime.get().load_program(open(sys.argv[1], "rb").read())  # a method does not keep it alive
method = program.load_method("forward")
out = method.execute([torch.from_numpy(np.load(p)) for p in sys.argv[3:]])
np.savez(sys.argv[2], *[t.numpy() for t in out])
"""


def on_executorch(program, out, inputs):
    """ExecuTorch's runtime with its own QNN delegate, on the same libraries."""
    root = WORK / "qnn_sdk"
    folder = root / "lib/x86_64-linux-clang"
    folder.mkdir(parents=True, exist_ok=True)
    for library in WHEEL.glob("libQnn*.so"):
        link = folder / library.name
        if not link.is_symlink():
            link.symlink_to(library)
    env = dict(environment(), QNN_SDK_ROOT=str(root), LD_LIBRARY_PATH=f"{folder}:{WHEEL.parent / 'onnxruntime_qnn.libs'}")
    done = subprocess.run([sys.executable, "-c", EXECUTORCH, program, out, *inputs], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = np.load(out)
    return [loaded[k] for k in loaded.files]


@pytest.mark.parametrize("name", ["conv2d", "embedding", "sdpa.1"])
def test_executorch_runs_our_delegate_to_the_same_bits(name, cases, tmp_path):
    inputs = sorted((cases / "float" / name).glob("in_*.npy"), key=lambda p: int(p.stem[3:]))
    model = cases / "float" / name / "model.pt2"
    program = tmp_path / "m.pte"
    made = call("compile", model, "-o", program, "--backend", "htp", "--engine", "qnn", "--soc", "SM8650", "--json", env=environment())
    assert made.returncode == 0, made.stderr
    feed = [x for p in inputs for x in ("--input", p)]
    done = call("run", program, "--engine", "qnn", *feed, "--output-dir", tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    for i, theirs in enumerate(on_executorch(program, tmp_path / "theirs.npz", inputs)):
        ours = np.load(tmp_path / f"output_{i}.npy")
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def test_the_demo_model_is_one_delegate_and_as_good(tmp_path):
    program = tmp_path / "digits.pte"
    made = call("compile", MODEL, "-o", program, "--backend", "htp", "--engine", "qnn", "--json", env=environment())
    assert made.returncode == 0, made.stderr
    report = json.loads(made.stdout)
    assert report["delegates"] == 1 and report["cpu_nodes"] == []
    again = tmp_path / "again.pte"
    call("compile", MODEL, "-o", again, "--backend", "htp", "--engine", "qnn", env=environment())
    assert again.read_bytes() == program.read_bytes()
    done = call("run", program, "--engine", "qnn", "--npz", TEST_SET, "--rows", 50, "--labels", "labels", "--json", env=environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"] > 0.9


def test_a_node_that_is_kept_on_the_cpu_is_named_with_its_reason(tmp_path):
    graph = json.loads(call("show", MODEL, "--json").stdout)
    assert graph
    made = call("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", "--skip-op", "relu", "--json", env=environment())
    assert made.returncode == 0, made.stderr
    report = json.loads(made.stdout)
    assert report["cpu_nodes"] and all("--skip-op" in n["reason"] for n in report["cpu_nodes"])
    assert report["delegates"] > 1


def test_a_program_for_the_npu_is_refused_without_its_engine(tmp_path):
    program = tmp_path / "m.pte"
    call("compile", MODEL, "-o", program, "--backend", "htp", "--engine", "qnn", env=environment())
    assert "QnnBackend" in fails("run", program, "--engine", "cpu", "--npz", TEST_SET, "--rows", 1)
    assert "--engine qnn" in fails("run", program, "--npz", TEST_SET, "--rows", 1)
    assert "is for --engine qnn" in fails("run", program, "--qnn-lib-dir", "nowhere", "--npz", TEST_SET, "--rows", 1)
    assert "SM8651" in fails("compile", MODEL, "-o", program, "--backend", "htp", "--engine", "qnn", "--soc", "SM8651", env=environment())
    assert "nowhere" in fails("compile", MODEL, "-o", program, "--backend", "htp", "--engine", "qnn", "--qnn-lib-dir", "nowhere")


class Sigmoid(torch.nn.Module):
    def forward(self, x):
        return 1 / (1 + torch.exp(-x))


def test_a_rule_that_forms_an_op_can_be_left_out(tmp_path):
    model = torch.export.export(Sigmoid(), (torch.zeros(2, 8),))
    torch.export.save(model, tmp_path / "m.pt2")
    ops = {}
    for rule in ("form_sigmoid", "form_tanh"):
        done = call("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--disable-rule", rule, "--json")
        assert done.returncode == 0, done.stderr
        ops[rule] = json.loads(done.stdout)["methods"][0]["qnn_ops"]
    assert ops["form_tanh"] == 1 and ops["form_sigmoid"] > 2
