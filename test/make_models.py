#!/usr/bin/env python3
"""Write whole models with seeded random weights as case folders: nets written here in plain torch, `transformers` configs, variants.

    pip install torch==2.13.0 executorch==1.5.1 transformers
    python make_models.py OUT [--only REGEX]

Nothing is downloaded. Widths are small, shapes of layers are those of the real nets. Batch-norm statistics are random as well, and
a model whose outputs are all but constant is refused, since any answer would pass. case_folder.py says what a folder holds.
A name with a suffix is the same net again: .decomposed after run_decompositions(), .pt2e / .pt2e_dynamic after torchao's
prepare and convert with XNNPACK's quantizer, .int8_weights after torchao's quantize_, .dynamic with a free batch or length.
"""
import argparse, copy, math, pathlib, re

from case_folder import Cases, Refused, arrays, np, torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


# -- pieces --------------------------------------------------------------------------------------------------------------


def conv(i, o, k=3, s=1, g=1, act=nn.ReLU, d=1):
    layers = [nn.Conv2d(i, o, k, s, (k - 1) // 2 * d, d, g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, body, skip=None, act=None):
        super().__init__()
        self.body, self.skip, self.act = body, skip or nn.Identity(), act or nn.Identity()

    def forward(self, x):
        return self.act(self.skip(x) + self.body(x))


class Squeeze(nn.Module):
    """Squeeze-and-excitation: channels scaled by a gate computed from their means."""

    def __init__(self, c, r, act=nn.ReLU, gate=nn.Hardsigmoid):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, r, 1), act(), nn.Conv2d(r, c, 1), gate())

    def forward(self, x):
        return x * self.body(x)


class Then(nn.Module):
    """A module from a function of modules, to keep small nets on a few lines."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


class Permute(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(*self.dims)


class Attention(nn.Module):
    """softmax(q k^T / sqrt(d)) v, written out; `context` gives cross-attention."""

    def __init__(self, dim, heads, context=None, fused=False):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(context or dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, context=None, bias=None):
        b, n, c = x.shape
        q = self.q(x).reshape(b, n, self.heads, c // self.heads).transpose(1, 2)
        k, v = self.kv(x if context is None else context).reshape(b, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            score = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
            y = (score if bias is None else score + bias).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, c))


def mlp(dim, hidden, act=nn.GELU):
    return nn.Sequential(nn.Linear(dim, hidden), act(), nn.Linear(hidden, dim))


def head(c, classes=100):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, classes))


def image(*size):
    return torch.randn(*(size or (1, 3, 64, 64)))


# -- image nets ----------------------------------------------------------------------------------------------------------


def inverted(i, o, k, s, expand, squeeze, act):
    body = nn.Sequential(conv(i, expand, 1, act=act) if expand != i else nn.Identity(), conv(expand, expand, k, s, expand, act=act),
                         Squeeze(expand, max(8, expand // 4)) if squeeze else nn.Identity(), conv(expand, o, 1, act=None))
    return Residual(body) if s == 1 and i == o else body


@model
def mobilenet_v3():
    rows = [(16, 16, 3, 2, 16, 1, nn.ReLU), (16, 24, 3, 2, 72, 0, nn.ReLU), (24, 24, 3, 1, 88, 0, nn.ReLU), (24, 40, 5, 2, 96, 1, nn.Hardswish),
            (40, 40, 5, 1, 240, 1, nn.Hardswish), (40, 48, 5, 1, 120, 1, nn.Hardswish), (48, 96, 5, 2, 288, 1, nn.Hardswish)]
    return nn.Sequential(conv(3, 16, 3, 2, act=nn.Hardswish), *(inverted(*r) for r in rows), conv(96, 576, 1, act=nn.Hardswish),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000)), (image(1, 3, 96, 96),)


@model
def mobilenet_v2():
    rows = [(16, 16, 3, 1, 16, 0, nn.ReLU6), (16, 24, 3, 2, 96, 0, nn.ReLU6), (24, 24, 3, 1, 144, 0, nn.ReLU6), (24, 32, 3, 2, 144, 0, nn.ReLU6)]
    return nn.Sequential(conv(3, 16, 3, 2, act=nn.ReLU6), *(inverted(*r) for r in rows), conv(32, 128, 1, act=nn.ReLU6), head(128)), (image(2, 3, 64, 64),)


@model
def shufflenet_v2():
    def unit(self, x):
        if self.down:
            x = torch.cat((self.left(x), self.right(x)), 1)
        else:
            a, b = x.chunk(2, 1)
            x = torch.cat((a, self.right(b)), 1)
        b, c, h, w = x.shape
        return x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)

    def block(i, o, down):
        c, s = o // 2, 2 if down else 1
        return Then(unit, down=down, left=nn.Sequential(conv(i, i, 3, 2, i, act=None), conv(i, c, 1)) if down else nn.Identity(),
                    right=nn.Sequential(conv(i if down else c, c, 1), conv(c, c, 3, s, c, act=None), conv(c, c, 1)))

    return nn.Sequential(conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1), block(24, 48, True), block(48, 48, False), block(48, 96, True),
                         block(96, 96, False), conv(96, 256, 1), head(256)), (image(),)


@model
def squeezenet():
    def fire(i, s, e):
        return nn.Sequential(nn.Conv2d(i, s, 1), nn.ReLU(inplace=True), Then(
            lambda self, x: torch.cat([F.relu(self.a(x), inplace=True), F.relu(self.b(x), inplace=True)], 1), a=nn.Conv2d(s, e, 1), b=nn.Conv2d(s, e, 3, padding=1)))

    return nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True), fire(64, 16, 64), fire(128, 16, 64),
                         nn.MaxPool2d(3, 2, ceil_mode=True), fire(128, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True), fire(256, 48, 192),
                         nn.Dropout(), nn.Conv2d(384, 100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten()), (image(1, 3, 95, 97),)


@model
def densenet():
    def layer(i):
        return Then(lambda self, x: torch.cat([x, self.body(x)], 1), body=nn.Sequential(
            nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, 48, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU(), nn.Conv2d(48, 12, 3, padding=1, bias=False)))

    def transition(i):
        return nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, i // 2, 1, bias=False), nn.AvgPool2d(2))

    return nn.Sequential(conv(3, 24, 7, 2), nn.MaxPool2d(3, 2, 1), *(layer(24 + 12 * i) for i in range(4)), transition(72),
                         *(layer(36 + 12 * i) for i in range(4)), nn.BatchNorm2d(84), nn.ReLU(), head(84)), (image(),)


@model
def efficientnet():
    def mb(i, o, k, s, e):
        body = nn.Sequential(conv(i, e, 1, act=nn.SiLU), conv(e, e, k, s, e, nn.SiLU), Squeeze(e, i // 4, nn.SiLU, nn.Sigmoid), conv(e, o, 1, act=None))
        return Residual(body) if s == 1 and i == o else body

    return nn.Sequential(conv(3, 32, 3, 2, act=nn.SiLU), mb(32, 16, 3, 1, 32), mb(16, 24, 3, 2, 96), mb(24, 24, 3, 1, 144), mb(24, 40, 5, 2, 144),
                         mb(40, 40, 5, 1, 240), conv(40, 320, 1, act=nn.SiLU), head(320)), (image(1, 3, 80, 80),)


@model
def resnet():
    def bottleneck(i, c, s):
        body = nn.Sequential(conv(i, c, 1), conv(c, c, 3, s), conv(c, 4 * c, 1, act=None))
        return Residual(body, conv(i, 4 * c, 1, s, act=None) if s > 1 or i != 4 * c else None, nn.ReLU(inplace=True))

    return nn.Sequential(conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1), bottleneck(32, 16, 1), bottleneck(64, 16, 1), bottleneck(64, 32, 2),
                         bottleneck(128, 32, 1), head(128)), (image(2, 3, 64, 64),)


@model
def regnet():
    def block(i, o, s):
        body = nn.Sequential(conv(i, o, 1), conv(o, o, 3, s, o // 8), Squeeze(o, i // 4, nn.ReLU, nn.Sigmoid), conv(o, o, 1, act=None))
        return Residual(body, conv(i, o, 1, s, act=None) if s > 1 or i != o else None, nn.ReLU())

    return nn.Sequential(conv(3, 32, 3, 2), block(32, 48, 2), block(48, 48, 1), block(48, 104, 2), block(104, 104, 1), head(104)), (image(),)


@model
def convnext():
    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.depth, self.norm, self.up, self.down = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, eps=1e-6), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.scale = nn.Parameter(torch.full((c,), 0.5))

        def forward(self, x):
            y = self.norm(self.depth(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)

    norm = lambda c: nn.Sequential(Permute(0, 2, 3, 1), nn.LayerNorm(c, eps=1e-6), Permute(0, 3, 1, 2))
    return nn.Sequential(nn.Conv2d(3, 48, 4, 4), norm(48), Block(48), Block(48), norm(48), nn.Conv2d(48, 96, 2, 2), Block(96),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 100)), (image(),)


class SwinBlock(nn.Module):
    def __init__(self, dim, heads, size, window, shift):
        super().__init__()
        self.size, self.window, self.shift = size, window, shift
        self.norm1, self.norm2, self.attention, self.mlp = nn.LayerNorm(dim), nn.LayerNorm(dim), Attention(dim, heads), mlp(dim, 4 * dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.3)
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        near = (grid[:, :, None] - grid[:, None, :] + window - 1).permute(1, 2, 0)
        self.register_buffer("index", near[..., 0] * (2 * window - 1) + near[..., 1])
        region = torch.zeros(1, size, size, 1)
        for i, a in enumerate((slice(0, -window), slice(-window, -shift or None), slice(-shift or size, None))):
            for j, b in enumerate((slice(0, -window), slice(-window, -shift or None), slice(-shift or size, None))):
                region[:, a, b] = 3 * i + j
        region = self.split(region).squeeze(-1)
        self.register_buffer("mask", (region[:, None] != region[:, :, None]).float() * -100.0 if shift else None)

    def split(self, x):
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)

    def forward(self, x):
        b, n, c = x.shape
        y = self.norm1(x).view(b, self.size, self.size, c)
        y = self.split(torch.roll(y, (-self.shift, -self.shift), (1, 2)) if self.shift else y)
        bias = self.table[self.index.view(-1)].view(self.window**2, self.window**2, -1).permute(2, 0, 1)[None]
        if self.mask is not None:
            bias = bias + self.mask.repeat(b, 1, 1)[:, None]
        y = self.attention(y, bias=bias)
        k = self.size // self.window
        y = y.view(b, k, k, self.window, self.window, c).permute(0, 1, 3, 2, 4, 5).reshape(b, self.size, self.size, c)
        x = x + (torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y).reshape(b, n, c)
        return x + self.mlp(self.norm2(x))


@model
def swin():
    def merge(self, x):  # patch merging: four neighbours to channels
        b, n, c = x.shape
        x = x.view(b, 16, 16, c)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduce(self.norm(x.view(b, -1, 4 * c)))

    return nn.Sequential(nn.Conv2d(3, 48, 4, 4), nn.Flatten(2), Permute(0, 2, 1), nn.LayerNorm(48), SwinBlock(48, 3, 16, 4, 0), SwinBlock(48, 3, 16, 4, 2),
                         Then(merge, norm=nn.LayerNorm(192), reduce=nn.Linear(192, 96, bias=False)), SwinBlock(96, 6, 8, 4, 0), SwinBlock(96, 6, 8, 4, 2),
                         nn.LayerNorm(96), Permute(0, 2, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(96, 100)), (image(2, 3, 64, 64),)


@model
def inception():
    def forward(self, x):
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(F.avg_pool2d(x, 3, 1, 1))], 1)

    def cell(i, o):
        asym = nn.Sequential(nn.Conv2d(i, 16, 1), nn.Conv2d(16, 24, (1, 7), padding=(0, 3)), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, o, (7, 1), padding=(3, 0)), nn.ReLU())
        return Then(forward, a=conv(i, o, 1), b=nn.Sequential(conv(i, 16, 1), conv(16, o, 5)), c=asym, d=conv(i, o, 1))

    def reduce(i):
        return Then(lambda self, x: torch.cat([self.a(x), F.max_pool2d(x, 3, 2)], 1), a=nn.Sequential(nn.Conv2d(i, 48, 3, 2), nn.BatchNorm2d(48), nn.ReLU()))

    return nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2), cell(32, 24), reduce(96), cell(144, 32), head(128)), (image(1, 3, 75, 75),)


@model
def unet():
    class UNet(nn.Module):
        def __init__(self, widths=(16, 32, 64)):
            super().__init__()
            pair = lambda i, o: nn.Sequential(conv(i, o), conv(o, o))
            self.down = nn.ModuleList(pair(i, o) for i, o in zip((3, *widths), widths))
            self.middle = pair(64, 128)
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * o, o, 2, 2) for o in reversed(widths))
            self.join = nn.ModuleList(pair(2 * o, o) for o in reversed(widths))
            self.out = nn.Conv2d(16, 4, 1)

        def forward(self, x):
            kept = []
            for block in self.down:
                x = block(x)
                kept.append(x)
                x = F.max_pool2d(x, 2)
            x = self.middle(x)
            for up, join in zip(self.up, self.join):
                x = join(torch.cat([kept.pop(), up(x)], 1))
            return self.out(x).softmax(1)

    return UNet(), (image(),)


@model
def fpn_detector():
    """Pyramid, shared head, anchors, box decoding, best 50 boxes."""

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.ModuleList([nn.Sequential(conv(3, 24, 3, 2), conv(24, 32, 3, 2)), conv(32, 64, 3, 2), conv(64, 96, 3, 2)])
            self.side, self.smooth = nn.ModuleList(nn.Conv2d(c, 32, 1) for c in (32, 64, 96)), nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1) for _ in range(3))
            tower = lambda: nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU())
            self.classes, self.boxes = nn.Sequential(tower(), nn.Conv2d(32, 3 * 10, 3, padding=1)), nn.Sequential(tower(), nn.Conv2d(32, 3 * 4, 3, padding=1))

        def anchors(self, h, w, stride):
            y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            at = torch.stack([x, y], -1).float().add(0.5).mul(stride)[:, :, None].expand(h, w, 3, 2)
            size = torch.tensor([1.0, 1.6, 2.5]).mul(stride * 2)[None, None, :, None].expand(h, w, 3, 2)
            return torch.cat([at, size], -1).reshape(-1, 4)

        def forward(self, x):
            levels = []
            for block in self.stem:
                x = block(x)
                levels.append(x)
            top, maps = None, []
            for x, side, smooth in reversed(list(zip(levels, self.side, self.smooth))):
                y = side(x)
                top = y if top is None else y + F.interpolate(top, size=y.shape[-2:], mode="nearest")
                maps.insert(0, smooth(top))
            score, delta, anchor = [], [], []
            for i, y in enumerate(maps):
                b, _, h, w = y.shape
                score.append(self.classes(y).view(b, 3, 10, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, 10))
                delta.append(self.boxes(y).view(b, 3, 4, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, 4))
                anchor.append(self.anchors(h, w, 4 * 2**i))
            score, delta, anchor = torch.cat(score, 1).sigmoid(), torch.cat(delta, 1), torch.cat(anchor)
            at = anchor[:, :2] + delta[..., :2] * anchor[:, 2:]
            size = anchor[:, 2:] * delta[..., 2:].clamp(max=math.log(1000 / 16)).exp()
            boxes = torch.cat([at - size / 2, at + size / 2], -1).clamp(0, 64)
            best, label = score.max(-1)
            best, index = best.topk(50, dim=1)
            return boxes.gather(1, index[..., None].expand(-1, -1, 4)), best, label.gather(1, index)

    return Detector(), (image(),)


@model
def yolo():
    silu = lambda i, o, k=1, s=1: conv(i, o, k, s, act=nn.SiLU)

    class C2f(nn.Module):
        def __init__(self, i, o, n=1, add=True):
            super().__init__()
            self.one, self.two = silu(i, o), silu((2 + n) * o // 2, o)
            self.m = nn.ModuleList((Residual if add else nn.Sequential)(nn.Sequential(silu(o // 2, o // 2, 3), silu(o // 2, o // 2, 3))) for _ in range(n))

        def forward(self, x):
            y = list(self.one(x).chunk(2, 1))
            y.extend(m(y[-1]) for m in self.m)
            return self.two(torch.cat(y, 1))

    class Yolo(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(silu(3, 16, 3, 2), silu(16, 32, 3, 2), C2f(32, 32))
            self.p3, self.p4 = nn.Sequential(silu(32, 64, 3, 2), C2f(64, 64)), nn.Sequential(silu(64, 128, 3, 2), C2f(128, 128))
            self.sppf1, self.sppf2 = silu(128, 64), silu(256, 128)
            self.up, self.down, self.join = C2f(192, 64, add=False), silu(64, 64, 3, 2), C2f(192, 128, add=False)
            self.box, self.cls = nn.ModuleList(nn.Conv2d(c, 64, 1) for c in (64, 128)), nn.ModuleList(nn.Conv2d(c, 20, 1) for c in (64, 128))

        def forward(self, x):
            a = self.p3(self.stem(x))
            b = self.sppf1(self.p4(a))
            pools = [b]
            for _ in range(3):
                pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
            b = self.sppf2(torch.cat(pools, 1))
            a = self.up(torch.cat([F.interpolate(b, scale_factor=2.0, mode="nearest"), a], 1))
            b = self.join(torch.cat([self.down(a), b], 1))
            rows = []
            for y, box, cls, stride in zip((a, b), self.box, self.cls, (8, 16)):
                n, _, h, w = y.shape
                side = box(y).view(n, 4, 16, h * w).softmax(2).mul(torch.arange(16.0).view(1, 1, 16, 1)).sum(2)
                gy, gx = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
                at = torch.stack([gx, gy]).view(1, 2, -1)
                low, high = at - side[:, :2], at + side[:, 2:]
                rows.append(torch.cat([(low + high) / 2 * stride, (high - low) * stride, cls(y).view(n, 20, -1).sigmoid()], 1))
            return torch.cat(rows, 2)

    return Yolo(), (image(),)


@model
def deeplab():
    def forward(self, x):
        y = self.body(x)
        pooled = F.interpolate(self.pool(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.project(torch.cat([m(y) for m in self.rates] + [pooled], 1))
        return F.interpolate(self.out(y), size=x.shape[-2:], mode="bilinear", align_corners=False).argmax(1), y

    return Then(forward, body=nn.Sequential(conv(3, 32, 3, 2), conv(32, 64, 3, 2), conv(64, 64, 3, d=2)), rates=nn.ModuleList([conv(64, 32, 1), conv(64, 32, d=6), conv(64, 32, d=12)]),
                pool=nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(64, 32, 1)), project=conv(128, 32, 1), out=nn.Conv2d(32, 21, 1)), (image(1, 3, 65, 65),)


@model
def super_resolution():
    body = Residual(nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.PReLU(32), nn.Conv2d(32, 32, 3, padding=1)))
    return nn.Sequential(nn.Conv2d(3, 32, 5, padding=2), nn.PReLU(), body, nn.Conv2d(32, 3 * 9, 3, padding=1), nn.PixelShuffle(3), nn.Sigmoid()), (torch.rand(1, 3, 24, 31),)


@model
def style_transfer():
    def layer(i, o, k, s=1, up=0):
        return nn.Sequential(*([nn.Upsample(scale_factor=2, mode="nearest")] if up else []), nn.ReflectionPad2d(k // 2), nn.Conv2d(i, o, k, s), nn.InstanceNorm2d(o, affine=True), nn.ReLU())

    return nn.Sequential(layer(3, 16, 9), layer(16, 32, 3, 2), Residual(nn.Sequential(layer(32, 32, 3), layer(32, 32, 3))), layer(32, 16, 3, up=1),
                         nn.ReplicationPad2d(4), nn.Conv2d(16, 3, 9), nn.Tanh()), (image(1, 3, 40, 40),)


@model
def depth():
    """Encoder, bilinear decoder with aligned corners and bicubic last step, inverse depth."""

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        y = self.c(F.interpolate(self.pool(b), scale_factor=2, mode="bilinear", align_corners=True))
        y = F.interpolate(self.d(torch.cat([y[..., : a.shape[-2] // 2, :], b], 1)), size=(48, 64), mode="bicubic", align_corners=False)
        return 1.0 / (F.softplus(y) + 0.1)

    return Then(forward, a=conv(3, 16, 3, 2, act=nn.ELU), b=conv(16, 32, 3, 2, act=nn.LeakyReLU), pool=nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False),
                c=conv(32, 32, act=nn.Mish), d=nn.Conv2d(64, 1, 3, padding=1)), (image(1, 3, 48, 64),)


@model
def spatial_transformer():
    def forward(self, x):
        theta = self.locate(x).view(-1, 2, 3) * 0.3 + torch.tensor([[1.0, 0, 0], [0, 1.0, 0]])
        return self.net(F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False, padding_mode="border"))

    return Then(forward, locate=nn.Sequential(conv(1, 8, 7, 2), nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Linear(128, 6)), net=nn.Sequential(conv(1, 16), head(16, 10))), (image(2, 1, 28, 28),)


@model
def hourglass_pose():
    """Heat maps to key points: soft-argmax over a 2-D map and hard argmax with div and mod."""

    def forward(self, x):
        y = self.body(x)
        y = y + F.interpolate(self.low(F.max_pool2d(y, 2)), scale_factor=2, mode="bilinear")
        maps = self.out(y)
        b, k, h, w = maps.shape
        p = maps.flatten(2).mul(3.0).softmax(-1).view(b, k, h, w)
        at = torch.stack([(p.sum(2) * torch.linspace(0, 1, w)).sum(-1), (p.sum(3) * torch.linspace(0, 1, h)).sum(-1)], -1)
        index = maps.flatten(2).argmax(-1)
        return at, torch.stack([index % w, index // w], -1), maps.amax((2, 3))

    return Then(forward, body=nn.Sequential(conv(3, 32, 3, 2), conv(32, 32)), low=nn.Sequential(conv(32, 48), conv(48, 32)), out=nn.Conv2d(32, 17, 1)), (image(),)


@model
def mlp_mixer():
    block = lambda: nn.Sequential(Residual(nn.Sequential(nn.LayerNorm(64), Permute(0, 2, 1), mlp(64, 32), Permute(0, 2, 1))), Residual(nn.Sequential(nn.LayerNorm(64), mlp(64, 128))))
    return nn.Sequential(nn.Conv2d(3, 64, 8, 8), nn.Flatten(2), Permute(0, 2, 1), block(), block(), nn.LayerNorm(64),
                         Then(lambda self, x: self.out(x.mean(1)), out=nn.Linear(64, 100))), (image(),)


@model
def video_3d():
    return nn.Sequential(nn.Conv3d(3, 16, 3, (1, 2, 2), 1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d((1, 2, 2)), nn.Conv3d(16, 32, (3, 1, 1), padding=(1, 0, 0)),
                         nn.BatchNorm3d(32), nn.ReLU(), nn.AvgPool3d(2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, 20)), (image(1, 3, 8, 32, 32),)


@model
def vae():
    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_variance.clamp(-10, 10)) * 0.5
        return self.decode(z), mean, -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1)

    return Then(forward, encode=nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(1568, 32)),
                decode=nn.Sequential(nn.Linear(16, 1568), nn.Unflatten(1, (32, 7, 7)), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
                                     nn.ConvTranspose2d(16, 1, 3, 2, 1, output_padding=1), nn.Sigmoid())), (torch.rand(2, 1, 28, 28),)


@model
def diffusion_unet():
    class Res(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.one, self.two = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1)), nn.Sequential(nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1))
            self.time, self.skip = nn.Linear(64, o), nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            return self.skip(x) + self.two(self.one(x) + self.time(F.silu(t))[:, :, None, None])

    class Cross(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.norm, self.n1, self.n2, self.n3 = nn.GroupNorm(8, c), nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
            self.a, self.b, self.gate, self.down = Attention(c, 4, fused=True), Attention(c, 4, 24, fused=True), nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

        def forward(self, x, text):
            b, c, h, w = x.shape
            y = self.norm(x).permute(0, 2, 3, 1).reshape(b, h * w, c)
            y = y + self.a(self.n1(y))
            y = y + self.b(self.n2(y), text)
            u, g = self.gate(self.n3(y)).chunk(2, -1)
            return x + (y + self.down(u * F.gelu(g))).reshape(b, h, w, c).permute(0, 3, 1, 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.inp = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64)), nn.Conv2d(4, 32, 3, padding=1)
            self.r1, self.c1, self.down, self.r2, self.c2 = Res(32, 32), Cross(32), nn.Conv2d(32, 32, 3, 2, 1), Res(32, 64), Cross(64)
            self.up, self.r3, self.out = nn.Conv2d(64, 64, 3, padding=1), Res(96, 32), nn.Sequential(nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 4, 3, padding=1))

        def forward(self, x, t, text):
            rate = torch.exp(torch.arange(16) * (-math.log(10000.0) / 16))
            angle = t[:, None].float() * rate[None]
            t = self.time(torch.cat([angle.cos(), angle.sin()], -1))
            x = self.c1(self.r1(self.inp(x), t), text)
            y = self.c2(self.r2(self.down(x), t), text)
            return self.out(self.r3(torch.cat([self.up(F.interpolate(y, scale_factor=2.0, mode="nearest")), x], 1), t))

    return Net(), (image(2, 4, 16, 16), torch.tensor([10, 500]), torch.randn(2, 7, 24))


# -- sound, text, tables -------------------------------------------------------------------------------------------------


@model
def conv_tasnet():
    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.inp, self.depth, self.a1, self.a2 = nn.Conv1d(32, 64, 1), nn.Conv1d(64, 64, 3, padding=d, dilation=d, groups=64), nn.PReLU(), nn.PReLU()
            self.n1, self.n2, self.res, self.skip = nn.GroupNorm(1, 64, eps=1e-8), nn.GroupNorm(1, 64, eps=1e-8), nn.Conv1d(64, 32, 1), nn.Conv1d(64, 32, 1)

        def forward(self, x):
            y = self.n2(self.a2(self.depth(self.n1(self.a1(self.inp(x))))))
            return x + self.res(y), self.skip(y)

    def forward(self, x):
        e = F.relu(self.encode(x))
        y, total = self.inp(self.norm(e)), 0.0
        for block in self.blocks:
            y, skip = block(y)
            total = total + skip
        mask = torch.sigmoid(self.mask(F.prelu(total, self.slope))).view(x.shape[0], 2, 64, -1)
        return self.decode((e[:, None] * mask).flatten(0, 1)).view(x.shape[0], 2, -1)

    return Then(forward, encode=nn.Conv1d(1, 64, 16, 8, bias=False), norm=nn.GroupNorm(1, 64, eps=1e-8), inp=nn.Conv1d(64, 32, 1), blocks=nn.ModuleList(Block(2**i) for i in range(4)),
                slope=nn.Parameter(torch.tensor([0.25])), mask=nn.Conv1d(32, 128, 1), decode=nn.ConvTranspose1d(64, 1, 16, 8, bias=False)), (torch.randn(2, 1, 1600),)


@model
def conformer():
    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.f1, self.f2 = (nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * c, c)) for _ in range(2))
            self.norm, self.attention, self.last = nn.LayerNorm(c), nn.MultiheadAttention(c, 4, batch_first=True), nn.LayerNorm(c)
            self.conv = nn.Sequential(nn.LayerNorm(c), Permute(0, 2, 1), nn.Conv1d(c, 2 * c, 1), nn.GLU(1), nn.Conv1d(c, c, 15, padding=7, groups=c),
                                      nn.BatchNorm1d(c), nn.SiLU(), nn.Conv1d(c, c, 1), Permute(0, 2, 1))

        def forward(self, x, keep):
            x = x + 0.5 * self.f1(x)
            y = self.norm(x)
            x = x + self.attention(y, y, y, key_padding_mask=~keep, need_weights=False)[0]
            x = x + self.conv(x)
            return self.last(x + 0.5 * self.f2(x))

    def forward(self, x, lengths):
        y = self.sub(x[:, None]).permute(0, 2, 1, 3).flatten(2)
        y = self.inp(y)
        keep = torch.arange(y.shape[1])[None] < ((lengths - 1) // 4)[:, None]
        for block in self.blocks:
            y = block(y, keep)
        return self.out(y).log_softmax(-1)

    return Then(forward, sub=nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU()), inp=nn.Linear(16 * 9, 64),
                blocks=nn.ModuleList(Block(64) for _ in range(2)), out=nn.Linear(64, 30)), (torch.randn(2, 80, 40), torch.tensor([80, 60]))


@model
def speech_features():
    """Waveform to log-mel by an STFT written as a matrix product, then a depthwise-separable keyword net."""
    n = torch.arange(256.0)
    wave = 2 * math.pi * torch.arange(129.0)[:, None] * n[None] / 256
    bank = torch.stack([torch.cos(wave), -torch.sin(wave)]) * (0.5 - 0.5 * torch.cos(2 * math.pi * n / 256))

    def forward(self, x):
        frames = F.pad(x[:, None], (128, 128), mode="reflect").squeeze(1).unfold(-1, 256, 128)
        power = torch.einsum("kfn,btn->kbft", self.bank, frames).square().sum(0)
        mel = torch.log10(torch.clamp(self.mel @ power, min=1e-6))
        mel = torch.maximum(mel, mel.amax((-1, -2), keepdim=True) - 8.0)
        return self.net(((mel - mel.mean(-1, keepdim=True)) / (mel.std(-1, keepdim=True) + 1e-5))[:, None])

    separable = lambda i, o: nn.Sequential(conv(i, i, 3, 1, i), conv(i, o, 1))
    return Then(forward, bank=bank, mel=torch.rand(24, 129).pow(8), net=nn.Sequential(conv(1, 32, 3, 2), separable(32, 48), separable(48, 64), head(64, 12))), (torch.randn(2, 4000),)


@model
def spectrogram_stft():
    """torch.stft and istft themselves: complex inside, real outside."""

    def forward(self, x):
        s = torch.stft(x, 128, 64, window=self.window, return_complex=True)
        gain = torch.sigmoid(self.net(torch.log1p(s.abs())))
        return torch.istft(s * gain, 128, 64, window=self.window, length=1024), gain

    return Then(forward, window=torch.hann_window(128), net=nn.Conv1d(65, 65, 3, padding=1)), (torch.randn(2, 1024),)


@model
def crnn_ocr():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(conv(1, 16), nn.MaxPool2d(2), conv(16, 32), nn.MaxPool2d((2, 1)), conv(32, 48), nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
            self.rnn, self.out = nn.LSTM(48 * 4, 64, 2, bidirectional=True), nn.Linear(128, 40)

        def forward(self, x):
            return self.out(self.rnn(self.body(x).flatten(1, 2).permute(2, 0, 1))[0]).log_softmax(-1)

    return Net(), (image(2, 1, 32, 50),)


@model
def lstm_tagger():
    def forward(self, tokens):
        y, (h, c) = self.rnn(self.embed(tokens))
        return self.out(y), h, c

    return Then(forward, embed=nn.Embedding(200, 32, padding_idx=0), rnn=nn.LSTM(32, 48, 2, batch_first=True, bidirectional=True, dropout=0.1), out=nn.Linear(96, 9)), (torch.randint(0, 200, (3, 17)),)


@model
def gru_forecast():
    def forward(self, x, h):
        y, h = self.rnn(x, h)
        return self.out(y[:, -1]), h

    return Then(forward, rnn=nn.GRU(8, 32, 3, batch_first=True), out=nn.Linear(32, 4)), (torch.randn(4, 20, 8), torch.randn(3, 4, 32))


@model
def rnn_cells():
    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], 24)
        g = x.new_zeros(x.shape[1], 16)
        out = []
        for step in x.unbind(0):
            h, c = self.lstm(step, (h, c))
            g = self.rnn(self.gru(h, g), g)
            out.append(g)
        return torch.stack(out, 1), self.plain(x)[0]

    return Then(forward, lstm=nn.LSTMCell(12, 24), gru=nn.GRUCell(24, 16), rnn=nn.RNNCell(16, 16, nonlinearity="relu"), plain=nn.RNN(12, 10, 2, bidirectional=True)), (torch.randn(6, 3, 12),)


@model
def lstm_projected():
    return Then(lambda self, x: self.rnn(x), rnn=nn.LSTM(20, 32, proj_size=12)), (torch.randn(9, 2, 20),)


@model
def transformer_seq2seq():
    def forward(self, source, target):
        place = self.place[:, : target.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        y = self.net(self.embed(source) * 8.0 + self.place[:, : source.shape[1]], self.embed(target) * 8.0 + place, tgt_mask=mask, src_key_padding_mask=source == 0, tgt_is_causal=False)
        return y @ self.embed.weight.T

    return Then(forward, embed=nn.Embedding(120, 64), place=nn.Parameter(torch.randn(1, 32, 64)), net=nn.Transformer(64, 4, 2, 2, 128, batch_first=True)), \
        (torch.randint(1, 120, (2, 12)), torch.randint(1, 120, (2, 9)))


@model
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", norm_first=True, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, nn.LayerNorm(64), enable_nested_tensor=False), nn.Linear(64, 10)), (torch.randn(2, 15, 64),)


class Rope(nn.Module):
    """A decoder layer with rotary positions, grouped heads, RMS norm, SwiGLU and, where `length` is given, a cache as buffers."""

    def __init__(self, dim=64, heads=4, groups=2, length=0):
        super().__init__()
        self.heads, self.groups, self.size, self.length = heads, groups, dim // heads, length
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, groups * self.size), nn.Linear(dim, groups * self.size)
        self.o, self.n1, self.n2 = nn.Linear(dim, dim, bias=False), nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.gate, self.up, self.down = nn.Linear(dim, 160, bias=False), nn.Linear(dim, 160, bias=False), nn.Linear(160, dim, bias=False)
        if length:
            self.register_buffer("keys", torch.zeros(1, groups, length, self.size))
            self.register_buffer("values", torch.zeros(1, groups, length, self.size))

    def turn(self, x, at):
        angle = at[:, None].float() * (10000.0 ** (-torch.arange(0, self.size, 2) / self.size))
        angle = torch.cat([angle, angle], -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x, at):
        b, n, c = x.shape
        y = self.n1(x)
        split = lambda t, h: t.view(b, n, h, self.size).transpose(1, 2)
        q, k, v = self.turn(split(self.q(y), self.heads), at), self.turn(split(self.k(y), self.groups), at), split(self.v(y), self.groups)
        if self.length:
            self.keys.index_copy_(2, at, k)
            self.values[:, :, at] = v
            k, v = self.keys, self.values
        mask = torch.arange(k.shape[2])[None] <= at[:, None]
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@model
def decoder_kv_cache():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layers, self.norm = nn.Embedding(100, 64), nn.ModuleList(Rope(length=32) for _ in range(2)), nn.RMSNorm(64)
            self.out = nn.Linear(64, 100, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, tokens, at):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x, at)
            return self.out(self.norm(x))

    return Net(), (torch.randint(0, 100, (1, 5)), torch.arange(3, 8))


@model
def running_state():
    """Buffers written in place in several ways: counter, ring of frames by copy_ and slices, running mean by lerp_."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.tensor(3))
            self.register_buffer("ring", torch.randn(1, 8, 6))
            self.register_buffer("mean", torch.randn(8))
            self.conv = nn.Conv1d(8, 12, 3)

        def forward(self, x):
            self.steps.add_(1)
            window = torch.cat([self.ring, x], -1)
            self.ring.copy_(window[..., -6:])
            self.mean.lerp_(x.mean((0, 2)), 0.1)
            self.ring[:, 0].mul_(0.5)
            return self.conv(window - self.mean[None, :, None]) / self.steps, self.ring.sum(-1)

    return Net(), (torch.randn(1, 8, 4),)


@model
def in_place_maths():
    """Views written through: masked fill, slice assignment, index_put, scatter, diagonal."""

    def forward(self, x, index):
        y = self.a(x).clone()
        y[:, 2:5] *= 2.0
        y[y < -0.5] = -0.5
        y[torch.arange(4), index] = 1.5
        z = torch.zeros(4, 16).scatter_(1, index[:, None], 3.0).scatter_add_(1, index[:, None].expand(4, 16) % 7, y)
        z.diagonal().add_(1.0)
        z.view(-1)[::5] = 0.25
        return y.relu_(), z.masked_fill_(z > 2, 2.0).index_add_(0, index % 4, x[:, :16] * 0.5)

    return Then(forward, a=nn.Linear(16, 16)), (torch.randn(4, 16), torch.tensor([3, 0, 9, 12]))


@model
def dict_inputs():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.text, self.box, self.fuse = nn.EmbeddingBag(50, 16, mode="mean"), nn.Linear(4, 16), nn.Bilinear(16, 16, 8)

        def forward(self, batch, scale):
            a = self.text(batch["tokens"], batch["offsets"])
            b, c = batch["boxes"]
            b = self.box(b / scale) * torch.sigmoid(c)
            return {"score": self.fuse(a, b), "parts": (a, [b]), "near": F.cosine_similarity(a, b)}

    return Net(), ({"tokens": torch.randint(0, 50, (9,)), "offsets": torch.tensor([0, 4, 6]), "boxes": (torch.rand(3, 4), torch.randn(3, 1))}, torch.tensor(2.0))


@model
def recommender():
    def forward(self, dense, sparse):
        rows = [self.bottom(dense)] + [e(sparse[:, i]) for i, e in enumerate(self.tables)]
        t = torch.stack(rows, 1)
        dots = torch.bmm(t, t.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([rows[0], dots[:, i, j]], 1)))

    return Then(forward, bottom=nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU()), tables=nn.ModuleList(nn.Embedding(n, 16) for n in (30, 50, 7)),
                top=nn.Sequential(nn.Linear(22, 32), nn.ReLU(), nn.Linear(32, 1))), (torch.randn(5, 13), torch.randint(0, 7, (5, 3)))


@model
def point_net():
    def forward(self, x):
        t = self.tnet(x).amax(-1)
        x = torch.bmm((self.fc(t).view(-1, 3, 3) + torch.eye(3)), x)
        return self.out(self.body(x).max(-1).values)

    layer = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU())
    return Then(forward, tnet=layer(3, 32), fc=nn.Linear(32, 9), body=nn.Sequential(layer(3, 32), layer(32, 96)), out=nn.Linear(96, 10)), (torch.randn(2, 3, 128),)


@model
def graph_net():
    """Two rounds of attention over edges: gather, segment softmax by scatter_reduce, scatter_add."""

    def forward(self, x, edges):
        a, b = edges
        for w, s in zip(self.w, self.s):
            y = w(x)
            score = F.leaky_relu(s(torch.cat([y[a], y[b]], -1)), 0.2).squeeze(-1)
            top = torch.full((x.shape[0],), -1e9).scatter_reduce(0, b, score, "amax")
            e = torch.exp(score - top[b])
            e = e / torch.zeros(x.shape[0]).index_add(0, b, e)[b]
            x = F.elu(torch.zeros_like(y).index_add(0, b, y[a] * e[:, None])) + y
        return x

    return Then(forward, w=nn.ModuleList([nn.Linear(12, 24), nn.Linear(24, 24)]), s=nn.ModuleList([nn.Linear(48, 1), nn.Linear(48, 1)])), (torch.randn(10, 12), torch.randint(0, 10, (2, 40)))


@model
def temporal_convolution():
    block = lambda i, o, d: Residual(nn.Sequential(nn.ConstantPad1d((2 * d, 0), 0.0), nn.utils.parametrizations.weight_norm(nn.Conv1d(i, o, 3, dilation=d)), nn.ReLU(), nn.Dropout(0.2)),
                                     nn.Conv1d(i, o, 1) if i != o else None, nn.ReLU())
    return nn.Sequential(block(6, 24, 1), block(24, 24, 2), block(24, 24, 4), Then(lambda self, x: self.out(x[:, :, -1]), out=nn.Linear(24, 5))), (torch.randn(2, 6, 50),)


@model
def mixture_of_experts():
    def forward(self, x):
        p, index = self.gate(x).softmax(-1).topk(2, -1)
        p = p / p.sum(-1, keepdim=True)
        h = F.silu(torch.einsum("td,edh->teh", x, self.up))
        y = torch.einsum("teh,ehd->ted", h, self.down)
        chosen = torch.gather(y, 1, index[..., None].expand(-1, -1, y.shape[-1]))
        return x + (chosen * p[..., None]).sum(1), F.one_hot(index, 4).sum((0, 1))

    return Then(forward, gate=nn.Linear(32, 4), up=nn.Parameter(torch.randn(4, 32, 48) / 6), down=nn.Parameter(torch.randn(4, 48, 32) / 7)), (torch.randn(11, 32),)


@model
def state_space():
    """A Mamba-like block: gated causal depthwise convolution and a selective scan in log space by cumulative sums."""

    def forward(self, x):
        u, z = self.inp(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        dt, b, c = self.proj(u).split([1, 8, 8], -1)
        decay = (F.softplus(dt + self.bias)[..., None] * -torch.exp(self.log_a)).clamp(min=-0.5)
        total = decay.cumsum(1)
        h = torch.exp(total) * torch.cumsum(torch.exp(-total) * (u[..., None] * b[:, :, None]), 1)
        y = torch.einsum("blds,bls->bld", h, c) + u * self.skip
        return x + self.out(y * F.silu(z))

    return Then(forward, inp=nn.Linear(24, 96), conv=nn.Conv1d(48, 48, 4, padding=3, groups=48), proj=nn.Linear(48, 17), bias=nn.Parameter(torch.randn(48) - 4),
                log_a=nn.Parameter(torch.log(torch.arange(1.0, 9.0)).repeat(48, 1)), skip=nn.Parameter(torch.ones(48)), out=nn.Linear(48, 24)), (torch.randn(2, 20, 24),)


@model
def radiance_field():
    def forward(self, at, direction):
        code = lambda x, n: torch.cat([f(x * 2.0**k * math.pi) for k in range(n) for f in (torch.sin, torch.cos)], -1)
        y = self.body(code(at, 4))
        density = F.softplus(y[..., :1])
        colour = torch.sigmoid(self.colour(torch.cat([y[..., 1:], code(F.normalize(direction, dim=-1), 2)[:, None].expand(-1, at.shape[1], -1)], -1)))
        alpha = 1 - torch.exp(-density.squeeze(-1) * 0.1)
        weight = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        return (weight[..., None] * colour).sum(1), weight.sum(1)

    return Then(forward, body=nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 33)), colour=nn.Sequential(nn.Linear(44, 32), nn.ReLU(), nn.Linear(32, 3))), (torch.rand(6, 16, 3), torch.randn(6, 3))


# -- transformers --------------------------------------------------------------------------------------------------------

TEXT = dict(vocab_size=120, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64)
SIGHT = dict(image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
GROUPED = dict(TEXT, num_key_value_heads=2, use_cache=False)
tokens = lambda *size: torch.randint(1, 120, size or (2, 10))
mask = lambda: torch.tensor([[1] * 10, [1] * 6 + [0] * 4])
both = lambda: dict(input_ids=tokens(), attention_mask=mask())
TRANSFORMERS = {
    # name: (model class, config class, config, inputs)
    "bert": ("BertModel", "BertConfig", TEXT, lambda: dict(both(), token_type_ids=torch.randint(0, 2, (2, 10)))),
    "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", dict(vocab_size=120, dim=64, n_layers=2, n_heads=4, hidden_dim=128, max_position_embeddings=64), both),
    "roberta": ("RobertaForTokenClassification", "RobertaConfig", TEXT, both),
    "albert": ("AlbertModel", "AlbertConfig", dict(TEXT, embedding_size=32), both),
    "mobilebert": ("MobileBertModel", "MobileBertConfig", dict(TEXT, embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32), both),
    "electra": ("ElectraForQuestionAnswering", "ElectraConfig", dict(TEXT, embedding_size=32), both),
    "deberta": ("DebertaV2Model", "DebertaV2Config", dict(TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16), both),
    "modernbert": ("ModernBertModel", "ModernBertConfig", dict(TEXT, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2), both),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=120, n_embd=64, n_layer=2, n_head=4, n_positions=64, use_cache=False, bos_token_id=1, eos_token_id=2), lambda: dict(input_ids=tokens())),
    "opt": ("OPTForCausalLM", "OPTConfig", dict(vocab_size=120, hidden_size=64, word_embed_proj_dim=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, max_position_embeddings=64, use_cache=False), both),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, lambda: dict(input_ids=tokens())),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED, lambda: dict(input_ids=tokens())),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(GROUPED, head_dim=16), lambda: dict(input_ids=tokens())),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(GROUPED, head_dim=16, sliding_window=4), lambda: dict(input_ids=tokens())),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, pad_token_id=0, bos_token_id=1, eos_token_id=2), lambda: dict(input_ids=tokens())),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(GROUPED, sliding_window=4), lambda: dict(input_ids=tokens())),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=120, hidden_size=64, n_layer=2, n_head=4, use_cache=False), lambda: dict(input_ids=tokens())),
    "t5_encoder": ("T5EncoderModel", "T5Config", dict(vocab_size=120, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4), both),
    "t5": ("T5ForConditionalGeneration", "T5Config", dict(vocab_size=120, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False),
           lambda: dict(both(), decoder_input_ids=tokens(2, 6))),
    "bart": ("BartForConditionalGeneration", "BartConfig", dict(vocab_size=120, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
             encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64, use_cache=False, forced_eos_token_id=2), lambda: dict(both(), decoder_input_ids=tokens(2, 6))),
    "clip_vision": ("CLIPVisionModelWithProjection", "CLIPVisionConfig", dict(SIGHT, projection_dim=32), lambda: dict(pixel_values=image(2, 3, 32, 32))),
    "clip_text": ("CLIPTextModelWithProjection", "CLIPTextConfig", dict(TEXT, projection_dim=32, bos_token_id=1, eos_token_id=119), both),
    "siglip_vision": ("SiglipVisionModel", "SiglipVisionConfig", SIGHT, lambda: dict(pixel_values=image(2, 3, 32, 32))),
    "vit": ("ViTForImageClassification", "ViTConfig", dict(SIGHT, num_labels=10), lambda: dict(pixel_values=image(2, 3, 32, 32))),
    "deit": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", dict(SIGHT, num_labels=10), lambda: dict(pixel_values=image(2, 3, 32, 32))),
    "dinov2": ("Dinov2Model", "Dinov2Config", dict(image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, layerscale_value=0.5), lambda: dict(pixel_values=image(1, 3, 48, 40))),
    "beit": ("BeitForImageClassification", "BeitConfig", dict(SIGHT, num_labels=10, use_relative_position_bias=True, layer_scale_init_value=0.5), lambda: dict(pixel_values=image(2, 3, 32, 32))),
    "swinv2": ("Swinv2Model", "Swinv2Config", dict(image_size=32, patch_size=2, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4), lambda: dict(pixel_values=image(1, 3, 32, 32))),
    "segformer": ("SegformerForSemanticSegmentation", "SegformerConfig", dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32, num_labels=7),
                  lambda: dict(pixel_values=image())),
    "mobilevit": ("MobileViTForImageClassification", "MobileViTConfig", dict(image_size=64, hidden_sizes=[32, 48, 64], neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 64], num_labels=10), lambda: dict(pixel_values=image())),
    "mobilevitv2": ("MobileViTV2ForImageClassification", "MobileViTV2Config", dict(image_size=64, width_multiplier=0.25, num_labels=10), lambda: dict(pixel_values=image())),
    "poolformer": ("PoolFormerForImageClassification", "PoolFormerConfig", dict(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], num_labels=10, layer_scale_init_value=0.5), lambda: dict(pixel_values=image())),
    "efficientformer_levit": ("LevitForImageClassification", "LevitConfig", dict(image_size=64, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8],
                              num_labels=10), lambda: dict(pixel_values=image())),
    "yolos": ("YolosForObjectDetection", "YolosConfig", dict(SIGHT, image_size=[32, 48], num_detection_tokens=7, num_labels=5), lambda: dict(pixel_values=image(1, 3, 32, 48))),
    "dpt_depth": ("DPTForDepthEstimation", "DPTConfig", dict(SIGHT, num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 24, 32, 32], fusion_hidden_size=16, is_hybrid=False, initializer_range=0.1),
                  lambda: dict(pixel_values=image(1, 3, 32, 32))),
    "whisper_encoder": ("WhisperEncoder", "WhisperConfig", dict(d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=20, max_source_positions=30), lambda: dict(input_features=torch.randn(1, 20, 60))),
    "whisper": ("WhisperModel", "WhisperConfig", dict(vocab_size=120, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=128,
                num_mel_bins=20, max_source_positions=30, max_target_positions=20, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
                lambda: dict(input_features=torch.randn(1, 20, 60), decoder_input_ids=tokens(1, 6))),
    "wav2vec2": ("Wav2Vec2ForCTC", "Wav2Vec2Config", dict(vocab_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=[32, 32, 32], conv_stride=[5, 2, 2],
                 conv_kernel=[10, 3, 3], num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4), lambda: dict(input_values=torch.randn(2, 1600))),
    "hubert": ("HubertModel", "HubertConfig", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=[32, 32], conv_stride=[5, 4], conv_kernel=[10, 5],
               num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, feat_extract_norm="layer", do_stable_layer_norm=True), lambda: dict(input_values=torch.randn(1, 800))),
    "audio_spectrogram": ("ASTForAudioClassification", "ASTConfig", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, patch_size=8, frequency_stride=4, time_stride=4,
                          max_length=40, num_mel_bins=24, num_labels=6), lambda: dict(input_values=torch.randn(1, 40, 24))),
    "mamba": ("MambaForCausalLM", "MambaConfig", dict(vocab_size=120, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False), lambda: dict(input_ids=tokens(1, 6))),
    "time_series": ("PatchTSTForPrediction", "PatchTSTConfig", dict(num_input_channels=3, context_length=32, patch_length=8, patch_stride=4, d_model=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                    prediction_length=8), lambda: dict(past_values=torch.randn(2, 32, 3))),
}


def from_transformers(name):
    import transformers

    model_class, config_class, config, inputs = TRANSFORMERS[name]
    made = getattr(transformers, config_class)(**config)
    if model_class == "WhisperEncoder":
        from transformers.models.whisper.modeling_whisper import WhisperEncoder as cls
    else:
        cls = getattr(transformers, model_class)
    return cls(made), (), inputs()


# -- variants ------------------------------------------------------------------------------------------------------------


def decompose(program):
    return program.run_decompositions()


def pt2e(args, dynamic=False, qat=False):
    """torchao's export quantization, calibrated on the case's own inputs and two noisy copies of them."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    def prepare(program):
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic))
        net = prepare_pt2e(program.module(), quantizer)
        for noise in (0.0, 0.1, 0.3):
            net(*(x + noise * torch.randn_like(x) if x.is_floating_point() else x for x in args))
        return torch.export.export(convert_pt2e(net), args)

    return prepare


def int8_weights(net):
    from torchao.quantization import Int8WeightOnlyConfig, quantize_
    from torchao.utils import unwrap_tensor_subclass

    quantize_(net, Int8WeightOnlyConfig())
    return unwrap_tensor_subclass(net)


DECOMPOSED = ("mobilenet_v3", "swin", "unet", "conv_tasnet", "conformer", "crnn_ocr", "gru_forecast", "transformer_seq2seq", "decoder_kv_cache", "running_state",
              "in_place_maths", "deeplab", "style_transfer", "depth", "graph_net", "diffusion_unet", "bert", "llama", "segformer", "wav2vec2")
PT2E = ("mobilenet_v2", "resnet", "squeezenet", "unet", "yolo", "mlp_mixer", "conv_tasnet", "super_resolution")
PT2E_DYNAMIC = ("transformer_encoder", "mlp_mixer", "gru_forecast")
INT8_WEIGHTS = ("transformer_encoder", "mlp_mixer", "point_net")
batch, length = Dim("batch", min=1, max=16), Dim("length", min=2, max=48)
DYNAMIC = {  # name: (dynamic_shapes, further inputs)
    "mobilenet_v3": (({0: batch},), lambda: [(image(3, 3, 96, 96),)]),
    "unet": (({0: batch, 2: 8 * Dim("h", min=2, max=20), 3: 8 * Dim("w", min=2, max=20)},), lambda: [(image(2, 3, 48, 80),)]),
    "conv_tasnet": (({0: batch},), lambda: [(torch.randn(5, 1, 1600),), (torch.randn(1, 1, 1600),)]),
    "lstm_tagger": (({0: batch},), lambda: [(torch.randint(0, 200, (7, 17)),), (torch.randint(0, 200, (1, 17)),)]),
    "transformer_encoder": (({0: batch, 1: length},), lambda: [(torch.randn(5, 3, 64),), (torch.randn(1, 33, 64),)]),
    "state_space": (({1: length},), lambda: [(torch.randn(2, 7, 24),)]),
    "point_net": (({0: batch, 2: Dim("points", min=4, max=500)},), lambda: [(torch.randn(5, 3, 77),)]),
    "graph_net": (({0: Dim("nodes", min=2, max=99)}, {1: Dim("edges", min=2, max=99)}), lambda: [(torch.randn(6, 12), torch.randint(0, 6, (2, 15)))]),
    "decoder_kv_cache": (({1: length}, {0: length}), lambda: [(torch.randint(0, 100, (1, 2)), torch.tensor([0, 1]))]),
    "mixture_of_experts": (({0: length},), lambda: [(torch.randn(3, 32),)]),
}


def build(name):
    """The net with everything random seeded, and its inputs: one seed for each name, so that --only changes no other model."""
    torch.manual_seed(0)
    made = MODELS[name]() if name in MODELS else from_transformers(name)
    net, args, kwargs = (*made, {}) if len(made) == 2 else made
    for key, value in net.named_buffers():
        if key.endswith("running_mean"):
            value.normal_(0, 0.2)
        elif key.endswith("running_var"):
            value.uniform_(0.5, 1.5)
    for key, value in net.named_parameters():
        if name in TRANSFORMERS and value.dim() > 1:  # transformers starts weights at 0.02: outputs would all be alike
            value.data.mul_(2.5)
        elif value.dim() == 1 and (value == 0).all():
            value.data.normal_(0, 0.1)
    return net.eval(), args, kwargs


def telling(program):
    """Outputs that vary: otherwise a wrong answer is within the tolerance."""
    args, kwargs = program.example_inputs
    with torch.no_grad():
        outputs = [x for x in arrays(copy.deepcopy(program).module()(*args, **kwargs)) if x.dtype.kind == "f" and x.size > 1]
    if not all(np.isfinite(x).all() for x in outputs) or (outputs and max(x.std() for x in outputs) < 1e-2):
        raise Refused(f"outputs do not vary, or are not finite (std {[float(x.std()) for x in outputs]})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    only = (args := parser.parse_args()).only
    cases = Cases(args.out, max_elements=10**7, seconds=600)

    def add(name, suffix="", change=lambda net: net, prepare=None, shapes=None, further=list):
        if re.search(only, name + suffix):
            net, inputs, kwargs = build(name)
            if shapes:  # exported with the first of the further inputs: a batch of one would become a constant
                inputs, *rest = [*further(), inputs]
                shapes = (shapes,) if isinstance(net, Then) else shapes
            cases.add("model", name + suffix, change(net), inputs, kwargs, prepare=prepare(inputs) if prepare else None, check=telling,
                      dynamic_shapes=shapes, more_inputs=rest if shapes else ())

    for name in [*MODELS, *TRANSFORMERS]:
        add(name)
    for name in DECOMPOSED:
        add(name, ".decomposed", prepare=lambda inputs: decompose)
    for name in PT2E:
        add(name, ".pt2e", prepare=pt2e)
    for name in PT2E_DYNAMIC:
        add(name, ".pt2e_dynamic", prepare=lambda inputs: pt2e(inputs, dynamic=True))
    for name in INT8_WEIGHTS:
        add(name, ".int8_weights", change=int8_weights)
    for name, (shapes, further) in DYNAMIC.items():
        add(name, ".dynamic", shapes=shapes, further=further)
    print(cases.close())


if __name__ == "__main__":
    main()
