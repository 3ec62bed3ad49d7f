#!/usr/bin/env python3
"""Models quantized by sixfold and by ExecuTorch's quantizer for Qualcomm NPUs, both run on the same engine.

    python bench/quantizer.py MODEL_FOLDER ... [--precision 8a8w 16a8w] [--engine emulator|qnn] [--rows 16] [--keep DIR]
    python bench/quantizer.py MODEL_FOLDER ... --calibration ONNX_FOLDER

A folder has model.pt2, calib.npz (in0, in1, ... stacked over samples), eval.npz and ref.npz (out0, ... in float), as those of
test/zoo. Both get the same file, samples, precision and chip, and the default options of each; ExecuTorch lowers with the
engine's libraries, in a process of its own (for the emulator: `ninja qnn_libraries` first). The seconds are those of the clock and
of CPU of the whole process less importing Python modules: loading, calibration, rounding, compiling, writing. DIR keeps what ExecuTorch
wrote. Decibels are those of output 0 over the first rows against float. Of programs for the emulator, the ops that change a
grid or the order of axes are counted (Convert, Quantize, Dequantize; Transpose).

--calibration: CPU seconds of a sample instead: what calibrating on it takes (making the model included), and what
ONNX Runtime takes to run it in float on one thread, from ONNX_FOLDER/MODEL.onnx.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIXFOLD = pathlib.Path(os.environ.get("SIXFOLD", ROOT / "build/release/sixfold")).resolve()


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def lower_with_executorch(folder, out, precision, soc):
    """Runs alone in a process: its QNN libraries are those of QNN_SDK_ROOT."""
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import torch
    from executorch.backends.qualcomm.export_utils import make_quantizer
    from executorch.backends.qualcomm.quantizer.quantizer import QuantDtype
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (generate_htp_compiler_spec, generate_qnn_executorch_compiler_spec,
                                                          to_edge_transform_and_lower_to_qnn)
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    start, clock = cpu_seconds(), time.monotonic()
    calib = np.load(folder / "calib.npz")
    stacks = [torch.from_numpy(calib[f"in{i}"]) for i in range(len(calib.files))]
    rows = [tuple(s[r].contiguous() for s in stacks) for r in range(len(stacks[0]))]
    module = torch.export.load(folder / "model.pt2").module()
    prepared = prepare_pt2e(module, make_quantizer(quant_dtype=getattr(QuantDtype, f"use_{precision}"), soc_model=soc))
    with torch.no_grad():
        for row in rows:
            prepared(*row)
    quantized = convert_pt2e(prepared)
    spec = generate_qnn_executorch_compiler_spec(soc_model=getattr(QcomChipset, soc),
                                                 backend_options=generate_htp_compiler_spec(use_fp16=False))
    program = to_edge_transform_and_lower_to_qnn(quantized, rows[0], spec).to_executorch()
    out.write_bytes(program.buffer)
    return {"s": time.monotonic() - clock, "cpu_s": cpu_seconds() - start}


def op_counts(file):
    """Ops of a program for the emulator, whose contexts have each op's type behind its length."""
    payload = file.read_bytes()
    return {kind: payload.count(len(kind).to_bytes(4, "little") + kind.encode())
            for kind in ("Convert", "Quantize", "Dequantize", "Transpose")}


def told_counts(figures):
    ops = figures.get("ops")
    return f"{sum(ops.values()) - ops['Transpose']}, {ops['Transpose']}" if ops else "-"


def peer_environment(engine):
    env = {k: v for k, v in os.environ.items() if k not in ("QNN_SDK_ROOT", "LD_LIBRARY_PATH")}
    if engine == "emulator":
        sdk = SIXFOLD.parent / "qnn"
        return {**env, "QNN_SDK_ROOT": str(sdk), "LD_LIBRARY_PATH": str(sdk / "lib/x86_64-linux-clang")}
    sdk = os.environ.get("QNN_SDK_ROOT")
    if not sdk:
        raise SystemExit("--engine qnn: QNN_SDK_ROOT must name a folder with lib/x86_64-linux-clang/libQnnHtp.so")
    rest = os.environ.get("LD_LIBRARY_PATH", "")
    return {**env, "QNN_SDK_ROOT": sdk, "LD_LIBRARY_PATH": f"{sdk}/lib/x86_64-linux-clang:{rest}"}


def peer(folder, precision, args, keep):
    """ExecuTorch's file, made unless it is there, and its figures; or why it made none."""
    name = f"{folder.name}.{precision}.{args.engine}"
    file, told = keep / f"{name}.pte", keep / f"{name}.json"
    if not told.exists():
        command = [sys.executable, __file__, "--peer", folder, file, precision, args.soc, told]
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=peer_environment(args.engine),
                                  timeout=args.limit)
            error = done.returncode and (done.stderr.strip().splitlines() or [f"died with {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            error = f"not done after {args.limit} s"
        if error:
            told.write_text(json.dumps({"error": error[:200]}))
    return file, json.loads(told.read_text())


def sixfold(*words):
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([str(w) for w in (SIXFOLD, *words)], capture_output=True, text=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - clock
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["nothing on stderr"])[-1][:200])
    return json.loads(done.stdout), {"s": seconds, "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def decibels(folder, file, args, scratch):
    out = scratch / "out.npz"
    sixfold("run", file, "--engine", args.engine, "--npz", folder / "eval.npz", "--npz-out", out, "--rows", args.rows, "--json")
    got = np.load(out)["out0"].astype(np.float64)
    want = np.load(folder / "ref.npz")["out0"][: len(got)].astype(np.float64)
    noise = ((got.reshape(want.shape) - want) ** 2).sum()
    return 10 * math.log10((want**2).sum() / max(noise, 1e-30))


def compare(folder, precision, args, keep):
    row = {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        _, seconds = sixfold("compile", folder / "model.pt2", "-o", scratch / "m.pte", "--backend", "htp", "--soc", args.soc,
                                "--engine", args.engine, "--precision", precision, "--calib", folder / "calib.npz", "--json")
        row["sixfold"] = {"db": decibels(folder, scratch / "m.pte", args, scratch), **seconds}
        if args.engine == "emulator":
            row["sixfold"]["ops"] = op_counts(scratch / "m.pte")
        file, told = peer(folder, precision, args, keep)
        row["executorch"] = told
        if "error" not in told:
            try:
                told["db"] = decibels(folder, file, args, scratch)
                if args.engine == "emulator":
                    told["ops"] = op_counts(file)
            except RuntimeError as error:
                told["error"] = f"its file does not run: {error}"
    return row


def calibration(folder, args):
    """Seconds of a sample on all cores: sixfold's calibration (weights to the nearest, so that nothing is kept for rounding them),
    ONNX Runtime's float run; in turn, the least of three."""
    import onnxruntime

    session = onnxruntime.InferenceSession(args.calibration / f"{folder.name}.onnx", providers=["CPUExecutionProvider"])
    calib = np.load(folder / "calib.npz")
    stacks = [calib[f"in{i}"] for i in range(len(calib.files))]
    rows = [{x.name: s[r] for x, s in zip(session.get_inputs(), stacks)} for r in range(len(stacks[0]))]
    session.run(None, rows[0])
    ours, theirs = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as scratch:
            told, _ = sixfold("compile", folder / "model.pt2", "-o", pathlib.Path(scratch) / "m.pte", "--backend", "htp", "--soc",
                              args.soc, "--precision", "8a8w", "--rounding", "nearest", "--calib", folder / "calib.npz", "--json")
        accuracy = told["methods"][0]["accuracy"]
        ours.append(accuracy["calibrate_s"] / accuracy["calibrated"])
        start = time.monotonic()
        for row in rows:
            session.run(None, row)
        theirs.append((time.monotonic() - start) / len(rows))
    return min(ours), min(theirs)


def main():
    if sys.argv[1:2] == ["--peer"]:
        folder, out, precision, soc, told = sys.argv[2:]
        told_now = lower_with_executorch(pathlib.Path(folder), pathlib.Path(out), precision, soc)
        pathlib.Path(told).write_text(json.dumps(told_now))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--precision", nargs="+", default=["8a8w", "16a8w"])
    parser.add_argument("--engine", choices=("emulator", "qnn"), default="emulator")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / ".work/quantizer")
    parser.add_argument("--limit", type=float, default=600, help="seconds that ExecuTorch may take for a file")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--calibration", type=pathlib.Path, metavar="ONNX_FOLDER")
    args = parser.parse_args()
    if args.calibration:
        print("| model | calibration, ms of a sample | ONNX Runtime fp32 | ratio |\n| --- | ---: | ---: | ---: |")
        for folder in args.folders:
            ours, theirs = calibration(folder.resolve(), args)
            print(f"| {folder.name} | {ours * 1e3:.0f} | {theirs * 1e3:.0f} | {ours / theirs:.2f} |", flush=True)
        return
    args.keep.mkdir(parents=True, exist_ok=True)
    print("| model | precision | sixfold dB | ExecuTorch dB | sixfold s (CPU) | ExecuTorch s (CPU) | sixfold grids, axes | ExecuTorch grids, axes |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    results, gains = {}, []
    for folder in args.folders:
        for precision in args.precision:
            row = results[f"{folder.name} {precision}"] = compare(folder.resolve(), precision, args, args.keep.resolve())
            ours, theirs = row["sixfold"], row["executorch"]
            cells = ["-", "-"] if "error" in theirs else [f"{theirs['db']:.1f}", f"{theirs['s']:.0f} ({theirs['cpu_s']:.0f})"]
            print(f"| {folder.name} | {precision} | {ours['db']:.1f} | {cells[0]} | {ours['s']:.1f} ({ours['cpu_s']:.1f}) | {cells[1]} "
                  f"| {told_counts(ours)} | {told_counts(theirs)} |", flush=True)
            if "error" in theirs:
                print(f"  ExecuTorch on {folder.name}, {precision}: {theirs['error']}", file=sys.stderr, flush=True)
            else:
                gains.append(ours["db"] - theirs["db"])
    if gains:
        print(f"\nGain: {statistics.median(gains):.1f} dB in the median, {min(gains):.1f} at least, {len(gains)} files.")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
