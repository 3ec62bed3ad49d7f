#!/usr/bin/env python3
"""Write small models that each have one planted reason not to run on the NPU, for test_audit.py.

    python make_audit_models.py OUT [--only REGEX]

Each is OUT/<name>.pt2. What the audit has to say of it stands in CASES beside the model.
"""
import argparse, pathlib, re

import numpy as np
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

CASES = {}


def case(**expected):
    """expected: op and reason (regular expressions), fix (a name; None: none may be offered), options of `sixfold audit`;
    applies: --apply-fixes makes it; runs: the fixed program takes the model's inputs; tolerance: of its outputs."""

    def add(function):
        CASES[function.__name__] = (function, expected)
        return function

    return add


class Between(nn.Module):
    """The planted op between two layers that the NPU has."""

    def __init__(self, planted, width=16, out=None):
        super().__init__()
        self.before, self.planted, self.after = nn.Linear(width, width), planted, nn.Linear(out or width, 8)

    def forward(self, x):
        return self.after(self.planted(self.before(x)))


def between(planted, shape=(4, 16), out=None, **export):
    model = Between(planted, shape[-1], out).eval()
    return model, (torch.randn(*shape),), export


class Then(nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args):
        return self.function(self, *args)


def alone(function, *args, **parts):
    export = parts.pop("export", {})
    return Then(function, **parts).eval(), args, export


# -- no such op on the device -----------------------------------------------------------------------------------------


@case(op=r"erfinv", reason=r"no op for erfinv", fix="erfinv_formula")
def erfinv():
    return between(lambda x: torch.erfinv(torch.tanh(x)))


@case(op=r"lgamma", reason=r"no op for lgamma", fix=None)
def lgamma():
    return between(lambda x: torch.lgamma(x.abs() + 1))


@case(op=r"digamma", reason=r"function digamma", fix=None)
def digamma():
    return between(lambda x: torch.digamma(x.abs() + 1))


@case(op=r"cumprod", reason=r"no op for cumprod", fix="formula")
def cumprod():
    return between(lambda x: torch.cumprod(x, 1))


@case(op=r"cummax", reason=r"no op for cummax", fix="formula")
def cummax():
    return between(lambda x: torch.cummax(x, 1)[0])


@case(op=r"logcumsumexp", reason=r"no op for logcumsumexp", fix="formula")
def logcumsumexp():
    return between(lambda x: torch.logcumsumexp(x, 1))


@case(op=r"rand_like", reason=r"256 steps", fix="quantize", applies=False)
def rand():
    return between(lambda x: x + torch.rand_like(x))


@case(op=r"bernoulli", reason=r"random numbers", fix=None)
def bernoulli():
    return between(lambda x: torch.bernoulli(torch.sigmoid(x)))


@case(op=r"det", reason=r"function lu", fix=None)
def det():
    return alone(lambda m, x: m.a(x).det(), torch.randn(2, 4, 4), a=nn.Linear(4, 4))


@case(op=r"linalg_inv", reason=r"function solve", fix=None)
def inverse():
    return alone(lambda m, x: torch.linalg.inv(m.a(x)), torch.randn(2, 4, 4), a=nn.Linear(4, 4))


@case(op=r"cholesky", reason=r"function cholesky", fix=None)
def cholesky():
    def f(m, x):
        y = m.a(x)
        return torch.linalg.cholesky(y @ y.mT + torch.eye(4))

    return alone(f, torch.randn(2, 4, 4), a=nn.Linear(4, 4))


@case(op=r"svdvals", reason=r"function svd", fix=None)
def svd():
    return alone(lambda m, x: torch.linalg.svdvals(m.a(x)), torch.randn(2, 4, 4), a=nn.Linear(4, 4))


@case(op=r"special_i0e", reason=r"function i0e", fix=None)
def bessel():
    return between(lambda x: torch.special.i0e(x))


@case(op=r"mode", reason=r"no op for cummax", fix="formula")
def mode():
    return between(lambda x: torch.mode(x, -1, keepdim=True)[0], out=1)


@case(op=r"bincount", reason=r"depends on data", fix=None)
def bincount():
    return alone(lambda m, x: torch.bincount(x, minlength=8), torch.randint(0, 8, (16,)))


@case(op=r"lshift", reason=r"no op for shift_left", fix="power_of_two")
def shift():
    return alone(lambda m, x: (m.a(x) * 10).to(torch.int32) << 2, torch.randn(2, 4), a=nn.Linear(4, 4))


@case(op=r"and", reason=r"bitwise operations of bools only", fix="power_of_two")
def bitwise_ints():
    return alone(lambda m, x: (m.a(x) * 10).to(torch.int32) & 7, torch.randn(2, 4), a=nn.Linear(4, 4))


@case(op=r"view.dtype", reason=r"no op for bitcast", fix=None)
def bitcast():
    return between(lambda x: x.view(torch.int32).to(torch.float32))


# -- custom ops, control flow, other kinds of tensors --------------------------------------------------------------------

torch.library.define("sixtest::twice", "(Tensor x) -> Tensor")
torch.library.impl("sixtest::twice", "cpu", lambda x: x * 2)
torch.library.register_fake("sixtest::twice", lambda x: torch.empty_like(x))


@case(op=r"sixtest", reason=r"custom op", fix=None)
def custom():
    return between(lambda x: torch.ops.sixtest.twice(x))


@case(op=r"map_impl", reason=r"control flow", fix=None)
def map_():
    from torch._higher_order_ops.map import map as hmap
    return alone(lambda m, x: hmap(lambda y: y.sin() + 1, m.a(x)), torch.randn(4, 8), a=nn.Linear(8, 8))


@case(op=r"while_loop", reason=r"control flow", fix=None)
def while_():
    from torch._higher_order_ops.while_loop import while_loop
    def f(m, x):
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.zeros((), dtype=torch.int64), m.a(x)))[1]
    return alone(f, torch.randn(4, 8), a=nn.Linear(8, 8))


@case(op=r"nonzero", reason=r"depends on data", fix=None)
def nonzero():
    return alone(lambda m, x: m.a(x).nonzero(), torch.randn(4, 8), a=nn.Linear(8, 8))


@case(op=r"masked_select|sum", reason=r"depends on data", fix=None)
def masked_select():
    return alone(lambda m, x: torch.masked_select(m.a(x), x > 0).sum(), torch.randn(4, 8), a=nn.Linear(8, 8))


@case(op=r"index|linear", reason=r"depends on data", fix=None)
def bool_index():
    def f(m, x):
        y = m.a(x)
        return m.b(y[y[:, 0] > 0])
    return alone(f, torch.randn(4, 8), a=nn.Linear(8, 8), b=nn.Linear(8, 2))


@case(op=r"mul", reason=r"depends on data", fix=None)
def item():
    def f(m, x, n):
        return m.a(x) * n.item()
    return alone(f, torch.randn(4, 8), torch.tensor(3), a=nn.Linear(8, 8))


@case(op=r"fft_rfft|abs", reason=r"complex64", fix=None)
def fft():
    return between(lambda x: torch.fft.rfft(x).abs(), out=9)


@case(op=r"stft|abs", reason=r"complex64", fix=None)
def stft():
    return alone(lambda m, x: torch.stft(m.a(x), 16, window=torch.ones(16), return_complex=True).abs(), torch.randn(1, 64), a=nn.Linear(64, 64))


# -- types ---------------------------------------------------------------------------------------------------------------


@case(op=r"to.dtype|mul|sin", reason=r"float64.*htp\.type\.1", fix="float32")
def f64():
    return between(lambda x: torch.sin(x.double() * 3).float())


@case(op=r"linear|relu", reason=r"float64.*htp\.type\.1", fix="float32")
def f64_model():
    m = Between(nn.ReLU()).double().eval()
    return m, (torch.randn(4, 16, dtype=torch.float64),), {}


@case(op=r"linear|relu", reason=r"bfloat16.*htp\.type\.1", fix="float32", tolerance=0.05)
def bf16():
    m = Between(nn.ReLU()).to(torch.bfloat16).eval()
    return m, (torch.randn(4, 16, dtype=torch.bfloat16),), {}


@case(op=r"matmul", reason=r"products of floats only", fix="float_numbers")
def int_matmul():
    return alone(lambda m, x, y: x @ y, torch.randint(0, 9, (4, 8), dtype=torch.int32), torch.randint(0, 9, (8, 4), dtype=torch.int32))


@case(op=r"add", reason=r"INT_8", fix="int32")
def int8_add():
    return alone(lambda m, x, y: x + y, torch.randint(0, 9, (4, 8), dtype=torch.int8), torch.randint(0, 9, (4, 8), dtype=torch.int8))


@case(op=r"mul", reason=r"INT_16", fix="int32")
def int16_mul():
    return alone(lambda m, x, y: x * y, torch.randint(0, 9, (4, 8), dtype=torch.int16), torch.randint(0, 9, (4, 8), dtype=torch.int16))


@case(op=r"add", reason=r"UINT_8", fix="int32")
def uint8_add():
    return alone(lambda m, x, y: x + y, torch.randint(0, 9, (4, 8), dtype=torch.uint8), torch.randint(0, 9, (4, 8), dtype=torch.uint8))


@case(op=r"mul", reason=r"3000000000.*htp\.type\.2", fix=None)
def int64_big():
    return alone(lambda m, x: x * 3_000_000_000 + 5, torch.randint(0, 9, (4, 8)))


@case(op=r"mul|add", reason=r"htp\.cast\.1", fix="merge_axes")
def int64_rank5():
    return alone(lambda m, x: x * 3 + 5, torch.randint(0, 9, (2, 2, 2, 2, 2)))


@case(op=r"avg_pool2d", reason=r"averages floats only", fix="float_numbers")
def int_avg_pool():
    return alone(lambda m, x: F.avg_pool2d(x, 2), torch.randint(0, 9, (1, 2, 8, 8)))


@case(op=r"max_pool2d", reason=r"INT_8", fix="float_numbers")
def int_max_pool():
    return alone(lambda m, x: F.max_pool2d(x, 2), torch.randint(0, 9, (1, 2, 8, 8), dtype=torch.int8))



# -- ranks -----------------------------------------------------------------------------------------------------------------


@case(op=r"tanh|add", reason=r"rank 6.*htp\.rank\.1", fix="merge_axes")
def rank6_add():
    return alone(lambda m, x: torch.tanh(x) + m.p, torch.randn(2, 3, 2, 3, 2, 3), p=nn.Parameter(torch.randn(3, 2, 3, 2, 3)))


@case(op=r"softmax", reason=r"htp\.rank\.1", fix="merge_axes")
def rank6_softmax():
    return alone(lambda m, x: torch.softmax(x, 2), torch.randn(2, 3, 4, 3, 2, 3))


@case(op=r"layer_norm", reason=r"htp\.rank\.1", fix="merge_axes")
def rank6_layer_norm():
    return alone(lambda m, x: m.n(x), torch.randn(2, 3, 2, 3, 4, 8), n=nn.LayerNorm(8))


@case(op=r"mean", reason=r"htp\.rank\.1", fix="merge_axes")
def rank6_mean():
    return alone(lambda m, x: x.mean((1, 3, 5)), torch.randn(2, 3, 2, 3, 4, 8))


@case(op=r"expand", reason=r"htp\.rank\.1", fix="expand_by_axis")
def rank6_expand():
    return alone(lambda m, x: x[:, None, :, None, :, None].expand(2, 3, 2, 3, 4, 3) * 1.5, torch.randn(2, 2, 4))


@case(op=r"isinf", reason=r"htp\.isinf\.1", fix="merge_axes")
def rank6_isinf():
    return alone(lambda m, x: torch.isinf(x), torch.randn(2, 3, 4, 3, 2))


@case(op=r"cat", reason=r"htp\.rank\.1", fix=None)
def rank6_concat():
    return alone(lambda m, x, y: torch.cat([x, y], 3), torch.randn(2, 3, 4, 3, 2, 3), torch.randn(2, 3, 4, 1, 2, 3))


@case(op=r"argmax", reason=r"htp\.rank\.1", fix="merge_axes")
def rank6_argmax():
    return alone(lambda m, x: torch.argmax(x, 2), torch.randn(2, 3, 4, 3, 2, 3))


@case(op=r"cumsum", reason=r"htp\.rank\.1", fix="merge_axes")
def rank6_cumsum():
    return alone(lambda m, x: torch.cumsum(x, 2), torch.randn(2, 3, 4, 3, 2, 3))


@case(op=r"where|gt", reason=r"htp\.rank\.1", fix="merge_axes")
def rank6_where():
    return alone(lambda m, x, y: torch.where(x > 0, x, y), torch.randn(2, 3, 4, 3, 2, 3), torch.randn(3, 1, 3, 1, 3))


# -- ops with limits ----------------------------------------------------------------------------------------------------------


@case(op=r"max_pool2d_with_indices", reason=r"indices.*htp\.pool\.2", fix="pool_by_slices")
def max_pool_indices():
    def f(m, x):
        y, i = F.max_pool2d(m.a(x), 2, return_indices=True)
        return y, i
    return alone(f, torch.randn(1, 3, 16, 16), a=nn.Conv2d(3, 8, 3))


@case(op=r"adaptive_max_pool2d", reason=r"indices are used", fix="formula")
def adaptive_max_indices():
    return alone(lambda m, x: F.adaptive_max_pool2d(m.a(x), 4, return_indices=True), torch.randn(1, 3, 16, 16), a=nn.Conv2d(3, 8, 3, padding=1))


@case(op=r"fractional_max_pool2d", reason=r"random windows", fix=None)
def fractional_max_pool():
    return alone(lambda m, x: F.fractional_max_pool2d(m.a(x), 2, output_size=5), torch.randn(1, 3, 16, 16), a=nn.Conv2d(3, 8, 3, padding=1))


@case(op=r"conv_transpose2d", reason=r"no dilation in a transposed", fix="dilated_filter")
def conv_transpose_computed_dilated():
    return alone(lambda m, x, w: F.conv_transpose2d(m.a(x), w, dilation=2), torch.randn(1, 3, 8, 8), torch.randn(8, 8, 3, 3), a=nn.Conv2d(3, 8, 1))


@case(op=r"conv2d", reason=r"htp\.prepare\.1.*TCM", fix=None)
def conv_stride_big():
    return alone(lambda m, x: m.a(x), torch.randn(1, 3, 600, 600), a=nn.Conv2d(3, 8, 3, stride=300))


@case(op=r"grid_sampler", reason=r"no bicubic sampling", fix="bilinear", tolerance=0.3)
def grid_bicubic():
    return alone(lambda m, x, g: F.grid_sample(m.a(x), g, mode="bicubic", align_corners=False), torch.randn(1, 3, 8, 8), torch.rand(1, 4, 4, 2), a=nn.Conv2d(3, 8, 1))


@case(op=r"lstm", reason=r"2100 steps", fix=None)
def long_lstm():
    return alone(lambda m, x: m.r(x)[0], torch.randn(2100, 1, 4), r=nn.LSTM(4, 4))


@case(op=r"add", reason=r"no elements.*htp\.empty\.1", fix=None)
def zero_extent():
    return alone(lambda m, x, y: (m.a(x).sum(), y + 1), torch.randn(4, 8), torch.randn(0, 8), a=nn.Linear(8, 8))


@case(op=r"relu", reason=r"11.2 GB.*htp\.size\.1", fix=None)
def huge():
    return alone(lambda m, x: torch.relu(x.expand(70000, 40000)).sum(1), torch.randn(1, 40000))


# -- sizes that are not numbers ----------------------------------------------------------------------------------------------


@case(op=r"linear|relu", reason=r"symbolic.*s\d+.*htp\.shape\.1", fix="static_shape", runs=False)
def dynamic_batch():
    return alone(lambda m, x: torch.relu(m.a(x)), torch.randn(4, 8), a=nn.Linear(8, 8), export={"dynamic_shapes": {"args": (({0: Dim("n", min=1, max=16)}),)}})


@case(op=r"linear|relu", reason=r"symbolic.*htp\.shape\.1", fix="static_shape", runs=False)
def dynamic_open():
    return alone(lambda m, x: torch.relu(m.a(x)), torch.randn(4, 8), a=nn.Linear(8, 8), export={"dynamic_shapes": {"args": (({0: Dim("n")}),)}})


@case(op=r"conv2d|upsample", reason=r"symbolic.*htp\.shape\.1", fix="static_shape", runs=False)
def dynamic_image():
    h = Dim("h", min=8, max=64)
    return alone(lambda m, x: F.interpolate(m.a(x), scale_factor=2), torch.randn(1, 3, 16, 16), a=nn.Conv2d(3, 4, 3), export={"dynamic_shapes": {"args": (({2: h}),)}})



# -- encodings ---------------------------------------------------------------------------------------------------------------

from torch.ao.quantization.fx import _decomposed  # noqa: F401 registers quantized_decomposed
q8 = torch.ops.quantized_decomposed.quantize_per_tensor.default
dq8 = torch.ops.quantized_decomposed.dequantize_per_tensor.default


def qdq(x, bits=8, scale=0.05):
    if bits == 8:
        return dq8(q8(x, scale, 128, 0, 255, torch.uint8), scale, 128, 0, 255, torch.uint8)
    return dq8(q8(x, scale / 256, 32768, 0, 65535, torch.int32), scale / 256, 32768, 0, 65535, torch.int32)


@case(op=r"matmul", reason=r"needs HTP v73", fix="newer_chip", options=["--soc", "QCM6490"], applies=False)
def matmul_16x16_v68():
    return alone(lambda m, x, y: qdq(qdq(x, 16) @ qdq(y, 16), 16, 0.5), torch.randn(4, 8), torch.randn(8, 4))


@case(op=r"linear|relu", reason=r"FP16", fix="quantize", options=["--soc", "QCM6490"], applies=False)
def fp16_v68():
    return between(nn.ReLU())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, (make, _) in CASES.items():
        if not re.search(options.only, name):
            continue
        torch.manual_seed(0)
        model, args, export = make()
        with torch.no_grad():
            program = torch.export.export(model, args, **export)
        torch.export.save(program, options.out / f"{name}.pt2")
        for i, arg in enumerate(args):
            if arg.dtype != torch.bfloat16:  # numpy has none
                np.save(options.out / f"{name}.in_{i}.npy", arg.numpy())


if __name__ == "__main__":
    main()
