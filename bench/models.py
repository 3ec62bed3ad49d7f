#!/usr/bin/env python3
"""Time whole models in fp32 side by side: sixfold's CPU engine and ONNX Runtime, same threads, same run.

    python bench/models.py [--threads 2] [--rounds 5] [--only REGEX] [--json OUT]

The models have well-known shapes and seeded weights and are made once, into .work/bench. Both programs must give eager
torch's numbers (1e-4 of the largest) before either is timed. Rounds alternate between the two; a cell is the median over
rounds of each round's mean, with the spread (largest minus smallest) behind it.
The last row is what `sixfold show` takes on a file of about 240 MB: seconds, and the most memory it held.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import onnxruntime
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()
MADE = ROOT / ".work/bench"
sys.path.insert(0, str(ROOT / "test/zoo"))
import archs


def image():
    return (torch.randn(1, 3, 224, 224),)


def tokens():
    return torch.randint(0, 30522, (1, 64)), torch.ones(1, 64)


MODELS = {  # name: module, inputs
    "mobilenet_v2": (archs.MobileNetV2, image),
    "resnet50": (archs.resnet50, image),
    "vit_tiny": (lambda: archs.ViT(d=192, heads=3, mlp=768), image),
    "minilm_l6": (lambda: archs.Bert(seq=64), tokens),
}
SHOWN = (archs.DeepLabV3, image)  # 237 MB


def write_onnx(model, example, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, example, folder / "model.onnx", dynamo=False)


def export_onnx(name, module, inputs, folder):
    """model.onnx of a folder that was made without one."""
    torch.manual_seed(0)
    model = module().eval()
    write_onnx(model, inputs(), folder)


def make(name, module, inputs, onnx=True):
    """The model's folder: model.pt2, model.onnx, in.npz and out.npz (eager torch's outputs)."""
    folder = MADE / name
    if (folder / "out.npz").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, example = module().eval(), inputs()
    torch.export.save(torch.export.export(model, example), folder / "model.pt2")
    if onnx:
        write_onnx(model, example, folder)
    np.savez(folder / "in.npz", **{f"in{i}": x.numpy()[None] for i, x in enumerate(example)})
    with torch.no_grad():
        out = model(*example)
    np.savez(folder / "out.npz", out0=(out[0] if isinstance(out, (tuple, list)) else out).numpy()[None])
    return folder


def check(program, name, got, want):
    worst = np.abs(got - want).max() / np.abs(want).max()
    if not worst <= 1e-4:
        raise SystemExit(f"{program} on {name}: outputs are {worst:.2g} of the largest away from torch's; not timed")


def run_sixfold(folder, threads, iterations):
    """Mean milliseconds of an inference, and its output."""
    with tempfile.TemporaryDirectory() as out:
        command = [SIXFOLD, "run", folder / "model.pt2", "--engine", "cpu", "--npz", folder / "in.npz", "--npz-out",
                   f"{out}/out.npz", "--threads", threads, "--warmup", 3, "--iterations", iterations, "--json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"sixfold on {folder.name}: {done.stderr.strip()}")
        return json.loads(done.stdout)["mean_ms"], np.load(f"{out}/out.npz")["out0"][0]


def open_onnxruntime(folder, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    return onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def run_onnxruntime(session, folder, iterations):
    rows = np.load(folder / "in.npz")
    feed = {x.name: rows[f"in{i}"][0] for i, x in enumerate(session.get_inputs())}
    for _ in range(3):
        out = session.run(None, feed)[0]
    start = time.perf_counter()
    for _ in range(iterations):
        session.run(None, feed)
    return (time.perf_counter() - start) / iterations * 1e3, out


def summary(samples):
    return {"ms": statistics.median(samples), "spread_ms": max(samples) - min(samples)}


def bench(name, args):
    folder = make(name, *MODELS[name])
    want = np.load(folder / "out.npz")["out0"][0]
    session = open_onnxruntime(folder, args.threads)
    first, out = run_sixfold(folder, args.threads, 1)
    check("sixfold", name, out, want)
    check("onnxruntime", name, run_onnxruntime(session, folder, 1)[1], want)
    iterations = max(5, min(200, int(1000 / max(first, 0.1))))  # about a second a round
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(run_sixfold(folder, args.threads, iterations)[0])
        theirs.append(run_onnxruntime(session, folder, iterations)[0])
    row = {"sixfold": summary(ours), "onnxruntime": summary(theirs)}
    row["ratio"] = row["sixfold"]["ms"] / row["onnxruntime"]["ms"]
    return row


def bench_show():
    path = make("deeplabv3_resnet101", *SHOWN, onnx=False) / "model.pt2"
    seconds, peaks = [], []
    for _ in range(5):
        # A process of its own: what this one holds would count as the child's peak until it starts the program.
        done = subprocess.run([sys.executable, "-c", PEAK, SIXFOLD, "show", path], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"sixfold show {path.name} failed")
        took, peak = json.loads(done.stdout)
        seconds.append(took)
        peaks.append(peak / 1024)
    return {"file_mb": path.stat().st_size / 1e6, "seconds": statistics.median(seconds), "peak_mb": max(peaks)}


PEAK = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def cpu_name():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def arguments(description, cpu=False):
    """Those of every table of models beside a peer."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    if cpu:
        parser.add_argument("--cpu", action="store_true")
    return parser.parse_args()


def main():
    args = arguments(__doc__)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    print(f"{cpu_name()}, {args.threads} threads, fp32; sixfold {commit}, onnxruntime {onnxruntime.__version__}\n")
    print("| model | sixfold ms | onnxruntime ms | ratio |\n| --- | ---: | ---: | ---: |", flush=True)
    results = {}
    for name in MODELS:
        if re.search(args.only, name):
            row = results[name] = bench(name, args)
            cells = [f"{row[k]['ms']:.2f} ± {row[k]['spread_ms'] / 2:.2f}" for k in ("sixfold", "onnxruntime")]
            print(f"| {name} | {cells[0]} | {cells[1]} | {row['ratio']:.2f} |", flush=True)
    if re.search(args.only, "show"):
        shown = results["show"] = bench_show()
        print(f"\nsixfold show, {shown['file_mb']:.0f} MB: {shown['seconds']:.3f} s, {shown['peak_mb']:.0f} MB of memory at most")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
