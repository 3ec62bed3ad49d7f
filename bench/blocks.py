#!/usr/bin/env python3
"""What quantizing a decoder of Qwen3-0.6B's shape in blocks takes: seconds, and memory beyond the mapped file.

    python bench/blocks.py [--layers 28] [--tokens 8] [--json OUT]

28 layers of 1024 channels, 16 heads on 8 of keys and values, 151,936 words that input and output share: 0.6 G
parameters, random, fp32, in .work/bench. Every linear layer gets 4-bit weights with a scale for each block of 32
input channels (--precision 16a4w_block). `quantize` is what `compile --json` tells of annotating and weights, without
the samples' runs; `whole` is the process, up to the file.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()
MADE = ROOT / ".work/bench"
HIDDEN, HEADS, PAIRS, HEAD, INNER, WORDS = 1024, 16, 8, 128, 3072, 151936


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.RMSNorm(HIDDEN, eps=1e-6), nn.RMSNorm(HIDDEN, eps=1e-6)
        self.q, self.k = nn.Linear(HIDDEN, HEADS * HEAD, bias=False), nn.Linear(HIDDEN, PAIRS * HEAD, bias=False)
        self.v, self.o = nn.Linear(HIDDEN, PAIRS * HEAD, bias=False), nn.Linear(HEADS * HEAD, HIDDEN, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(HEAD, eps=1e-6), nn.RMSNorm(HEAD, eps=1e-6)
        self.gate, self.up = nn.Linear(HIDDEN, INNER, bias=False), nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        tokens = x.shape[1]
        y = self.before(x)

        def heads(z, n):
            return z.view(1, tokens, n, HEAD)

        q = rotated(self.q_norm(heads(self.q(y), HEADS)).transpose(1, 2), cos, sin)
        k = rotated(self.k_norm(heads(self.k(y), PAIRS)).transpose(1, 2), cos, sin)
        v = heads(self.v(y), PAIRS).transpose(1, 2)
        k, v = (z.repeat_interleave(HEADS // PAIRS, dim=1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(1, tokens, HEADS * HEAD))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers, tokens):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)
        self.head.weight = self.words.weight
        angle = torch.arange(tokens)[:, None] * 1e6 ** (-torch.arange(0, HEAD, 2) / HEAD)[None]
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))
        self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), -1))

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def make(layers, tokens):
    folder = MADE / f"decoder_{layers}_{tokens}"
    if (folder / "recipe.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    with torch.no_grad():
        model = Decoder(layers, tokens).eval()
        model.words.weight.mul_(0.02)
        example = torch.randint(0, WORDS, (1, tokens))
        torch.export.save(torch.export.export(model, (example,)), folder / "model.pt2")
    np.savez(folder / "calib.npz", in0=example.numpy()[None])
    (folder / "recipe.json").write_text(json.dumps({"rules": [{"op": "linear", "block_size": [1, 32]}]}))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--engine", default="emulator")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    folder = make(args.layers, args.tokens)
    begin = time.monotonic()
    done = subprocess.run(
        [SIXFOLD, "compile", folder / "model.pt2", "-o", folder / "model.pte", "--backend", "htp", "--engine", args.engine,
         "--precision", "16a4w_block", "--recipe", folder / "recipe.json", "--calib", folder / "calib.npz", "--no-accuracy",
         "--no-bias-correction", "--rounding", "nearest", "--json"], capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if done.returncode:
        sys.exit(done.stderr)
    report = json.loads(done.stdout)
    method = report["methods"][0]
    mapped = (folder / "model.pt2").stat().st_size
    result = {"file_gb": mapped / 1e9, "whole_s": seconds, "cpu_s": report["cpu_s"], "peak_rss_gb": report["peak_rss_mb"] / 1e3,
              "quantize_s": method["quantize_s"], "peak_beyond_file_gb": report["peak_rss_mb"] * 2**20 / 1e9 - mapped / 1e9,
              "delegates": report["delegates"], "cpu_nodes": len(report["cpu_nodes"])}
    for name, value in result.items():
        print(f"{name:20} {value:.1f}" if isinstance(value, float) else f"{name:20} {value}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
