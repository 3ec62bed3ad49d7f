#!/usr/bin/env python3
"""Write fuzz/seeds/program: exported programs in the form that fuzz/program.cpp reads. Needs torch.

    python fuzz/make_seeds.py

Each is one corner of the format: weights and defaults, in-place ops and views, symbolic sizes, nested and scalar inputs
and outputs, mutated buffers, subgraphs, quantized graphs, lists with None.
"""
import io
import json
import pathlib
import zipfile

import torch
import torch.ao.quantization.fx._decomposed
from torch import nn

OUT = pathlib.Path(__file__).resolve().parent / "seeds/program"


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)

    def forward(self, x):
        return nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)


class InPlace(nn.Module):
    def forward(self, x):
        y = x * 2
        y[:, 1:].add_(1)
        y.t()[0] = 3.0
        return y.view(-1).clamp_(-1, 1), 1 - x


class Sizes(nn.Module):
    def forward(self, x, y):
        n = x.shape[0]
        return torch.cat([x.reshape(n // 2, -1), torch.zeros(n // 2, 1)], 1), y.expand(n, 3) + n


class Nested(nn.Module):
    def forward(self, items, number, nothing=None):
        a, b = items["a"], items["b"][0]
        return {"sum": a + b * number, "list": [a.max(0).values, 7, None]}


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("step", torch.ones(2), persistent=False)

    def forward(self, x):
        self.count.add_(self.step)
        return x + self.count + torch.tensor([1.0, 2.0])


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.ones(2, 3, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(2))
        self.register_buffer("zeros", torch.zeros(2, dtype=torch.int64))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        x = q.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
        return nn.functional.linear(x, q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8))


class Indexed(nn.Module):
    def forward(self, x, i):
        x = torch.ops.aten.index_put(x, [None, i], torch.zeros(()), True)
        return x[:, i], *torch.topk(x, 1, -1), x.split([1, 2], 1), x.to(torch.float16)


X = torch.ones(2, 3)
ROWS = {0: 2 * torch.export.Dim("half", min=1, max=16)}
SEEDS = {
    "conv": (Conv(), (torch.ones(1, 1, 6, 6),), None),
    "in_place": (InPlace(), (X,), None),
    "sizes": (Sizes(), (torch.ones(4, 3), torch.ones(1, 3)), (ROWS, None)),
    "nested": (Nested(), ({"a": X, "b": [X]}, 3), None),
    "counter": (Counter(), (torch.ones(2),), None),
    "branch": (Branch(), (X,), None),
    "quantized": (Quantized(), (X,), None),
    "indexed": (Indexed(), (X, torch.tensor([0, 2])), None),
}


def strip(tree):
    """Metadata of nodes is most of the text; a line of each kind that import reads is enough."""
    if isinstance(tree, dict):
        if "stack_trace" in tree:
            return {"stack_trace": 'File "model.py", line 1, in forward\n    return x', "nn_module_stack": "self,a.b,Model"}
        return {key: strip(value) for key, value in tree.items()}
    return [strip(item) for item in tree] if isinstance(tree, list) else tree


def documents(program):
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    archive = zipfile.ZipFile(buffer)
    for member in ("models/model.json", "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"):
        yield json.dumps(strip(json.loads(archive.read(f"archive/{member}"))), separators=(",", ":")).encode()


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, (module, inputs, shapes) in SEEDS.items():
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
        (OUT / name).write_bytes(b"\0".join(documents(program)))
        if name in ("in_place", "counter"):
            (OUT / f"{name}_decomposed").write_bytes(b"\0".join(documents(program.run_decompositions())))


if __name__ == "__main__":
    main()
