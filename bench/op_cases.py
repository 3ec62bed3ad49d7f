#!/usr/bin/env python3
"""The emulator beside Qualcomm's library, case by case: modules of one op, compiled once for each engine.

    python bench/op_cases.py CASES [--only REGEX] [--keep FOLDER] [-j 2] [--all]

CASES has folders quant/<case> and float/<case> with model.pt2, in_*.npy and case.json. Each is compiled for both engines
(quant: with the inputs as samples, at the precision that case.json names; float: fp16) and run. Distances are steps of the
output's encoding, of floats halves; floats that are outside are also said in halves of the largest output, which is
small where terms cancelled. The limits:

    8 bits   99 % within one step, none beyond 4
    16 bits  99 % within two steps; softmax, norms and transcendental ops within 0.3 % of the output's range
    floats   all within 2 halves; the same ops within 1e-2 of the largest output

"ideal" is the share of the library's elements that ideal arithmetic has: floats, every value rounded to its grid once
(`compile --simulated`). --keep keeps what the library gave, and takes it from there the next time. A line for each op
and width; --all also those that are equal everywhere.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()
REAL = re.compile("softmax|norm|exp|log|sin|cos|tan|sqrt|sigmoid|gelu|silu|swish|elu|pow|mish|erf|attention|var|std|softplus|glu")
RANDOM = re.compile("rand|dropout")


def sixfold(*args):
    done = subprocess.run([str(a) for a in (SIXFOLD, *args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["nothing on stderr"])[-1][:200])
    return done.stdout


def flags_of(case, listing):
    quant = case["quant"]
    if quant is None:
        return ["--precision", "fp16"]
    dtype = str(quant.get("quant_dtype"))
    flags = ["--precision", dtype[4:] if dtype.startswith("use_") else "8a8w", "--calib", listing]
    flags += ["--per-channel-linear"] if quant.get("is_linear_per_channel") else []
    flags += ["--no-per-channel-conv"] if quant.get("is_conv_per_channel") is False else []
    flags += ["--per-channel-embedding"] if quant.get("is_embedding_per_channel") else []
    for node, block in (quant.get("block_size_map") or {}).items():
        flags += ["--block-size", f"{node}={','.join(str(b) for b in block)}"]
    return flags


def run_engine(folder, case, engine, out):
    """Outputs as .npy in `out`, with encodings, what ideal arithmetic gives, and the report of the compilation."""
    if (out / "made.json").exists():
        return
    inputs = sorted(folder.glob("in_*.npy"), key=lambda p: int(p.stem[3:]))
    out.mkdir(parents=True, exist_ok=True)
    (out / "list.txt").write_text(" ".join(str(p.resolve()) for p in inputs) + "\n")
    flags = flags_of(case, out / "list.txt")
    fixed = not flags[1].startswith("fp16")  # fp16a8w: of weights alone
    extra = ["--export-encodings", out / "encodings.json", "--simulated", out / "ideal"] if fixed else []
    made = sixfold("compile", folder / "model.pt2", "-o", out / "m.pte", "--backend", "htp", "--engine", engine,
                   *flags, *extra, "--json")
    sixfold("run", out / "m.pte", "--engine", engine, *[x for p in inputs for x in ("--input", p)], "--output-dir", out)
    (out / "made.json").write_text(made)
    (out / "m.pte").unlink()


def halves(x):
    bits = np.asarray(x, np.float16).view(np.int16).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def compared(ours, theirs, encoding, ideal, real):
    """One output: (width, count, equal, within, worst, equal of ideal arithmetic or None, fine, worst in halves of the largest)."""
    if theirs.dtype.kind != "f":
        same = int(np.sum(ours == theirs))
        return "int", theirs.size, same, same, 0, None, same >= 0.99 * theirs.size, 0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if encoding is None:
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.where(same, 0, np.abs(halves(a) - halves(b)))
            off = np.where(same, 0, np.abs(a - b))
        largest = np.abs(b[np.isfinite(b)]).max(initial=0)
        within = (steps <= 2) | (off <= 1e-2 * largest) if real else steps <= 2
        half = 2.0 ** (np.floor(np.log2(largest)) - 10) if largest > 0 else 1
        return ("fp16", b.size, int(np.sum(steps == 0)), int(np.sum(within)), int(steps.max(initial=0)), None, bool(within.all()),
                off.max(initial=0) / half)
    bits, step = encoding["bw"], encoding["scale"][0]
    steps = np.abs(np.rint((a - b) / step))
    within = steps <= (1 if bits == 8 else 2)
    if real and bits == 16:
        within |= np.abs(a - b) <= 0.003 * step * 65535
    exact = None if ideal is None else int(np.sum(np.rint((ideal.reshape(b.shape) - b) / step) == 0))
    worst = int(steps.max(initial=0))
    fine = np.mean(within) >= 0.99 and (bits == 16 or worst <= 4) if b.size else True
    return f"{bits} bits", b.size, int(np.sum(steps == 0)), int(np.sum(within)), worst, exact, bool(fine), 0


def run_case(folder, keep):
    case = json.loads((folder / "case.json").read_text())
    name = f"{folder.parent.name}/{folder.name}"
    if any(RANDOM.search(op) for op in case["ops"]) or (case["quant"] or {}).get("submodule_qconfig_list"):
        return name, case, []
    with tempfile.TemporaryDirectory() as tmp:
        places = {"emulator": pathlib.Path(tmp), "qnn": keep / name if keep else pathlib.Path(tmp) / "qnn"}
        try:
            for engine, out in places.items():
                run_engine(folder, case, engine, out)
        except RuntimeError as error:
            return name, case, str(error)
        outputs = json.loads((places["emulator"] / "made.json").read_text())["methods"][0].get("accuracy") or {}
        names = [o["value"] for o in outputs.get("outputs", [])]
        encodings = {}
        if case["quant"] is not None and (places["emulator"] / "encodings.json").exists():
            known = json.loads((places["emulator"] / "encodings.json").read_text())["activation_encodings"]
            encodings = {e["name"]: e for e in known}
        rows, real = [], any(REAL.search(op) for op in case["ops"])
        files = sorted(places["qnn"].glob("output_*.npy"), key=lambda p: int(p.stem[7:]))
        floats = iter(names)
        for file in files:
            theirs, ideal = np.load(file), places["emulator"] / "ideal" / file.name
            encoding = encodings.get(next(floats, None)) if theirs.dtype.kind == "f" else None
            rows.append(compared(np.load(places["emulator"] / file.name), theirs, encoding,
                                 np.load(ideal) if ideal.exists() else None, real))
        return name, case, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    folders = sorted(p.parent for suite in ("quant", "float") for p in (args.cases / suite).glob("*/case.json"))
    folders = [f for f in folders if re.search(args.only, f"{f.parent.name}/{f.name}")]
    sums, outside, failed = collections.defaultdict(collections.Counter), [], []
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for name, case, rows in pool.map(lambda f: run_case(f, args.keep), folders):
            if isinstance(rows, str):
                failed.append(f"{name}: {rows}")
                continue
            op = re.sub(r"\.\d+$", "", name.split("/")[1])
            for width, count, equal, within, worst, ideal, fine, of_largest in rows:
                s = sums[op, width]
                s.update(cases=1, count=count, equal=equal, within=within, outside=not fine)
                s["worst"] = max(s["worst"], worst)
                if ideal is not None:
                    s.update(ideal=ideal, judged=count)
                if not fine:
                    outside.append(f"{name}: {width}, {100 * within / max(count, 1):.2f} % within, worst {worst}" +
                                   (f", {of_largest:.2f} of the largest" if width == "fp16" else ""))
    part = lambda a, b: f"{100 * a / b:.2f}" if b else "–"  # noqa: E731
    print("| op | width | outputs | equal % | ideal % | within % | worst | |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for (op, width), s in sorted(sums.items()):
        if s["equal"] < s["count"] or args.all:
            print(f"| {op} | {width} | {s['cases']} | {part(s['equal'], s['count'])} | {part(s['ideal'], s['judged'])} | "
                  f"{part(s['within'], s['count'])} | {s['worst']} | {'outside' if s['outside'] else ''} |")
    for width in ("8 bits", "16 bits", "fp16", "int"):
        of = [s for (_, w), s in sums.items() if w == width]
        better = sum(s["equal"] > s["ideal"] for s in of if s["judged"])
        alike = sum(s["equal"] == s["ideal"] for s in of if s["judged"])
        print(f"\n{width}: {sum(s['cases'] for s in of)} outputs of {len(of)} ops, {sum(s['outside'] for s in of)} outside; "
              f"{sum(s['equal'] == s['count'] for s in of)} ops equal everywhere; more equal than ideal arithmetic: {better}, "
              f"as many: {alike}, fewer: {sum(bool(s['judged']) for s in of) - better - alike}")
    print("\n".join(["", *outside, *failed]))


if __name__ == "__main__":
    main()
