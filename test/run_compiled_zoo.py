#!/usr/bin/env python3
"""Compile the models of a zoo folder with `sixfold compile --backend cpu` and run rows of them with ExecuTorch's Python runtime
and with `sixfold run`.

    run_compiled_zoo.py SIXFOLD ZOO [--only REGEX] [--rows N] [--ours] [--json OUT]

--ours leaves ExecuTorch out, whose portable kernels take minutes for some models.
Outputs must be within 1e-4 of ref.npz relative to its largest value (1e-3 where ref.npz keeps halves), as test/zoo/run_zoo.py
asks of the CPU engine.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np


def one(args, folder, tmp):
    done = subprocess.run([args.sixfold, "compile", folder / "model.pt2", "--backend", "cpu", "-o", tmp / "m.pte", "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:300])
    made = json.loads(done.stdout)
    data, ref = np.load(folder / "eval.npz"), np.load(folder / "ref.npz")
    names = sorted(data.files, key=lambda k: int(k[2:]) if k[2:].isdigit() else -1)
    names = [n for n in names if re.fullmatch(r"in\d+", n)]
    worst, spent = 0.0, 0.0
    rows = min(args.rows, len(data[names[0]]))
    done = subprocess.run([args.sixfold, "run", tmp / "m.pte", "--npz", folder / "eval.npz", "--rows", str(rows), "--npz-out", tmp / "o.npz",
                           "--json"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"sixfold run: {done.stderr.strip().splitlines()[-1][:300]}")
    ours = np.load(tmp / "o.npz")
    off = [float(np.abs(ours[f"out{i}"] - ref[f"out{i}"][:rows]).max() / max(1e-6, np.abs(ref[f"out{i}"]).max())) for i in range(len(ours.files))]
    if not args.ours:
        import torch
        from executorch.runtime import Runtime

        method = Runtime.get().load_program(tmp / "m.pte").load_method("forward")
    for row in range(0 if args.ours else rows):
        begin = time.time()
        outs = method.execute([torch.from_numpy(data[n][row]) for n in names])
        spent += time.time() - begin
        for i, y in enumerate(outs):
            want = ref[f"out{i}"]
            worst = max(worst, float(np.abs(y.numpy() - want[row]).max() / max(1e-6, np.abs(want).max())))
    m = made["methods"][0]
    most = 1e-3 if ref["out0"].dtype == np.float16 else 1e-4
    return {"ok": worst <= most and max(off) <= most, "worst_relative": worst, "worst_relative_of_ours": max(off), "kernel_calls": m["kernel_calls"],
            "arena_bytes": m["arena_bytes"], "file_bytes": made["file_bytes"], "compile_s": round(made["cpu_s"], 2), "run_s": round(spent, 2)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sixfold", type=pathlib.Path)
    p.add_argument("zoo", type=pathlib.Path)
    p.add_argument("--only", default="")
    p.add_argument("--rows", type=int, default=1)
    p.add_argument("--ours", action="store_true")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    args.sixfold = args.sixfold.resolve()
    results = {}
    for folder in sorted(f.parent for f in args.zoo.glob("*/meta.json") if re.search(args.only, f.parent.name)):
        with tempfile.TemporaryDirectory() as tmp:
            try:
                results[folder.name] = one(args, folder, pathlib.Path(tmp))
            except Exception as error:
                results[folder.name] = {"ok": False, "error": str(error)}
        print(f"{folder.name:28} {results[folder.name]}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    good = sum(r["ok"] for r in results.values())
    print(f"{good} passed, {len(results) - good} failed")
    sys.exit(good < len(results))


if __name__ == "__main__":
    main()
