"""A runtime with the kernels of one model alone (SIXFOLD_KERNELS_FROM), without oneDNN: its size, its results, what it refuses.

It is built for a net with the layers of MobileNetV2 in small; SIXFOLD_MOBILENET names the .pte of a real one, for which it is then
built. .work/selective keeps what was built.
"""
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
from conftest import ROOT, SIXFOLD, WORK, call

PROGRAM = ROOT / "test/pte/conv.pte"
MOST_BYTES = 250_000
MOBILENET_KERNELS = ["_adaptive_avg_pool2d", "add", "clamp", "convolution", "linear"]
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DSIXFOLD_ONEDNN=OFF", "-DSIXFOLD_THREADS=OFF", "-DSIXFOLD_ONE_SIMD_TARGET=ON", "-DSIXFOLD_QNN=OFF"]


def test_what_a_program_needs_is_listed():
    listed = call("kernels", PROGRAM)
    assert listed.returncode == 0, listed.stderr
    lines = {line.split("[")[0].split()[-1]: line for line in listed.stdout.splitlines() if "kKept" in line}
    assert '"aten::convolution.out"' in lines["kKeptKernels"] and "aten::gelu.out" not in lines["kKeptKernels"]
    assert '"aten.hardtanh.default"' in lines["kKeptRules"]
    assert '"convolution"' in lines["kKeptOps"] and '"sin"' not in lines["kKeptOps"]
    assert '"conv"' in lines["kKeptFamilies"] and '"rnn"' not in lines["kKeptFamilies"]
    assert "executorch_prim" not in lines["kKeptKernels"] and "external data" not in lines["kKeptKernels"]
    assert '"f32"' in lines["kKeptDTypes"] and '"f64"' not in lines["kKeptDTypes"]


def test_what_several_programs_need_is_what_each_needs():
    both = call("kernels", PROGRAM, ROOT / "test/pte/mlp.pte").stdout
    assert '"aten::convolution.out"' in both and '"aten::gelu.out"' in both


class Bottlenecks(torch.nn.Module):
    """What MobileNetV2 repeats: expand, depthwise, project, add."""

    def __init__(self):
        super().__init__()
        self.stem, self.expand, self.depth = self.block(3, 8, 3, 2), self.block(8, 16, 1), self.block(16, 16, 3, groups=16)
        self.project = torch.nn.Sequential(torch.nn.Conv2d(16, 8, 1, bias=False), torch.nn.BatchNorm2d(8))
        self.head = torch.nn.Linear(8, 5)

    @staticmethod
    def block(i, o, kernel, stride=1, groups=1):
        conv = torch.nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False)
        return torch.nn.Sequential(conv, torch.nn.BatchNorm2d(o), torch.nn.ReLU6())

    def forward(self, x):
        x = self.stem(x)
        x = x + self.project(self.depth(self.expand(x)))
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The net, or the real MobileNetV2 when there is one, and the size of its images."""
    if real := os.environ.get("SIXFOLD_MOBILENET"):
        return pathlib.Path(real), 224
    folder = tmp_path_factory.mktemp("net")
    torch.manual_seed(0)
    net = Bottlenecks()
    net(torch.randn(8, 3, 24, 24))  # norms with means and variances of their own
    torch.export.save(torch.export.export(net.eval(), (torch.randn(1, 3, 24, 24),)), folder / "net.pt2")
    done = call("compile", folder / "net.pt2", "--backend", "cpu", "-o", folder / "net.pte")
    assert done.returncode == 0, done.stderr
    return folder / "net.pte", 24


@pytest.fixture(scope="module")
def runner(program):
    folder = WORK / "selective"
    configure = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, f"-DSIXFOLD_KERNELS_FROM={program[0]}", f"-DSIXFOLD_TOOL={SIXFOLD}", *OPTIONS]
    for command in (configure, ["cmake", "--build", folder, "--target", "pte_runner"]):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return folder / "pte_runner"


def run(runner, program, x, folder):
    x.tofile(folder / "x.bin")
    done = subprocess.run([runner, program, folder / "x.bin", "-o", folder / "y"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "y0.bin", np.float32)


def full_run(program, x, folder):
    np.save(folder / "x.npy", x)
    done = call("run", program, "--input", folder / "x.npy", "--output-dir", folder / "out")
    assert done.returncode == 0, done.stderr
    return np.load(folder / "out/output_0.npy").ravel()


def test_it_is_small(runner, program):
    kernels = next(line for line in call("kernels", program[0]).stdout.splitlines() if "kKeptKernels" in line)
    assert kernels.split("{", 1)[1] == ", ".join(['""'] + [f'"aten::{k}.out"' for k in MOBILENET_KERNELS]) + "};"
    assert runner.stat().st_size <= MOST_BYTES
    needed = subprocess.run(["readelf", "-d", runner], capture_output=True, text=True, check=True).stdout
    assert "dnnl" not in needed and "simdjson" not in needed


def test_it_computes_the_same(runner, program, tmp_path):
    path, size = program
    x = np.random.default_rng(0).standard_normal((1, 3, size, size)).astype(np.float32)
    want = full_run(path, x, tmp_path)
    np.testing.assert_allclose(run(runner, path, x, tmp_path), want, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(want).max())))


def test_other_programs_are_refused_by_the_names_of_their_kernels(runner):
    done = subprocess.run([runner, ROOT / "test/pte/mlp.pte"], capture_output=True, text=True)
    assert done.returncode == 1 and "aten::gelu.out" in done.stderr and "convolution" not in done.stderr
