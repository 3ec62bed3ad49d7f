#!/usr/bin/env python3
"""Train the digits classifier that `make demo` runs, and write demo/digits.pt2, its test set
and the digits that it is quantized by.

    python demo/train_digits.py

The data are scikit-learn's digits: 1,797 handwritten digits of 8 x 8 pixels, of which the fifth that is never
trained on becomes the test set. Needs torch and scikit-learn; takes a few seconds and is seeded.
"""
import pathlib
import re
import sysconfig

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
CALIBRATION = 64  # training digits by which the quantizer chooses ranges


def conv_bn_relu(inputs, outputs, kernel, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Digits(nn.Module):
    """A convolution, two depthwise-separable blocks with a pool before each, and a linear classifier."""

    def __init__(self):
        super().__init__()
        self.stem = conv_bn_relu(1, 16, 3)
        self.depthwise1, self.pointwise1 = conv_bn_relu(16, 16, 3, groups=16), conv_bn_relu(16, 32, 1)
        self.depthwise2, self.pointwise2 = conv_bn_relu(32, 32, 3, groups=32), conv_bn_relu(32, 64, 1)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(64 * 2 * 2, 10)

    def forward(self, image):
        x = self.stem(image)
        x = self.pointwise1(self.depthwise1(self.pool(x)))
        x = self.pointwise2(self.depthwise2(self.pool(x)))
        return self.classifier(torch.flatten(x, 1))


def load():
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    return train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)


def train(model, images, labels, epochs=30, batch=64):
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    steps = epochs * -(-len(images) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def shorten_paths(program):
    """The file keeps a stack trace for each node: name its sources from the repository, or from site-packages on."""
    packages = pathlib.Path(sysconfig.get_paths()["purelib"]).parent
    prefix = re.compile("|".join(re.escape(f"{root}/") for root in (packages, HERE.parent)))
    for node in program.graph.nodes:
        if node.meta.get("stack_trace"):
            node.meta["stack_trace"] = prefix.sub("", node.meta["stack_trace"])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_images, test_images, train_labels, test_labels = load()
    model = train(Digits(), train_images, train_labels)
    with torch.no_grad():
        guesses = model(torch.from_numpy(test_images)).argmax(1).numpy()
    right = int((guesses == test_labels).sum())
    print(f"test accuracy {100 * right / len(test_labels):.2f} % ({right} of {len(test_labels)})")
    if right < 0.97 * len(test_labels):
        raise SystemExit("expected at least 97 %")

    program = torch.export.export(model, (torch.from_numpy(test_images[:1]),))
    shorten_paths(program)
    torch.export.save(program, HERE / "digits.pt2")
    np.savez(HERE / "digits_test.npz", in0=test_images[:, None], labels=test_labels)
    np.savez(HERE / "digits_calib.npz", in0=train_images[:CALIBRATION, None])
    for name in ("digits.pt2", "digits_test.npz", "digits_calib.npz"):
        print(f"demo/{name}: {(HERE / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
