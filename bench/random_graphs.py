#!/usr/bin/env python3
"""Random graphs of one to four layers on both engines, against float: where Qualcomm's library computes wrongly.

    python bench/random_graphs.py FIRST END [--precision fp16,8a8w,16a8w] [--prefixes]

One graph for each seed from FIRST to END - 1, compiled for the emulator and for the library and run on four random inputs. A line
for each: its layers, and decibels from torch's floats on emulator/library. What follows ## asks for a look:

    LIB, EMU   one engine is 8 dB below the other, and below what the precision gives
    LOW        both are
    CPU        a node does not run on the NPU

--prefixes shows for each seed how every run of neighbouring layers fares by itself, which tells where it begins. SIXFOLD names
the program; VIRTUAL_ENV or QNN_SDK_ROOT the library's place, as ever.
"""
import argparse
import os
import pathlib
import random
import subprocess
import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()
LIMIT = {"fp16": 45, "8a8w": 28, "16a8w": 45}  # below this a difference counts
POOR = {"fp16": 40, "8a8w": 12, "16a8w": 30}
R = random.Random()


def pick(*options):
    return R.choice(options)


class Do(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def half_or_any(taps, dilation=1, most=3):
    reach = dilation * (taps - 1)
    return pick(0, reach // 2, reach // 2, R.randint(0, most))


def conv2d(shape):
    channels = shape[1]
    kernel = [pick(1, 2, 3, 3, 4, 5, 7)] * 2 if R.random() < 0.6 else [pick(1, 2, 3, 5, 7), pick(1, 2, 3, 5, 7)]
    dilation = [pick(1, 1, 1, 2, 3, 4, 6)] * 2 if R.random() < 0.8 else [pick(1, 2, 3), pick(1, 2, 3)]
    stride = [pick(1, 1, 1, 2, 2, 3, 4)] * 2 if R.random() < 0.85 else [pick(1, 2), pick(1, 2, 3)]
    padding = [half_or_any(k, d) for k, d in zip(kernel, dilation)]
    groups = pick(1, 1, 1, channels, channels, *(g for g in (2, 4, 8) if channels % g == 0))
    out = channels if groups == channels and R.random() < 0.8 else groups * pick(1, 2, 4, max(1, channels // groups), 8)
    name = f"conv2d {channels}>{out} k{kernel} s{stride} p{padding} d{dilation} g{groups}"
    return name, nn.Conv2d(channels, out, kernel, stride, padding, dilation, groups, bias=R.random() < 0.8)


def conv1d(shape):
    channels, kernel, dilation = shape[1], pick(1, 2, 3, 3, 5, 7, 9, 15, 31), pick(1, 1, 2, 4, 8)
    stride, padding = pick(1, 1, 1, 2, 3, 4), half_or_any(kernel, dilation, 2)
    groups = pick(1, 1, channels, 2 if channels % 2 == 0 else 1)
    out = channels if groups == channels else groups * pick(1, 4, max(1, channels // groups))
    name = f"conv1d {channels}>{out} k{kernel} s{stride} p{padding} d{dilation} g{groups}"
    return name, nn.Conv1d(channels, out, kernel, stride, padding, dilation, groups, bias=R.random() < 0.8)


def transposed2d(shape):
    channels, kernel, stride = shape[1], pick(2, 3, 4, 5), pick(1, 2, 2, 3, 4)
    padding, extra, groups = pick(0, 1, kernel // 2), pick(0, 0, 1) if stride > 1 else 0, pick(1, 1, channels)
    out = channels if groups == channels else pick(4, channels)
    return f"transposed2d {channels}>{out} k{kernel} s{stride} p{padding}+{extra} g{groups}", nn.ConvTranspose2d(
        channels, out, kernel, stride, padding, extra, groups)


def pool2d(shape):
    kernel = [pick(1, 2, 2, 3, 3, 4, 5, 7)] * 2 if R.random() < 0.6 else [pick(1, 2, 3, 5), pick(1, 2, 3, 5)]
    stride = [pick(1, 2, 2, 3)] * 2 if R.random() < 0.7 else kernel
    padding, ceil, counts = [pick(0, k // 2) for k in kernel], R.random() < 0.2, R.random() < 0.6
    name = f"k{kernel} s{stride} p{padding} ceil={ceil}"
    return pick((f"max2d {name}", nn.MaxPool2d(kernel, stride, padding, ceil_mode=ceil)),
                (f"avg2d {name} counts={counts}", nn.AvgPool2d(kernel, stride, padding, ceil, counts)))


def pool1d(shape):
    kernel = pick(2, 3, 4, 5, 8, 9)
    stride, padding = pick(1, 2, kernel), pick(0, kernel // 2)
    name = f"k{kernel} s{stride} p{padding}"
    return pick((f"max1d {name}", nn.MaxPool1d(kernel, stride, padding)), (f"avg1d {name}", nn.AvgPool1d(kernel, stride, padding)))


def adaptive(shape):
    if len(shape) == 3:
        return pick(*((f"adaptive avg {n}", nn.AdaptiveAvgPool1d(n)) for n in (1, 2, 3, 5)))
    size = pick(1, 2, 3, 4, (1, None), (None, 1))
    return pick((f"adaptive avg {size}", nn.AdaptiveAvgPool2d(size)), (f"adaptive max {size}", nn.AdaptiveMaxPool2d(size)))


def pad(shape):
    axes = pick(1, 2) if len(shape) == 4 else 1
    amount = [pick(0, 1, 2, 3, 5) for _ in range(2 * axes)]
    mode = pick("constant", "constant", "reflect", "replicate") if axes == len(shape) - 2 else "constant"
    value = pick(0.0, 0.0, 0.5, -1.0) if mode == "constant" else None
    return f"pad {amount} {mode} {value}", Do(lambda x: F.pad(x, amount, mode, value))


def resize(shape):
    mode, scale = pick("nearest", "bilinear", "bilinear", "bicubic"), pick(2, 2, 3, 0.5, 1.5)
    corners = None if mode == "nearest" else R.random() < 0.4
    return f"resize {mode} {scale} corners={corners}", Do(lambda x: F.interpolate(x, scale_factor=scale, mode=mode, align_corners=corners))


def norm(shape):
    channels = shape[1]
    kind = pick("layer", "layer2", "group", "instance", "rms", "batch")
    if kind == "layer2":
        return f"layer norm {shape[-2:]}", nn.LayerNorm(list(shape[-2:]))
    if kind == "group":
        groups = pick(*(g for g in (1, 2, 4, 8, channels) if channels % g == 0))
        return f"group norm {groups}", nn.GroupNorm(groups, channels)
    if kind == "instance" and len(shape) > 2:
        return "instance norm", (nn.InstanceNorm1d if len(shape) == 3 else nn.InstanceNorm2d)(channels, affine=True)
    if kind == "rms":
        return "rms norm", nn.RMSNorm(shape[-1])
    if kind == "batch":
        layer = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(channels)
        for tensor, low, high in ((layer.running_mean, -1, 1), (layer.running_var, 0.5, 2), (layer.weight.data, 0.3, 2)):
            tensor.uniform_(low, high)
        return "batch norm", layer
    return "layer norm", nn.LayerNorm(shape[-1])


def reduction(shape):
    axes, keep = sorted(R.sample(range(1, len(shape)), R.randint(1, len(shape) - 1))), R.random() < 0.6
    name = pick("mean", "sum", "amax", "amin", "var", "std", "norm")
    function = torch.linalg.vector_norm if name == "norm" else getattr(torch, name)
    return f"{name} {axes} keep={keep}", Do(lambda x: function(x, dim=axes, keepdim=keep))


def softmax(shape):
    axis, name = R.randint(1, len(shape) - 1), pick("softmax", "softmax", "log_softmax")
    return f"{name} {axis}", Do(lambda x: getattr(torch, name)(x, axis))


FORMULAS = {
    "exp": lambda x: torch.exp(x.clamp(max=4)), "sqrt": lambda x: torch.sqrt(x.abs() + 0.1), "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.2),
    "log": lambda x: torch.log(x.abs() + 0.2), "square": lambda x: x * x, "sin": torch.sin, "reciprocal": lambda x: 1 / (x.abs() + 0.3),
    "clamp": lambda x: x.clamp(-0.7, 1.1), "where": lambda x: torch.where(x > 0, x, x * 0.1 + 0.05), "gate": lambda x: x * torch.sigmoid(x),
    "scaled": lambda x: x * 0.37 + 0.2, "centred": lambda x: x - x.mean(-1, keepdim=True), "shared": lambda x: x / (x.abs().mean(-1, keepdim=True) + 0.2),
    "larger": lambda x: torch.maximum(x, x.mean(-1, keepdim=True)), "outer": lambda x: x.mean(-1, keepdim=True) * x.amax(1, keepdim=True),
    "attention": lambda x: torch.softmax(x @ x.transpose(-1, -2) / x.shape[-1]**0.5, -1) @ x, "squared": lambda x: x @ x.transpose(-1, -2) / 8,
}
ACTIVATIONS = ("relu", "relu6", "hardswish", "silu", "gelu", "sigmoid", "tanh", "elu", "leaky_relu", "hardsigmoid", "softplus", "mish", "selu",
               "hardtanh", "softsign", "celu", "logsigmoid")


def formula(shape):
    name = pick(*FORMULAS, *ACTIVATIONS)
    return name, Do(FORMULAS.get(name) or (lambda x: getattr(F, name)(x)))


def constant(shape):
    name, row = pick("add", "mul"), pick(torch.randn([1, shape[1]] + [1] * (len(shape) - 2)), torch.randn(shape[-1]))
    return f"{name} {list(row.shape)}", Do(lambda x: getattr(torch, name)(x, row))


def product(shape):
    out = pick(4, 8, shape[-1], 33)
    return f"linear >{out}", nn.Linear(shape[-1], out, bias=R.random() < 0.7)


def move(shape):
    rank, axis = len(shape), R.randint(1, len(shape) - 1)
    kind = pick("permute", "permute", "flatten", "slice", "slice", "join", "number", "swap", "flip", "roll", "repeat", "select", "shuffle", "pixels")
    if kind == "permute":
        order = [0] + R.sample(range(1, rank), rank - 1)
        return f"permute {order}", Do(lambda x: x.permute(order).contiguous())
    if kind == "flatten":
        return f"flatten {axis}", Do(lambda x: x.flatten(axis))
    if kind == "slice":
        step, begin = pick(1, 1, 2, 3), R.randint(0, shape[axis] // 2)
        end = R.randint(begin + 1, shape[axis])
        return f"slice {axis} {begin}:{end}:{step}", Do(lambda x: torch.ops.aten.slice(x, axis, begin, end, step))
    if kind == "join":
        return f"join {axis}", Do(lambda x: torch.cat([x, x * 0.5], axis))
    if kind == "number":
        places = pick(1, 3)
        return f"join number {axis} {places}", Do(lambda x: torch.cat([x, torch.full([*x.shape[:axis], places, *x.shape[axis + 1:]], 0.3)], axis))
    if kind == "swap":
        return f"swap {axis}", Do(lambda x: torch.cat(torch.split(x, [1, x.shape[axis] - 1], axis)[::-1], axis))
    if kind == "flip":
        return f"flip {axis}", Do(lambda x: x.flip(axis))
    if kind == "roll":
        return f"roll {axis}", Do(lambda x: torch.roll(x, 1, axis))
    if kind == "repeat":
        times = [2 if a == axis else 1 for a in range(rank)]
        return f"repeat {times}", Do(lambda x: x.repeat(times))
    if kind == "select":
        index = torch.tensor([R.randrange(shape[axis]) for _ in range(pick(1, 3, shape[axis]))])
        return f"select {axis} {len(index)}", Do(lambda x: torch.index_select(x, axis, index))
    if kind == "shuffle":
        return "shuffle", Do(lambda x: x.reshape(x.shape[0], 2, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape))
    return pick(("pixel shuffle", nn.PixelShuffle(2)), ("pixel unshuffle", nn.PixelUnshuffle(2)))


ANY = [norm, reduction, softmax, formula, formula, formula, move, move, constant, product]
KINDS = {4: [conv2d] * 4 + [pool2d] * 2 + [transposed2d, pad, resize, adaptive], 3: [conv1d] * 4 + [pool1d, pad, adaptive]}


def build(seed):
    R.seed(seed)
    torch.manual_seed(seed)
    channels = pick(3, 8, 16, 24, 32, 40, 64, 96)
    shape = pick((1, channels, pick(1, 4, 7, 8, 14, 16), pick(4, 7, 8, 14, 16, 20)), (pick(1, 1, 2), channels, pick(7, 16, 30, 64, 100)),
                 (pick(1, 4), channels))
    x = torch.randn(4, *shape)
    value, names, layers = x[0], [str(tuple(shape))], []
    for _ in range(200):  # most that does not fit is drawn again
        if len(layers) == 1 + seed % 4:
            break
        try:
            name, layer = R.choice(ANY + KINDS.get(value.dim(), []))(tuple(value.shape))
            with torch.no_grad():
                y = layer.eval()(value)
        except (RuntimeError, ValueError, IndexError, AssertionError):
            continue
        if 2 <= y.dim() <= 5 and 2 <= y.numel() <= 200000 and y.isfinite().all() and y.abs().max() < 1e3 and (y.numel() < 3 or y.std() > 1e-3):
            names.append(name)
            layers.append(layer)
            value = y
    return nn.Sequential(*layers).eval().requires_grad_(False), x, " | ".join(names)


def decibels(want, got):
    noise = np.linalg.norm(want - got)
    return 20 * np.log10(np.linalg.norm(want) / noise) if noise > 0 else 200


def engines(model, x, precision):
    """Decibels on the emulator and on the library (None: it did not run), and what was said of the CPU or by an error."""
    with tempfile.TemporaryDirectory() as folder:
        want = np.stack([model(row).numpy() for row in x])
        torch.export.save(torch.export.export(model, (x[0],)), f"{folder}/m.pt2")
        np.savez(f"{folder}/x.npz", in0=x.numpy())
        samples = [] if precision == "fp16" else ["--calib", f"{folder}/x.npz", "--no-accuracy"]
        results, said = [], []
        for engine in ("emulator", "qnn"):
            compiled = subprocess.run([SIXFOLD, "compile", f"{folder}/m.pt2", "-o", f"{folder}/m.pte", "--engine", engine, "--precision", precision,
                                       *samples], capture_output=True, text=True)
            ran = compiled if compiled.returncode else subprocess.run(
                [SIXFOLD, "run", f"{folder}/m.pte", "--engine", engine, "--npz", f"{folder}/x.npz", "--npz-out", f"{folder}/y.npz"],
                capture_output=True, text=True)
            if ran.returncode:
                said.append(f"{precision} {engine}: {ran.stderr.strip()[-200:]}")
                results.append(None)
                continue
            if "all nodes" not in compiled.stdout + compiled.stderr:
                said.append(f"{precision} {engine} CPU")
            results.append(decibels(want, np.load(f"{folder}/y.npz")["out0"].reshape(want.shape)))
        return results, said


def verdict(emulator, library, precision):
    if emulator is None or library is None:
        return []
    lower = min(emulator, library)
    if lower < LIMIT[precision] and abs(emulator - library) > 8:
        return [f"{precision} {'LIB' if library < emulator else 'EMU'}"]
    return [f"{precision} LOW"] if max(emulator, library) < POOR[precision] else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--precision", default="fp16,8a8w,16a8w")
    parser.add_argument("--prefixes", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for seed in range(args.first, args.end):
        model, x, name = build(seed)
        print(seed, name, end="  ", flush=True)
        looks = []
        for precision in args.precision.split(","):
            (emulator, library), said = engines(model, x, precision)
            looks += said + verdict(emulator, library, precision)
            shown = ["-" if v is None else f"{v:.0f}" for v in (emulator, library)]
            print(precision, "/".join(shown), end="  ", flush=True)
        print("## " + "; ".join(looks) if looks else "", flush=True)
        if not args.prefixes:
            continue
        for begin in range(len(model)):
            value = x
            for layer in model[:begin]:
                value = torch.stack([layer(row) for row in value])
            for end in range(begin + 1, len(model) + 1):
                for precision in args.precision.split(","):
                    results, _ = engines(model[begin:end], value, precision)
                    print(f"    layers {begin} to {end - 1}, {precision}:", *("-" if v is None else f"{v:.1f}" for v in results), flush=True)


if __name__ == "__main__":
    main()
