#!/usr/bin/env python3
"""Latency of whole models on the CPU engine beside ONNX Runtime, in one run on one machine.

    bench/models.py [--sixfold build/release/sixfold] [--zoo .work/zoo] [--threads 2] [--rounds 5] [--only REGEX] [--json OUT]

Each model of the zoo folder (test/zoo/make_zoo.py) is exported to ONNX from the same .pt2, both outputs are compared with the
zoo's reference first (a wrong output is an error, not a time), then the two take turns: a round times each for about a second. A row
is the median of the rounds' medians; the ratio is ours over theirs, so below 1 is faster.
"""
import argparse, json, pathlib, re, statistics, subprocess, sys, tempfile, time, warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnxruntime
import torch

MODELS = ("rand_mobilenet_v2", "rand_resnet50", "rand_vit_tiny", "minilm_l6_v2")


def to_onnx(folder, out):
    if not out.exists():
        program = torch.export.load(folder / "model.pt2")
        torch.onnx.export(program, dynamo=True, external_data=False, optimize=True, verbose=False).save(str(out))
    return out


def session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def peer_round(peer, feed, seconds):
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        peer.run(None, feed)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def our_round(sixfold, folder, threads, iterations, tmp):
    done = subprocess.run([sixfold, "run", folder / "model.pt2", "--engine", "cpu", "--npz", folder / "eval.npz", "--rows", "1", "--threads", str(threads),
                           "--warmup", "3", "--iterations", str(iterations), "--npz-out", tmp / "out.npz", "--json"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["p50_ms"]


def worst(got, want):
    return float(np.abs(got - want).max() / max(1e-6, np.abs(want).max()))


def compare(a, folder, tmp):
    rows, ref = np.load(folder / "eval.npz"), np.load(folder / "ref.npz")
    peer = session(to_onnx(folder, tmp / f"{folder.name}.onnx"), a.threads)
    feed = {x.name: rows[f"in{i}"][0] for i, x in enumerate(peer.get_inputs())}
    theirs = worst(peer.run(None, feed)[0], ref["out0"][0])
    first = our_round(a.sixfold, folder, a.threads, 3, tmp)
    ours = worst(np.load(tmp / "out.npz")["out0"][0], ref["out0"][0])
    if max(ours, theirs) > 1e-3:
        raise RuntimeError(f"outputs differ from the reference: ours {ours:.2g}, ONNX Runtime {theirs:.2g}")
    iterations, pairs = max(3, int(1000 / first)), []
    for _ in range(a.rounds):
        pairs.append((our_round(a.sixfold, folder, a.threads, iterations, tmp), peer_round(peer, feed, 1.0)))
    mine, other = (statistics.median(x) for x in zip(*pairs))
    ratios = [x / y for x, y in pairs]
    return {"sixfold_ms": mine, "onnxruntime_ms": other, "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sixfold", type=pathlib.Path, default="build/release/sixfold")
    p.add_argument("--zoo", type=pathlib.Path, default=".work/zoo")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="|".join(f"^{m}$" for m in MODELS))
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    a.sixfold = a.sixfold.resolve()
    folders = sorted(f.parent for f in a.zoo.glob("*/meta.json") if re.search(a.only, f.parent.name))
    if not folders:
        sys.exit(f"{a.zoo} has none of the models: make them with test/zoo/make_zoo.py")
    results = {}
    print(f"ONNX Runtime {onnxruntime.__version__}, {a.threads} threads, median of {a.rounds} rounds")
    print(f"{'model':28} {'sixfold ms':>11} {'ORT ms':>9} {'ratio':>7} {'min to max':>14}")
    with tempfile.TemporaryDirectory() as tmp:
        for folder in folders:
            r = results[folder.name] = compare(a, folder, pathlib.Path(tmp))
            print(f"{folder.name:28} {r['sixfold_ms']:11.2f} {r['onnxruntime_ms']:9.2f} {r['ratio']:7.2f} {r['ratio_min']:6.2f} to {r['ratio_max']:.2f}", flush=True)
    if a.json:
        a.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
