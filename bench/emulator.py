#!/usr/bin/env python3
"""Time whole models in fixed point side by side: sixfold's emulator and ONNX Runtime's int8 kernels, same threads, same run.

    python bench/emulator.py [--threads 2] [--rounds 5] [--only REGEX] [--json OUT] [--cpu]

ONNX Runtime's models are made by quantize_static: QDQ, unsigned 8-bit activations, signed 8-bit weights by channel. Ours are compiled at 8a8w and 16a8w.
`SIXFOLD_QUANT_KERNELS=avx2` keeps our kernels to AVX2; ONNX Runtime, which has no such switch, runs with hide_avx512.c preloaded
(–: the machine does not let it hide anything).
Rounds alternate; a cell is the median over rounds of each round's median, with the spread (largest minus smallest) behind it.
--cpu: milliseconds of CPU on one thread instead, means of a round, the smallest of all rounds: for machines that others use as well.
"""
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models

MODELS = {**models.MODELS, "deeplabv3_resnet101": models.SHOWN}


def samples(folder, count=4):
    """The model's input and variants of it: token numbers are turned round, pixels are scaled."""
    rows = np.load(folder / "in.npz")
    out = []
    for i in range(count):
        feed = []
        for k in sorted(rows.files, key=lambda k: int(k[2:])):
            x = rows[k][0]
            feed.append(x * (1 - i / 8) if x.dtype == np.float32 and x.size > 1000 else np.roll(x, i, -1))
        out.append([f.astype(rows[k].dtype) for f, k in zip(feed, rows.files)])
    return out


def make_int8(folder):
    """model.int8.onnx of the folder, made once."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = folder / "model.int8.onnx"
    if path.exists():
        return path
    if not (folder / "model.onnx").exists():
        models.export_onnx(folder.name, *MODELS[folder.name], folder)

    class Reader(q.CalibrationDataReader):
        def __init__(self, names):
            self.feeds = iter([dict(zip(names, s)) for s in samples(folder)])

        def get_next(self):
            return next(self.feeds, None)

    names = [x.name for x in onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"]).get_inputs()]
    prepared = folder / "prepared.onnx"
    quant_pre_process(str(folder / "model.onnx"), str(prepared), skip_symbolic_shape=True)
    q.quantize_static(str(prepared), str(path), Reader(names), quant_format=q.QuantFormat.QDQ, per_channel=True,
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    return path


def make_pte(folder, precision):
    path, calib = folder / f"{precision}.pte", folder / "calib.npz"
    if not calib.exists():
        rows = samples(folder)
        np.savez(calib, **{f"in{i}": np.stack([r[i] for r in rows]) for i in range(len(rows[0]))})
    if not path.exists() or path.stat().st_mtime < models.SIXFOLD.stat().st_mtime:
        command = [models.SIXFOLD, "compile", folder / "model.pt2", "-o", path, "--backend", "htp", "--engine", "emulator",
                   "--precision", precision, "--calib", calib, "--json"]
        done = subprocess.run([str(w) for w in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"sixfold compile {folder.name}: {done.stderr.strip()}")
        if json.loads(done.stdout)["delegates"] != 1:
            raise SystemExit(f"{folder.name} at {precision} is not one part on the NPU; not timed")
    return path


def run_sixfold(path, folder, args, iterations, kernels):
    """Milliseconds of an inference."""
    env = dict(os.environ, **({"SIXFOLD_QUANT_KERNELS": kernels} if kernels else {}))

    def once(warmup, count):
        command = [models.SIXFOLD, "run", path, "--engine", "emulator", "--npz", folder / "in.npz", "--threads", args.threads,
                   "--warmup", warmup, "--iterations", count, "--json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env=env)
        if done.returncode:
            raise SystemExit(f"sixfold on {path}: {done.stderr.strip()}")
        return json.loads(done.stdout)["p50_ms"], resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    if not args.cpu:
        return once(2, iterations)[0]
    return (once(0, iterations + 1)[1] - once(0, 1)[1]) / iterations * 1e3  # loading is in both


def run_onnxruntime(folder, args, iterations, preload=None):
    """The same of ONNX Runtime, in a process of its own."""
    env = dict(os.environ, **({"LD_PRELOAD": str(preload)} if preload else {}))
    command = [sys.executable, __file__, "--peer", folder, args.threads, iterations, int(args.cpu)]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"onnxruntime on {folder.name}: {done.stderr.strip()[-300:]}")
    return float(done.stdout.split()[-1])


def peer(folder, threads, iterations, cpu):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(f"{folder}/model.int8.onnx", options, providers=["CPUExecutionProvider"])
    rows = np.load(f"{folder}/in.npz")
    feed = {x.name: rows[f"in{i}"][0] for i, x in enumerate(session.get_inputs())}
    clock = time.process_time if cpu else time.perf_counter
    times = []
    for _ in range(iterations + 2):
        start = clock()
        session.run(None, feed)
        times.append(clock() - start)
    print((statistics.mean if cpu else statistics.median)(times[2:]) * 1e3)


def hidden():
    """The library that hides AVX-512 from a program; None where the machine does not let it (some virtual ones)."""
    path, source = models.MADE / "hide_avx512.so", pathlib.Path(__file__).with_name("hide_avx512.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", path], check=True)
    tried = subprocess.run(["true"], env=dict(os.environ, LD_PRELOAD=str(path)), capture_output=True)
    return path if tried.returncode == 0 else None


def bench(name, args):
    module, inputs = MODELS[name]
    folder = models.make(name, module, inputs, onnx=name in models.MODELS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_int8(folder)
    paths = {p: make_pte(folder, p) for p in ("8a8w", "16a8w")}
    variants = {"8a8w": ("8a8w", None), "8a8w avx2": ("8a8w", "avx2"), "16a8w": ("16a8w", None)}
    avx2 = hidden()
    first = run_onnxruntime(folder, args, 1)
    iterations = max(3, min(100, int(500 / max(first, 0.1))))
    times = {"onnxruntime": [], "onnxruntime avx2": [], **{v: [] for v in variants}}
    for _ in range(args.rounds):
        times["onnxruntime"].append(run_onnxruntime(folder, args, iterations))
        if avx2:
            times["onnxruntime avx2"].append(run_onnxruntime(folder, args, max(3, iterations // 3), avx2))
        for v, (precision, kernels) in variants.items():
            times[v].append(run_sixfold(paths[precision], folder, args, iterations, kernels))
    times = {k: t for k, t in times.items() if t}
    if args.cpu:
        return {k: {"ms": min(t), "spread_ms": max(t) - min(t)} for k, t in times.items()}
    return {k: models.summary(t) for k, t in times.items()}


def main():
    if sys.argv[1:2] == ["--peer"]:
        return peer(sys.argv[2], *map(int, sys.argv[3:]))
    args = models.arguments(__doc__, cpu=True)
    if args.cpu:
        args.threads = 1
    print(f"{models.cpu_name()}, {args.threads} threads, ms; onnxruntime {onnxruntime.__version__}\n")
    print("| model | onnxruntime int8 | 8a8w | ratio | onnxruntime avx2 | 8a8w avx2 | ratio | 16a8w | to 8a8w |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    results = {}
    for name in MODELS:
        if not re.search(args.only, name):
            continue
        row = results[name] = bench(name, args)
        cell = {k: f"{v['ms']:.1f} ± {v['spread_ms'] / 2:.1f}" for k, v in row.items()}
        ratio = lambda a, b: f"{row[a]['ms'] / row[b]['ms']:.2f}" if b in row else "–"
        print(f"| {name} | {cell['onnxruntime']} | {cell['8a8w']} | {ratio('8a8w', 'onnxruntime')} | {cell.get('onnxruntime avx2', '–')} | "
              f"{cell['8a8w avx2']} | {ratio('8a8w avx2', 'onnxruntime avx2')} | {cell['16a8w']} | {ratio('16a8w', '8a8w')} |",
              flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
