#!/usr/bin/env python3
"""Make zoo models of well-known shapes without the packages that test/zoo takes photos and speech from.

    python quick_zoo.py OUT NAME...

The folders are those of zoo/make_zoo.py; seeded noise stands in for the photos and the speech.
"""
import pathlib
import sys

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "zoo"))
import make_zoo


def images(count, seed):
    """Coarse noise scaled up: smooth like a photo, so that batch-norm statistics are not those of white noise."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).resize((256, 256), Image.BICUBIC)


def sounds(count, seed):
    rng = np.random.default_rng(seed)
    for i in range(count):
        time = np.arange(16000) / 16000
        tone = np.sin(2 * np.pi * rng.uniform(100, 2000) * time) * rng.uniform(0.1, 0.9)
        yield (tone + 0.02 * rng.standard_normal(16000)).astype(np.float32), f"tone {i}"


def main():
    out, names = sys.argv[1], sys.argv[2:]
    make_zoo.photo_list = lambda: list(images(16, seed=0))
    make_zoo.D.imagenet20 = lambda root: [(image, 0, "noise") for image in images(8, seed=1)]
    make_zoo.D.asterisk = lambda root, n: list(sounds(n, seed=2))
    sys.argv = ["make_zoo.py", "--packages", "-", "--out", out, *names]
    make_zoo.main()


if __name__ == "__main__":
    main()
