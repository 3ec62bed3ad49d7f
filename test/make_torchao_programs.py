"""Models that torchao quantized, after training or while it went on, and the programs that ExecuTorch makes of them.

    make_torchao_programs.py OUT [--only REGEX] [--list]

writes OUT/<net>.<precision>.<ptq|qat>/model.pt2 (what convert_pt2e gave), x.npy, and model.pte by ExecuTorch's own AOT, with its
quantizer for Qualcomm's NPUs. QNN_SDK_ROOT names a folder with lib/x86_64-linux-clang/libQnnHtp.so.
"""
import argparse
import pathlib
import re

import make_npu_peer_programs as peers
import numpy as np
import torch
from torch import nn


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.deep = nn.Conv2d(4, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.point, self.fc = nn.Conv2d(16, 32, 1), nn.Linear(32, 32)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = self.point(nn.functional.max_pool2d(x + nn.functional.hardswish(self.deep(x)), 2, 2))
        return self.fc((torch.sigmoid(x) * x).mean((2, 3)))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        def heads(t):
            return t.view(1, 8, 4, 8).transpose(1, 2)

        y = self.norm(x)
        y = torch.softmax(heads(self.q(y)) @ heads(self.k(y)).transpose(-1, -2) / 8**0.5, -1) @ heads(self.v(y))
        return x + nn.functional.gelu(self.o(y.transpose(1, 2).reshape(1, 8, 32)))


NETS = {"image": (Image, (1, 4, 16, 16)), "rows": (Rows, (1, 8, 32))}
# What ExecuTorch 1.5.1 itself makes: its observer for 16a4w while training goes on cannot be built, and blocks of some of a net's
# convolutions end in an assertion.
CASES = [f"{net}.{precision}.{kind}" for net in NETS for precision in ("8a8w", "8a4w", "16a8w", "16a4w", "16a4w_block", "16a16w")
         for kind in ("ptq", "qat") if (kind == "ptq" or precision in ("8a8w", "16a8w")) and (net, precision) != ("image", "16a4w_block")]


def converted(name):
    from executorch.backends.qualcomm.export_utils import make_quantizer
    from executorch.backends.qualcomm.quantizer.quantizer import QuantDtype
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

    net, precision, kind = name.split(".")
    module, shape = NETS[net]
    qat = kind == "qat"
    torch.manual_seed(0)
    exported = torch.export.export(module().train(qat), (torch.randn(*shape),), strict=True).module()
    quantizer = make_quantizer(quant_dtype=getattr(QuantDtype, f"use_{precision}"), soc_model="SM8650", is_qat=qat,
                               per_channel_linear=precision != "8a8w")
    if precision.endswith("_block"):
        quantizer.set_block_size_map({n.name: (1, 16) for n in exported.graph.nodes if "linear" in n.name})
    prepared = (prepare_qat_pt2e if qat else prepare_pt2e)(exported, quantizer)
    for _ in range(4):
        prepared(torch.randn(*shape))
    if qat:
        move_exported_model_to_eval(prepared)
    return convert_pt2e(prepared), torch.randn(*shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in CASES:
        if not re.search(args.only, name):
            continue
        if args.list:
            print(name)
            continue
        module, x = converted(name)
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "x.npy", x.numpy())
        torch.export.save(torch.export.export(module, (x,)), folder / "model.pt2")
        (folder / "model.pte").write_bytes(peers.lower(module, (x,), peers.spec(fp16=False)).buffer)


if __name__ == "__main__":
    main()
