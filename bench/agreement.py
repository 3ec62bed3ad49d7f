#!/usr/bin/env python3
"""How far the emulator's ops are from those of Qualcomm's library: a line for each op and types.

    python bench/agreement.py MODEL.pt2 ... [--bits 0|8|16] [--only REGEX] [--all]
    python bench/agreement.py --whole FOLDER ... [--precision 8a8w ...] [--rows 2]

Runs `sixfold compare --json` (which needs Qualcomm's libraries) over the models' ops with random inputs; --bits 8 or 16 turns float
ops into fixed point. Distances are steps of the output, of floats halves. `!` marks what is outside the limits: 8 bits, 99 % within
1 and none beyond 4; 16 bits, 99 % within 2; floats, within 2. Ops that are equal everywhere are counted unless --all is given.

--whole compiles model.pt2 of each folder for both engines with the samples of calib.npz and runs rows of eval.npz: decibels between
the engines, and of each against ref.npz, of all outputs together; "same top" is the share of rows whose largest number of the first
output is at one place.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()


def outside(bits, s):
    share = {k: s[k] / s["count"] for k in ("within_1", "within_2")}
    if bits == 8:
        return share["within_1"] < 0.99 or s["most"] > 4
    return share["within_2"] < 0.99 if bits == 16 else s["most"] > 2


def sixfold(*args):
    done = subprocess.run([str(a) for a in (SIXFOLD, *args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["nothing on stderr"])[-1])


def decibels(reference, got):
    noise = sum(np.sum((a.astype(np.float64) - b.astype(np.float64)) ** 2) for a, b in zip(reference, got))
    power = sum(np.sum(a.astype(np.float64) ** 2) for a in reference)
    return "equal" if noise == 0 else f"{10 * np.log10(power / noise):.1f}"


def whole_model(folder, precision, rows):
    """A line of the table: the model on both engines."""
    outputs = {}
    with tempfile.TemporaryDirectory() as tmp:
        for engine in ("emulator", "qnn"):
            made, out = f"{tmp}/{engine}.pte", f"{tmp}/{engine}.npz"
            samples = [] if precision == "fp16" else ["--calib", folder / "calib.npz"]
            sixfold("compile", folder / "model.pt2", "-o", made, "--backend", "htp", "--engine", engine, "--precision", precision,
                    "--no-accuracy", *samples, "--json")
            sixfold("run", made, "--engine", engine, "--npz", folder / "eval.npz", "--npz-out", out, "--rows", rows, "--json")
            with np.load(out) as file:
                outputs[engine] = [file[f"out{i}"] for i in range(len(file.files))]
    ours, theirs = outputs["emulator"], outputs["qnn"]
    count = len(ours[0])
    with np.load(folder / "ref.npz") as file:
        reference = [file[f"out{i}"][:count].reshape(o.shape) for i, o in enumerate(ours)]
    same = sum(np.sum(a == b) for a, b in zip(ours, theirs)) / sum(a.size for a in ours)
    top = np.mean([np.argmax(a) == np.argmax(b) for a, b in zip(ours[0], theirs[0])])
    return (f"| {folder.name} | {precision} | {count} | {decibels(theirs, ours)} | {100 * same:.2f} | {100 * top:.0f} | "
            f"{decibels(reference, ours)} | {decibels(reference, theirs)} |")


def whole_models(args):
    print("| model | precision | rows | between, dB | equal % | same top % | emulator to float, dB | QNN to float, dB |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for precision in args.precision:
        for folder in args.models:
            print(whole_model(folder, precision, args.rows), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=8, choices=(0, 8, 16))
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--precision", nargs="+", default=["8a8w"])
    parser.add_argument("--rows", type=int, default=2)
    args = parser.parse_args()
    if args.whole:
        whole_models(args)
        return
    fixed = ["--fixed", str(args.bits)] if args.bits else []
    command = [SIXFOLD, "compare", *fixed, "--json", *args.models]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sixfold compare: {done.stderr.strip()}")
    sums = collections.defaultdict(collections.Counter)
    for row in json.loads(done.stdout):
        for o in row.get("outputs", []):
            s = sums[f"{row['op']} ({row['types']})"]
            s["cases"] += 1
            for key in ("count", "equal", "within_1", "within_2"):
                s[key] += o[key]
            s["most"] = max(s["most"], o["most"])
    equal = 0
    print("| op | cases | equal % | within 1 | within 2 | most | |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, s in sorted(sums.items(), key=lambda item: item[1]["equal"] / max(1, item[1]["count"])):
        if not re.search(args.only, name) or s["count"] == 0:
            continue
        if s["equal"] == s["count"] and not args.all:
            equal += 1
            continue
        cells = [f"{100 * s[k] / s['count']:.2f}" for k in ("equal", "within_1", "within_2")]
        print(f"| {name} | {s['cases']} | {' | '.join(cells)} | {s['most']} | {'!' if outside(args.bits, s) else ''} |")
    print(f"\n{equal} more are equal everywhere.")


if __name__ == "__main__":
    main()
