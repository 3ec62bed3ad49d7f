#!/usr/bin/env python3
"""Write test/pte/compiled: models as .pt2, what `sixfold compile` made of them, and eager torch's outputs.

    make_compiled_goldens.py SIXFOLD

Programs have the version that made them in their name, and stay when a later version adds its own: whatever runs a .pte must
run these for ever. test_goldens.py runs all, and compiles the .pt2 anew to the same bytes.
"""
import pathlib
import subprocess
import sys

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parent / "pte/compiled"
# method -> .pt2, for each program
PROGRAMS = {"net": {"encode": "encode", "step": "step"}, "layers": {"forward": "layers"}}


class Encode(torch.nn.Module):
    """A size that changes, and weights that another method has too."""

    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def forward(self, x):
        y = self.shared(x).softmax(-1)
        return y.reshape(x.shape[0] * 2, 2), y.argmax(-1)


class Step(torch.nn.Module):
    """A state that lives from call to call."""

    def __init__(self, shared):
        super().__init__()
        self.shared = shared
        self.register_buffer("seen", torch.tensor([[0.5, -1.0, 2.0, 0.0]]))

    def forward(self, x, keep):
        self.seen.copy_(torch.where(keep, self.seen * 0.5 + self.shared(x), self.seen))
        return self.seen.clone(), self.seen.sum()


class Layers(torch.nn.Module):
    """Kernels, formulas, tables and scans of legalization."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3, padding=1)
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):
        y = torch.nn.functional.silu(self.conv(x))
        y = torch.nn.functional.max_pool2d(y, 2) + torch.nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear")[:, :1]
        y = self.norm(y.permute(0, 2, 3, 1).reshape(3, 4))
        return y.cumprod(1), torch.sort(y, dim=1)[1], (y.half() * 2).sum(0)


def models():
    torch.manual_seed(4)
    shared = torch.nn.Linear(4, 4)
    n = torch.export.Dim("n", min=1, max=6)
    x = torch.randn(3, 4)
    yield "encode", Encode(shared), (x,), ({0: n},)
    yield "step", Step(shared), (torch.randn(1, 4), torch.tensor([[True, False, True, True]])), None
    yield "layers", Layers(), (torch.randn(1, 2, 4, 4),), None


def main():
    sixfold = pathlib.Path(sys.argv[1]).resolve()
    version = subprocess.run([sixfold, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    OUT.mkdir(parents=True, exist_ok=True)
    for name, module, inputs, shapes in models():
        if (OUT / f"{name}.pt2").exists():
            continue
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
        for node in program.graph.nodes:  # source lines have the paths of this machine
            for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node"):
                node.meta.pop(key, None)
        torch.export.save(program, OUT / f"{name}.pt2")
        want = module(*(t.clone() for t in inputs))
        arrays = {f"in{i}": t.numpy() for i, t in enumerate(inputs)} | {f"out{i}": t.detach().numpy() for i, t in enumerate(want)}
        np.savez(OUT / f"{name}.npz", **arrays)
    for name, methods in PROGRAMS.items():
        sources = [f"{method}={OUT / source}.pt2" for method, source in methods.items()]
        subprocess.run([sixfold, "compile", *sources, "--backend", "cpu", "-o", OUT / f"{name}_{version}.pte"], check=True)


if __name__ == "__main__":
    main()
