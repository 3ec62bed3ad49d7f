"""What Qualcomm's library computes wrongly, and how it is kept from that: each rule by its label (docs/npu.md), against float.

Every test failed on the library before its rule.
"""
import numpy as np
import pytest
import torch
from conftest import call
from test_htp import environment
from test_qnn import needs_libraries

pytestmark = needs_libraries


def decibels_on_the_library(module, x, precision, tmp_path, *options):
    torch.export.save(torch.export.export(module, (x[0],)), tmp_path / "m.pt2")
    np.savez(tmp_path / "x.npz", in0=x.numpy())
    calibration = [] if precision == "fp16" else ["--calib", tmp_path / "x.npz"]
    done = call("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--engine", "qnn", "--precision", precision, *calibration, *options,
                env=environment())
    assert done.returncode == 0, done.stderr
    done = call("run", tmp_path / "m.pte", "--engine", "qnn", "--npz", tmp_path / "x.npz", "--npz-out", tmp_path / "y.npz", env=environment())
    assert done.returncode == 0, done.stderr
    want = np.stack([module(row).detach().numpy() for row in x])
    got = np.load(tmp_path / "y.npz")["out0"]
    noise = np.linalg.norm(want - got)
    return 20 * np.log10(np.linalg.norm(want) / noise) if noise > 0 else np.inf


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("shape", [(1, 12, 4), (16, 2, 16)])
def test_an_rms_norm_of_8_bits_has_all_of_its_rows(shape, tmp_path):
    """Qualcomm's RmsNorm of 8 bits is wrong where rows lie along more than one axis (qwen3, swinv2): in a line they are right."""
    torch.manual_seed(0)
    norm = Function(lambda x: torch.nn.functional.rms_norm(x, (16,), eps=1e-6))
    assert decibels_on_the_library(norm, torch.randn(8, *shape, 16), "8a8w", tmp_path) > 30


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_cumulative_sum_of_8_bits_is_right_along_every_axis(axis, tmp_path):
    """Qualcomm's is along the last axis alone."""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(lambda x: torch.cumsum(x, axis)), torch.randn(4, 5, 20, 12) / 8, "8a8w", tmp_path) > 25


@pytest.mark.parametrize("function", [torch.nn.functional.softplus, lambda x: torch.log(x.abs() + 1), torch.nn.functional.logsigmoid])
def test_a_logarithm_of_16_bits_has_no_steps_that_are_too_fine(function, tmp_path):
    """Qualcomm's is wrong everywhere when its result has steps of 2^-14 or less."""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(function), torch.randn(4, 1, 16, 8), "16a8w", tmp_path) > 60


def test_a_softmax_of_8_bits_over_many_has_a_scale_that_is_not_cut_to_nothing(tmp_path):
    """Qualcomm's gives the largest number for all when its result has steps below 2^-16."""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(lambda x: torch.softmax(x, -1)), torch.randn(4, 1, 4, 1024) / 4, "8a8w", tmp_path) > 30


@pytest.mark.parametrize("precision, size, least", [("16a8w", 0.003, 60), ("8a8w", 0.001, 45)])
def test_a_softmax_of_numbers_close_together_is_right(precision, size, least, tmp_path):
    """[htp.softmax.3]: Qualcomm's gives anything when its operand has steps below 2^-18 (8 bits: 2^-14)."""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(lambda x: torch.softmax(x, -1)), torch.randn(4, 1, 4, 16) * size, precision, tmp_path) > least


@pytest.mark.parametrize("condition", [lambda x: x > 0.1, lambda x: x.sum(-1, keepdim=True) > 0])
def test_a_choice_among_rows_of_16_bits_runs(condition, tmp_path):
    """[htp.where.1]: Qualcomm's library cuts 16 rows of a product in two ways, and stops when it runs."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 64).eval().requires_grad_(False)

    def choose(x):
        y = layer(x)
        return torch.where(condition(y), y * 0.5, y * 2)

    assert decibels_on_the_library(Function(choose), torch.randn(4, 1, 16, 64), "16a8w", tmp_path) > 30


@pytest.mark.parametrize("size", [5, 16])
def test_a_cubic_resize_of_16_bits_computes_with_floats(size, tmp_path):
    """Qualcomm's of 16 bits gives anything at times."""
    torch.manual_seed(0)
    resize = Function(lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True))
    assert decibels_on_the_library(resize, torch.randn(2, 1, 3, size, size), "16a8w", tmp_path) > 60


def test_a_silu_of_16_bits_is_right_for_small_images(tmp_path):
    """Qualcomm's library makes one op of x * sigmoid(x), and that gives anything for 8 x 8 points that were computed before."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(32, 32, 3, padding=1).eval().requires_grad_(False)
    assert decibels_on_the_library(Function(lambda x: torch.nn.functional.silu(layer(x))), torch.randn(4, 1, 32, 8, 8), "16a8w", tmp_path) > 40


@pytest.mark.parametrize("kernel, size", [(4, 18), (6, 16), (8, 22)])
def test_an_average_of_floats_that_leaves_rows_over_does_not_crash(kernel, size, tmp_path):
    """[htp.pool.8]: the library halves such windows, and reads past the image when it runs."""
    torch.manual_seed(0)
    assert decibels_on_the_library(torch.nn.AvgPool2d(kernel, kernel), torch.randn(2, 1, 8, size, size), "fp16", tmp_path) > 60


@pytest.mark.parametrize("join", [torch.add, torch.mul])
@pytest.mark.parametrize("norm", [torch.nn.LayerNorm(16), torch.nn.RMSNorm(16)])
@pytest.mark.parametrize("precision", ["fp16", "16a8w"])
def test_a_norm_behind_what_is_the_same_for_a_batch(precision, join, norm, tmp_path):
    """[htp.norm.1]: the library has a way of its own for the two together; -3 to 10 dB."""
    torch.manual_seed(0)
    same = torch.randn(16, 16) / 2
    model = Function(lambda x: norm(join(x, same))).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(4, 2, 16, 16), precision, tmp_path) > 60


@pytest.mark.parametrize("size", [0.003, 0.01])
def test_an_elu_of_16_bits_has_no_steps_that_are_too_fine(size, tmp_path):
    """[htp.elu.1]: below 2^-18 the library's is wrong everywhere."""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(torch.nn.functional.elu), torch.randn(4, 1, 16, 8) * size, "16a8w", tmp_path) > 40


@pytest.mark.parametrize("function", [torch.exp, torch.exp2, torch.nn.functional.softplus, torch.nn.functional.mish])
@pytest.mark.parametrize("shape", [(4, 8), (2, 2, 2, 2, 2)])
def test_exponentials_of_halves_far_below_zero_are_zero(function, shape, tmp_path):
    """[htp.exp.1]: the library's are 131072 of either sign at -100, -500 and others."""
    x = torch.linspace(-1500, 8, 32).reshape(1, *shape)
    assert decibels_on_the_library(Function(function), x, "fp16", tmp_path) > 50


@pytest.mark.parametrize("function", [torch.log, torch.log2, torch.log10])
@pytest.mark.parametrize("shape", [(4, 8), (2, 2, 2, 2, 2)])
def test_the_logarithm_of_halves_is_least_at_zero(function, shape, tmp_path):
    """[htp.log.2]: the library's of 0, which 2^-26 is in halves, is -7.6, that of 2^-24 -16.6."""
    x = torch.cat([torch.full((4,), 2.0**-26), 2.0 ** torch.arange(-24, 4)]).reshape(1, *shape)
    assert decibels_on_the_library(Function(function), x, "fp16", tmp_path) > 25


def test_a_log_softmax_of_halves_along_an_axis_of_one_is_zero(tmp_path):
    """[htp.log_softmax.2]: the library's is not."""
    model = Function(lambda x: torch.log_softmax(x, 1) + 1)
    assert decibels_on_the_library(model, torch.randn(2, 3, 1, 6), "fp16", tmp_path) > 60


@pytest.mark.parametrize("precision, least", [("fp16", 60), ("16a8w", 60), ("8a8w", 35)])
@pytest.mark.parametrize("stride", [1, 2])
def test_columns_fold_to_an_image(stride, precision, least, tmp_path):
    """[htp.col2im.1]: a sum of nine padded images came out at 10 dB."""
    torch.manual_seed(0)
    model = Function(lambda x: torch.nn.functional.fold(x, (8, 8), 3, padding=1, stride=stride))
    assert decibels_on_the_library(model, torch.randn(4, 1, 27, 64 // stride**2), precision, tmp_path) > least


@pytest.mark.parametrize("precision, least", [("8a8w", 35), ("16a8w", 45)])
def test_several_filters_for_each_channel_are_on_the_npu(precision, least, tmp_path):
    """[htp.conv.5]: the library accepts them as DepthWiseConv2d and does not prepare them."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(8, 16, 3, groups=8).requires_grad_(False)
    assert decibels_on_the_library(layer, torch.randn(4, 1, 8, 9, 9), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("padding", [(2, 2), (1, 2)])
def test_borders_of_16_bits_of_filters_that_take_steps_of_two(padding, tmp_path):
    """[htp.conv.6]: behind another op, some zeros to the left of a 5 by 5 filter were up to 255 steps away; 61 to 66 dB, of exact weights."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(32, 32, 5, stride=2, groups=32, bias=False).requires_grad_(False)
    layer.weight.copy_(torch.randint(-127, 128, layer.weight.shape) / 127)
    layer.weight[:, :, 0, 0] = 1
    before = torch.nn.Conv2d(32, 32, 1, bias=False).requires_grad_(False)
    before.weight.copy_(torch.eye(32)[:, :, None, None])
    model = Function(lambda x: layer(torch.nn.functional.pad(torch.nn.functional.hardswish(before(x)), padding * 2)))
    assert decibels_on_the_library(model, torch.randn(4, 1, 32, 7, 7), "16a8w", tmp_path) > 75


@pytest.mark.parametrize("precision, least", [("fp16", 60), ("8a8w", 30), ("16a8w", 45)])
@pytest.mark.parametrize("window", [(2, 2, 1), (3, 3, 1), (4, 4, 1), (2, 1, 1), (5, 4, 2)])
@pytest.mark.parametrize("counts", [True, False])
def test_averages_of_padded_images_whose_windows_do_not_overlap(window, counts, precision, least, tmp_path):
    """[htp.pool.3]: behind another op the library merges the padding into the pool; -2 to 1 dB."""
    torch.manual_seed(0)
    first, last = (torch.nn.Conv2d(8, 8, 1).requires_grad_(False) for _ in range(2))
    model = Function(lambda x: last(torch.nn.functional.avg_pool2d(torch.relu(first(x)), *window, count_include_pad=counts)))
    assert decibels_on_the_library(model, torch.randn(4, 1, 8, 16, 16), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("precision, least", [("8a8w", 30), ("16a8w", 45)])
def test_averages_of_padded_lines(precision, least, tmp_path):
    """[htp.pool.3]: -2 dB."""
    torch.manual_seed(0)
    first = torch.nn.Conv1d(8, 8, 1).requires_grad_(False)
    model = Function(lambda x: torch.nn.functional.avg_pool1d(torch.relu(first(x)), 2, 2, 1))
    assert decibels_on_the_library(model, torch.randn(4, 1, 8, 16), precision, tmp_path, "--fail-on-fallback") > least


def test_a_silu_of_16_bits_between_products_of_experts(tmp_path):
    """[htp.silu.1]: with transposes around it the library makes one op of x * sigmoid(x) in three axes too; 5 dB."""
    torch.manual_seed(0)
    up, down = torch.randn(4, 32, 48) / 3, torch.randn(4, 48, 32) / 3
    model = Function(lambda x: torch.einsum("teh,ehd->ted", torch.nn.functional.silu(torch.einsum("td,edh->teh", x, up)), down))
    assert decibels_on_the_library(model, torch.randn(4, 11, 32), "16a8w", tmp_path) > 60


def test_a_cumulative_sum_of_8_bits_along_the_last_of_five_axes(tmp_path):
    """[htp.cumsum.1]"""
    torch.manual_seed(0)
    assert decibels_on_the_library(Function(lambda x: torch.cumsum(x, -1)), torch.randn(4, 2, 2, 3, 2, 4), "8a8w", tmp_path) > 30


def test_integers_times_themselves_across_a_batch(tmp_path):
    """[htp.mul.1]: a mask of rows times the same of columns, as DeBERTa has it, is wrong from a batch of two on."""
    torch.manual_seed(0)
    model = Function(lambda x: (x.to(torch.int32)[:, None, :] * x.to(torch.int32)[:, :, None]).float())
    assert decibels_on_the_library(model, torch.randint(1, 9, (2, 2, 10)).float(), "fp16", tmp_path) > 60


def test_an_rms_norm_of_halves_behind_a_product_has_all_of_its_rows(tmp_path):
    """[htp.norm.2]: heads of queries, as Qwen3 has them, were 7 dB."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 64, bias=False)
    model = Function(lambda x: torch.nn.functional.rms_norm(layer(x).view(2, 10, 4, 16), (16,), eps=1e-6))
    assert decibels_on_the_library(model, torch.randn(4, 2, 10, 64), "fp16", tmp_path) > 55


class Residual(torch.nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.layer, self.norm = torch.nn.Conv2d(channels, channels, 1), torch.nn.GroupNorm(groups, channels)

    def forward(self, x):
        return x + self.layer(self.norm(x))


@pytest.mark.parametrize("precision, least", [("8a8w", 25), ("16a8w", 40)])
@pytest.mark.parametrize("channels, groups", [(48, 1), (48, 4), (96, 4), (160, 32), (64, 4), (48, 48)])
def test_a_group_norm_behind_a_sum(channels, groups, precision, least, tmp_path):
    """[htp.norm.3]: 3 to 6 dB for all but 64 channels; PoolFormer and MobileViT-V2 had nothing right."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, channels, 1), *(Residual(channels, groups) for _ in range(4))]
    model = torch.nn.Sequential(*layers).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 3, 8, 8), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("function", [lambda x: torch.log(x * x + 1e-10), lambda x: torch.log(torch.clamp(x * x, min=1e-10)),
                                      lambda x: x / (x.abs() + 1e-9), lambda x: torch.log_softmax(torch.clamp(x, max=1), -1)])
def test_what_keeps_from_zero_is_not_zero_as_a_half(function, tmp_path):
    """1e-10 is: then a logarithm is infinite, and a quotient no number."""
    x = torch.linspace(-2, 2, 41).reshape(1, 1, 41)
    x[..., 20] = 0
    assert decibels_on_the_library(Function(function), x, "fp16", tmp_path) > 10  # one of 41 is where halves end
    y = np.load(tmp_path / "y.npz")["out0"]
    assert np.isfinite(y).all() and (y > -17).all()


@pytest.mark.parametrize("channels, more", [(16, 1), (3, 29), (40, 20)])
def test_a_border_of_halves_behind_the_last_axis_is_there(channels, more, tmp_path):
    """[htp.pad.2]: within a block of 32 the library left it out when an op came next; 0 to 11 dB."""
    torch.manual_seed(0)
    model = Function(lambda x: torch.relu(torch.nn.functional.pad(x, (0, more), value=1.0)))
    assert decibels_on_the_library(model, torch.randn(2, 1, 8, 16, channels), "fp16", tmp_path) > 60


def linear_attention(x, join):
    q, k, v = x.transpose(-1, -2).chunk(3, -1)
    y = torch.relu(q) @ (torch.relu(k).transpose(-1, -2) @ join(v))
    return y[..., :-1] / (y[..., -1:] + 0.1)


def padded(v):
    return torch.nn.functional.pad(v, (0, 1), value=1.0)


def joined(v):
    return torch.cat([v, torch.ones_like(v[..., :1])], -1)


@pytest.mark.parametrize("precision, join", [("fp16", padded), ("16a8w", padded), ("16a8w", joined)])
@pytest.mark.parametrize("points", [4, 16])
def test_linear_attention_has_its_column_of_ones(points, precision, join, tmp_path):
    """[htp.pad.2]: as EfficientViT has it, of which nothing was right. With 16 bits the library left out a Concat with ones as well."""
    torch.manual_seed(0)
    model = Function(lambda x: linear_attention(x, join))
    assert decibels_on_the_library(model, torch.randn(4, 1, 16, 48, points), precision, tmp_path) > 45


@pytest.mark.parametrize("shape", [(1, 16, 8, 8), (1, 16, 12), (2, 16)])
def test_a_batch_norm_of_16_bits_keeps_its_gains(shape, tmp_path):
    """[htp.norm.4]: Qualcomm's Batchnorm cuts gains to 8 bits of the largest; 48 dB here."""
    torch.manual_seed(0)
    norm = (torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d)(16).eval().requires_grad_(False)
    norm.weight.copy_(torch.exp(2 * torch.randn(16)))
    norm.bias.copy_(torch.randn(16))
    assert decibels_on_the_library(torch.nn.Sequential(torch.nn.ReLU(), norm), torch.randn(8, *shape), "16a8w", tmp_path, "--fail-on-fallback") > 68


@pytest.mark.parametrize("kernel, padding", [((1, 3), (0, 1)), ((3, 1), (1, 0)), (2, 1), (3, 1), ((1, 15), (0, 7))])
def test_a_padded_average_of_floats_is_at_its_place(kernel, padding, tmp_path):
    """[htp.pool.3]: the library merges a Pad into it, which is -3 to 0 dB unless windows are square and odd."""
    torch.manual_seed(0)
    model = torch.nn.AvgPool2d(kernel, 1, padding)
    assert decibels_on_the_library(model, torch.randn(2, 1, 8, 8, 16), "fp16", tmp_path, "--fail-on-fallback") > 60


@pytest.mark.parametrize("precision, least", [("8a8w", 30), ("16a8w", 60)])
@pytest.mark.parametrize("kernel, padding", [(3, 1), (2, 1)])
def test_a_padded_average_with_steps_as_wide_as_its_window(kernel, padding, precision, least, tmp_path):
    """[htp.pool.3]: 0 dB."""
    torch.manual_seed(0)
    model = torch.nn.AvgPool2d(kernel, kernel, padding)
    assert decibels_on_the_library(model, torch.randn(4, 1, 16, 10, 24), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("kernel, padding", [(7, 0), (2, 1), (6, 3), ((3, 1), 0)])
def test_maxima_of_floats_with_steps_of_two(kernel, padding, tmp_path):
    """[htp.pool.9]: what lies past the end, zeros beside the image, and a crash."""
    torch.manual_seed(0)
    model = torch.nn.MaxPool2d(kernel, 2, padding)
    assert decibels_on_the_library(model, torch.randn(2, 1, 8, 17, 20), "fp16", tmp_path, "--fail-on-fallback") > 60


def test_several_filters_of_floats_for_each_channel(tmp_path):
    """[htp.conv.5]: -2 dB."""
    torch.manual_seed(0)
    model = torch.nn.Conv2d(24, 96, 5, padding=(2, 4), dilation=(1, 2), groups=24).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 24, 14, 16), "fp16", tmp_path, "--fail-on-fallback") > 60


@pytest.mark.parametrize("precision, least", [("fp16", 60), ("8a8w", 30)])
def test_a_spread_filter_for_each_channel_that_takes_steps(precision, least, tmp_path):
    """The library has no DepthWiseConv2d with both: zeros stand between the taps. One tap has no dilation."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(16, 16, 3, 2, 3, dilation=3, groups=16), torch.nn.Conv2d(16, 16, 1, 2, dilation=2, groups=16)]
    model = torch.nn.Sequential(*layers).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 16, 14, 16), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("precision, least", [("fp16", 60), ("8a8w", 30)])
@pytest.mark.parametrize("kernel, extra", [(2, 1), (4, 1), (3, 2)])
def test_places_that_no_tap_of_a_transposed_convolution_reaches(kernel, extra, precision, least, tmp_path):
    """[htp.conv.9]: -9 to 17 dB, or not prepared."""
    torch.manual_seed(0)
    model = torch.nn.ConvTranspose2d(8, 4, kernel, kernel, output_padding=extra).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 8, 8, 7), precision, tmp_path, "--fail-on-fallback") > least


def test_a_softmax_of_8_bits_on_a_grid_with_a_zero_point(tmp_path):
    """[htp.softmax.4]: beside numbers below zero, -11 dB."""
    torch.manual_seed(0)
    model = Function(lambda x: torch.cat([torch.softmax(x, 1), 1.5 * x], 1))
    assert decibels_on_the_library(model, torch.randn(4, 1, 8, 6, 6), "8a8w", tmp_path, "--fail-on-fallback") > 30


def test_a_padded_average_of_floats_along_a_line(tmp_path):
    """[htp.pool.3]: -3 dB."""
    torch.manual_seed(0)
    assert decibels_on_the_library(torch.nn.AvgPool1d(3, 1, 1), torch.randn(2, 1, 8, 64), "fp16", tmp_path, "--fail-on-fallback") > 60


@pytest.mark.parametrize("taps, dilation", [(3, 12), (7, 8), (25, 1), (3, 2)])
def test_taps_of_floats_that_reach_far_along_a_line(taps, dilation, tmp_path):
    """[htp.conv.7]: beyond a quarter of the line 2 to 4 dB, as the later layers of a temporal convolution have it."""
    torch.manual_seed(0)
    model = torch.nn.Conv1d(16, 16, taps, padding=dilation * (taps - 1) // 2, dilation=dilation).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 16, 64), "fp16", tmp_path, "--fail-on-fallback") > 60


def test_a_spread_filter_of_floats_has_its_bias_once(tmp_path):
    """[htp.conv.8]: four times with 2048 inputs; DeepLabV3 had 2 dB."""
    torch.manual_seed(0)
    model = torch.nn.Conv2d(2048, 8, 3, padding=36, dilation=36).requires_grad_(False)
    model.bias.fill_(1)
    assert decibels_on_the_library(model, torch.randn(1, 1, 2048, 8, 8), "fp16", tmp_path, "--fail-on-fallback") > 60


@pytest.mark.parametrize("precision, least", [("fp16", 60), ("8a8w", 30)])
@pytest.mark.parametrize("pad", [(3, 3, 3, 3), (3, 0, 0, 0), (0, 0, 3, 0)])
@pytest.mark.parametrize("window", [torch.nn.Conv2d(8, 8, 3), torch.nn.AvgPool2d(3, 1)])
def test_whole_windows_in_the_padding(window, pad, precision, least, tmp_path):
    """[htp.pad.3]: floats were -30 to 0 dB, and above the image alone the library crashed."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1), torch.nn.ZeroPad2d(pad), window).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 8, 8, 16), precision, tmp_path, "--fail-on-fallback") > least


def test_whole_windows_in_a_filters_own_padding(tmp_path):
    """[htp.pad.3]"""
    torch.manual_seed(0)
    model = torch.nn.Conv2d(8, 8, 3, padding=3).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(2, 1, 8, 8, 16), "fp16", tmp_path, "--fail-on-fallback") > 60


@pytest.mark.parametrize("precision, least", [("8a8w", 30), ("16a8w", 45)])
@pytest.mark.parametrize("places", [1, 3])
def test_a_number_that_is_joined_to_rows_is_there(places, precision, least, tmp_path):
    """[htp.pad.2]: in the same block of 32 it is left out; -8 to 3 dB."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(24 + places, 8).requires_grad_(False)
    model = Function(lambda x: layer(torch.cat([x, torch.full((4, places), 0.3)], 1)))
    assert decibels_on_the_library(model, torch.randn(8, 4, 24), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("precision, least", [("fp16", 60), ("8a8w", 30)])
@pytest.mark.parametrize("kernel, length", [(9, 16), (5, 8), (5, 13)])
def test_one_maximum_of_a_line(kernel, length, precision, least, tmp_path):
    """[htp.pool.10]: 5 dB for lines of 8 and 16."""
    torch.manual_seed(0)
    assert decibels_on_the_library(torch.nn.MaxPool1d(kernel), torch.randn(2, 1, 8, length), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("name", ["mean", "sum", "amax", "amin"])
def test_reductions_of_one_number_each(name, tmp_path):
    """[htp.reduce.1]: behind a pool amin had -8 dB with 8 bits."""
    torch.manual_seed(0)
    model = Function(lambda x: getattr(torch, name)(torch.nn.functional.adaptive_max_pool2d(x, 1), (2, 3)))
    assert decibels_on_the_library(model, torch.randn(4, 1, 3, 7, 7), "8a8w", tmp_path, "--fail-on-fallback") > 30


@pytest.mark.parametrize("low, high", [(0, 1), (-0.7, 1.1), (-2, 0.1)])
def test_bounds_of_16_bits_behind_a_product(low, high, tmp_path):
    """[htp.clamp.1]: 7 to 15 dB."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(16, 16, 1), torch.nn.Hardtanh(low, high), torch.nn.Conv2d(16, 16, 3)]
    model = torch.nn.Sequential(*layers).requires_grad_(False)
    assert decibels_on_the_library(model, 2 * torch.randn(4, 1, 16, 8, 8), "16a8w", tmp_path, "--fail-on-fallback") > 35


@pytest.mark.parametrize("channels, precision, least", [(3, "8a8w", 30), (8, "16a8w", 40)])
def test_long_filters_for_each_channel_with_steps_of_two(channels, precision, least, tmp_path):
    """[htp.conv.10]: -9 dB with 8 bits, and not prepared with 16."""
    torch.manual_seed(0)
    model = torch.nn.Conv2d(channels, channels, 9, 2, 4, groups=channels).requires_grad_(False)
    assert decibels_on_the_library(model, torch.randn(4, 1, channels, 24, 24), precision, tmp_path, "--fail-on-fallback") > least


@pytest.mark.parametrize("reduce", [torch.mean, torch.sum])
@pytest.mark.parametrize("rows, channels", [(1, 256), (7, 160), (8, 333)])
def test_a_sum_along_many_numbers_of_16_bits_has_them_all(rows, channels, reduce, tmp_path):
    """[htp.reduce.2]: behind a linear layer some blocks of 32 were left out, 12 to 14 dB."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(32, channels).requires_grad_(False)
    model = Function(lambda x: reduce(torch.relu(layer(x)), -1, keepdim=True))
    assert decibels_on_the_library(model, torch.randn(4, 1, rows, 32), "16a8w", tmp_path, "--fail-on-fallback") > 55


def heads(x):
    return x[:, None, None].expand(1, 1, 4, 32, 32).reshape(1, 4, 32, 32)


@pytest.mark.parametrize("precision, least", [("8a8w", 25), ("16a8w", 40), ("fp16", 55)])
@pytest.mark.parametrize("use", [lambda x, v: heads(v), lambda x, v: x[..., :32] @ heads(v)])
def test_heads_that_are_repeated_have_all_rows_where_these_are_as_many_as_columns(use, precision, least, tmp_path):
    """[htp.reshape.1]: on a grid the first row alone, 0 dB; with floats the library crashed."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 32).requires_grad_(False)
    model = Function(lambda x: use(x, layer(x[:, 0])))
    assert decibels_on_the_library(model, torch.randn(4, 1, 4, 32, 64), precision, tmp_path, "--fail-on-fallback") > least
