#!/usr/bin/env python3
"""How far the emulator's ops are from those of Qualcomm's library: a line for each op and types.

    python bench/agreement.py MODEL.pt2 ... [--bits 0|8|16] [--only REGEX] [--all]

Runs `sixfold compare --json` (which needs Qualcomm's libraries) over the models' ops with random inputs; --bits 8 or 16 turns float
ops into fixed point. Distances are steps of the output, of floats halves. `!` marks what is outside the limits: 8 bits, 99 % within
1 and none beyond 4; 16 bits, 99 % within 2; floats, within 2. Ops that are equal everywhere are counted unless --all is given.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()


def outside(bits, s):
    share = {k: s[k] / s["count"] for k in ("within_1", "within_2")}
    if bits == 8:
        return share["within_1"] < 0.99 or s["most"] > 4
    return share["within_2"] < 0.99 if bits == 16 else s["most"] > 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=8, choices=(0, 8, 16))
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
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
