"""Quantized models on the NPU: ExecuTorch's quantized op suite, and a trained model in several precisions.

Every 25th quantized case is run; SIXFOLD_HTP=all runs all of them.
"""
import json

import numpy as np
import pytest
import torch
from conftest import MODEL, TEST_SET, call, fails
from test_conformance import run_on_npu
from test_htp import environment, every
from test_library import Function, decibels_on_the_library
from test_qnn import needs_libraries

pytestmark = needs_libraries


def test_quantized_cases_run_on_the_npu_within_the_suites_tolerance(cases, tmp_path):
    count, failed, text = run_on_npu(cases, "quant", "qnn", every(25), tmp_path / "results.json", environment())
    assert count > 20
    assert not failed, text


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("calib") / "calib.npz"
    np.savez(path, in0=np.load(TEST_SET)["in0"][:32])
    return path


def compiled(program, samples, *flags):
    return ["compile", MODEL, "-o", program, "--backend", "htp", "--engine", "qnn", "--calib", samples, *flags]


def made(program, samples, *flags):
    done = call(*compiled(program, samples, *flags, "--json"), env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def logits(program, folder):
    done = call("run", program, "--engine", "qnn", "--npz", TEST_SET, "--rows", 32, "--npz-out", folder / "o.npz", env=environment())
    assert done.returncode == 0, done.stderr
    return np.load(folder / "o.npz")["out0"]


@pytest.mark.parametrize("precision,decibels", [("8a8w", 25), ("16a8w", 38)])
def test_a_trained_model_keeps_its_answers(precision, decibels, samples, tmp_path):
    call("run", MODEL, "--npz", TEST_SET, "--rows", 32, "--npz-out", tmp_path / "float.npz")
    want = np.load(tmp_path / "float.npz")["out0"]
    report = made(tmp_path / "m.pte", samples, "--precision", precision)
    assert report["delegates"] == 1 and report["cpu_nodes"] == []
    got = logits(tmp_path / "m.pte", tmp_path)
    assert 20 * np.log10(np.linalg.norm(want) / np.linalg.norm(want - got)) > decibels


def test_a_recipe_mixes_precisions_and_lists_the_conversions(samples, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps({"rules": [{"op": "aten.linear.default", "precision": "16a8w"}]}))
    report = made(tmp_path / "m.pte", samples, "--precision", "8a8w", "--no-widen", "--recipe", recipe)
    assert any("u8 to u16" in c for c in report["methods"][0]["converts"])
    recipe.write_text(json.dumps({"rules": [{"node": "nobody", "precision": "16a8w"}]}))
    assert "node nobody" in fails(*compiled(tmp_path / "n.pte", samples, "--precision", "8a8w", "--recipe", recipe), env=environment())


def test_encodings_that_were_written_give_the_same_program_when_read(samples, tmp_path):
    made(tmp_path / "a.pte", samples, "--precision", "8a8w", "--export-encodings", tmp_path / "e.json")
    made(tmp_path / "b.pte", samples, "--precision", "8a8w", "--encodings", tmp_path / "e.json")
    assert np.abs(logits(tmp_path / "a.pte", tmp_path) - logits(tmp_path / "b.pte", tmp_path)).max() < 0.2
    file = json.loads((tmp_path / "e.json").read_text())
    file["activation_encodings"][0]["scale"] = [0]
    (tmp_path / "e.json").write_text(json.dumps(file))
    assert "expected more than 0" in fails(
        *compiled(tmp_path / "c.pte", samples, "--precision", "8a8w", "--encodings", tmp_path / "e.json"), env=environment())


@pytest.mark.parametrize("flags,types", [((), {"PER_CHANNEL"}), (("--no-per-channel-linear",), {"PER_CHANNEL", "PER_TENSOR"}),
                                         (("--no-per-channel-linear", "--no-per-channel-conv"), {"PER_TENSOR"})])
def test_weights_have_a_scale_for_each_channel(flags, types, samples, tmp_path):
    made(tmp_path / "m.pte", samples, "--precision", "16a8w", "--no-accuracy", "--export-encodings", tmp_path / "e.json", *flags)
    assert {w["enc_type"] for w in json.loads((tmp_path / "e.json").read_text())["param_encodings"]} == types


def test_samples_alone_mean_8_bits(samples, tmp_path):
    report = made(tmp_path / "q.pte", samples, "--no-accuracy")
    assert report["precision"] == "8a8w"
    assert [t["observer"] for t in report["methods"][0]["accuracy"]["tried"]] == ["min-max", "mse", "percentile"]
    done = call("compile", MODEL, "-o", tmp_path / "h.pte", "--json", env=environment())
    assert json.loads(done.stdout)["precision"] == "fp16"


def test_samples_are_asked_for(tmp_path):
    said = fails("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "htp", "--precision", "8a8w", env=environment())
    assert "--calib" in said


def test_what_needs_encodings_is_refused_where_there_are_none(samples, tmp_path):
    for flags in (["--recipe", "r.json"], ["--equalize"], ["--export-encodings", tmp_path / "e.json"]):
        said = fails("compile", MODEL, "-o", tmp_path / "m.pte", "--precision", "fp16", *flags)
        assert f"{flags[0]} is for values with encodings, and --precision fp16 gives them none" in said
    report = made(tmp_path / "m.pte", samples, "--precision", "fp16")
    assert "no sample of --calib is read: --precision fp16 needs no ranges" in report["methods"][0]["notes"]


def test_symbolic_sizes_are_asked_for(tmp_path):
    shapes = ({0: torch.export.Dim("n", min=2, max=9)},)
    model = torch.export.export(torch.nn.Linear(3, 4), (torch.randn(4, 3),), dynamic_shapes=shapes)
    torch.export.save(model, tmp_path / "m.pt2")
    np.savez(tmp_path / "c.npz", in0=np.ones((2, 4, 3), np.float32))
    words = ["compile", tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--precision", "8a8w", "--calib", tmp_path / "c.npz"]
    said = fails(*words)
    assert "sizes are symbolic" in said and "--bound s" in said
    symbol = said.split("--bound ")[1].split("=")[0]
    done = call(*words, "--bound", f"{symbol}=4")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_the_largest_of_scattered_values_has_a_grid_of_their_range(reduce, tmp_path):
    """What stands for places that no value goes to is within the values, so that 16 bits are enough for them."""
    torch.manual_seed(0)
    index = torch.arange(40) % 10
    start = torch.full((10,), -1e9 if reduce == "amax" else 1e9)
    model = Function(lambda x: start.scatter_reduce(0, index, x, reduce=reduce))
    assert decibels_on_the_library(model, torch.randn(4, 40), "16a8w", tmp_path) > 60


@pytest.mark.parametrize("constant", [-0.0838, -0.2, 0.5])
def test_a_constant_that_is_added_with_16_bits_is_not_off_by_steps(constant, tmp_path):
    """Qualcomm's multiplies a constant on a fine grid of its own by an integer of few bits."""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(lambda x: x + constant), torch.randn(8, 1, 16, 8, 8).clamp(min=-0.37), "16a8w", tmp_path) > 82


@pytest.mark.parametrize("layer,decibels", [
    (torch.nn.Conv2d(32, 32, 3, padding=1, groups=32), 77),
    (torch.nn.Conv2d(32, 64, 1), 79),
    (torch.nn.ConvTranspose2d(32, 16, 2, stride=2), 77),
])
def test_sums_of_16_by_16_bits_are_not_half_a_step_too_low(layer, decibels, tmp_path):
    """Qualcomm's cuts them to multiples of 65536; our biases bring results back to the middle."""
    torch.manual_seed(0)
    layer.eval().requires_grad_(False)
    for p in layer.parameters():
        p.uniform_(-0.3, 0.3)
    assert decibels_on_the_library(layer, torch.randn(8, 1, 32, 16, 16), "16a16w", tmp_path) > decibels


def test_adding_a_mask_of_nothing_changes_nothing(tmp_path):
    """A sum with zeros is another op to Qualcomm's library: ours has none."""
    torch.manual_seed(0)
    zeros = torch.zeros(1, 4, 8, 8)
    attend = Function(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x * 0.5, x + 1, attn_mask=zeros))
    assert decibels_on_the_library(attend, torch.randn(8, 1, 4, 8, 16), "16a8w", tmp_path) > 55


@pytest.mark.parametrize("precision,least", [("8a8w", 35), ("16a8w", 50)])
@pytest.mark.parametrize("low,high", [(-1, 1), (-0.3, 1), (-1, 0.2)])
def test_an_arc_sine_has_a_number_at_its_ends(low, high, precision, least, tmp_path):
    """A grid that reaches -1.004 has no number there."""
    torch.manual_seed(0)
    x = torch.rand(8, 1, 8, 40) * (high - low) + low
    x[..., 0], x[..., 1] = low, high
    assert decibels_on_the_library(Function(torch.asin), x, precision, tmp_path) > least


class Spectrum(torch.nn.Module):
    """Logarithms of a spectrum's power, as models of sound begin."""

    def __init__(self):
        super().__init__()
        angle = 2 * torch.pi * torch.outer(torch.arange(32), torch.arange(64)) / 64
        self.register_buffer("real", (angle.cos() * torch.hann_window(64))[:, None])
        self.register_buffer("imaginary", (angle.sin() * torch.hann_window(64))[:, None])

    def forward(self, x):
        a, b = (torch.nn.functional.conv1d(x, w, stride=32) for w in (self.real, self.imaginary))
        return torch.log(a * a + b * b + 1e-4)


def test_logarithms_of_spectra_compute_with_halves(tmp_path):
    """Most of a spectrum lies within the first steps of 16 bits."""
    torch.manual_seed(0)
    time = torch.arange(512.0)
    x = torch.stack([5 * torch.sin(time * 0.2 * (i + 1)) + 0.05 * torch.randn(512) for i in range(8)])[:, None, None]
    plain = decibels_on_the_library(Spectrum(), x, "16a8w", tmp_path, "--no-widen")
    assert decibels_on_the_library(Spectrum(), x, "16a8w", tmp_path) > plain + 6


class Residual(torch.nn.Module):
    """Sums beside which layers are small, with a number of ten thousands in one channel, as language models have."""

    def __init__(self, width=32):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width, eps=1e-5) for _ in range(3))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width, bias=False) for _ in range(3))
        for norm in self.norms:
            norm.weight.data[5] = 0.01

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + torch.nn.functional.silu(layer(norm(x)))
        return torch.nn.functional.silu(x)[..., 8:]


def test_sums_with_huge_outliers_compute_with_halves(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(8, 1, 16, 32)
    x[..., 0, 5] = 20000
    plain = decibels_on_the_library(Residual(), x, "16a8w", tmp_path, "--no-widen")
    assert decibels_on_the_library(Residual(), x, "16a8w", tmp_path) > plain + 20
