"""Models on the NPU, as our own emulator computes it: no package of Qualcomm's is needed.

Every fourth case of ExecuTorch's own op suite is run; SIXFOLD_EMULATOR=all runs all of them. The cases are those of
test_conformance.py.
"""
import json
import os

import numpy as np
import pytest
from conftest import MODEL, TEST_SET, call
from test_conformance import run_on_npu


def run_suite(folder, kind, out):
    # Nothing of Qualcomm's is in reach.
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "QNN_SDK_ROOT")}
    count, failed, text = run_on_npu(folder, kind, "emulator", 1 if os.environ.get("SIXFOLD_EMULATOR") == "all" else 4, out, env)
    assert count > 100
    return failed, text


def test_float_cases_run_with_the_delegates_that_the_suite_expects(cases, tmp_path):
    failed, text = run_suite(cases, "float", tmp_path / "results.json")
    assert not failed, text


def test_quantized_cases_run_with_the_delegates_that_the_suite_expects(cases, tmp_path):
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


def products(torch):
    """Each with weights, or a bias, that are computed."""
    f = torch.nn.functional
    return {
        "conv": (lambda x, w: f.conv2d(x, w * 0.5, padding=1), (16, 8, 3, 3)),
        "depthwise": (lambda x, w: f.conv2d(x, w * 0.5, groups=8, padding=1), (8, 1, 3, 3)),
        "transposed": (lambda x, w: f.conv_transpose2d(x, w * 0.5, stride=2), (8, 16, 3, 3)),
        "bias": (lambda x, b: f.conv2d(x, f.one_hot(torch.arange(16) % 8, 8).float()[..., None, None], b * 2), (16,)),
        "linear": (lambda x, b: f.linear(x, f.one_hot(torch.arange(16) % 10, 10).float(), b * 2), (16,)),
    }


def decibels(model, inputs, precision, folder, decompose=False):
    """Of the whole model on the NPU, against eager torch."""
    import torch

    exported = torch.export.export(model.eval(), inputs)
    torch.export.save(exported.run_decompositions() if decompose else exported, folder / "model.pt2")
    np.savez(folder / "in.npz", **{f"in{i}": x.numpy()[None] for i, x in enumerate(inputs)})
    done = call("compile", folder / "model.pt2", "-o", folder / "m.pte", "--backend", "htp", "--precision", precision,
                "--calib", folder / "in.npz", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cpu_nodes"] == []
    ran = call("run", folder / "m.pte", "--npz", folder / "in.npz", "--npz-out", folder / "out.npz")
    assert ran.returncode == 0, ran.stderr
    want = model(*inputs).detach().numpy().astype(np.float64)
    noise = np.load(folder / "out.npz")["out0"][0] - want
    return 10 * np.log10((want**2).sum() / (noise**2).sum())


@pytest.mark.parametrize("precision, least_db", [("fp16", 60), ("8a8w", 33), ("16a8w", 55)])
@pytest.mark.parametrize("name", ["conv", "depthwise", "transposed", "bias", "linear"])
def test_weights_may_be_computed(name, precision, least_db, tmp_path):
    import torch

    function, shape = products(torch)[name]

    class Model(torch.nn.Module):
        def forward(self, x, w):
            return function(torch.relu(x), w)

    torch.manual_seed(0)
    assert decibels(Model(), (torch.randn(1, 8, 10, 10), torch.randn(shape)), precision, tmp_path) > least_db


@pytest.mark.parametrize("precision, least_db", [("fp16", 55), ("8a8w", 24), ("16a8w", 45)])
@pytest.mark.parametrize("spelled", ["added", "filled", "decomposed", "decomposed with an empty row"])
def test_masks_may_be_infinite(spelled, precision, least_db, tmp_path):
    import torch

    forbidden = torch.ones(12, 12).triu(1).bool()
    if "empty" in spelled:
        forbidden[3] = True

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))
            self.register_buffer("mask", torch.zeros(12, 12).masked_fill(forbidden, float("-inf")))
            self.register_buffer("forbidden", forbidden)

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            if spelled.startswith("decomposed"):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~self.forbidden)
            scores = q @ k.transpose(-1, -2) / 4
            scores = scores + self.mask if spelled == "added" else scores.masked_fill(self.forbidden, float("-inf"))
            return torch.softmax(scores, -1) @ v

    torch.manual_seed(0)
    assert decibels(Model(), (torch.randn(2, 12, 16),), precision, tmp_path, spelled.startswith("decomposed")) > least_db


def test_a_model_that_computes_nothing_is_quantized(tmp_path):
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.reshape(4, 300, 200)  # its result is its input's memory

    assert decibels(Model(), (torch.randn(400, 600),), "8a8w", tmp_path) > 35


def test_a_program_is_the_same_every_time(tmp_path):
    for name in ("a.pte", "b.pte"):
        assert call("compile", MODEL, "-o", tmp_path / name, "--backend", "htp", "--engine", "emulator", "--precision", "fp16").returncode == 0
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()
