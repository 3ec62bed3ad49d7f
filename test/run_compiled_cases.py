#!/usr/bin/env python3
"""Compile case folders with `sixfold compile --backend cpu`, run the .pte twice, and score it.

    run_compiled_cases.py SIXFOLD CASES [--only REGEX] [--sample N] [--keep DIR] [--json OUT] [-j N]

A program runs by ExecuTorch's own Python runtime and by `sixfold run`, and both must equal eager torch within the tolerance
of the float mode of test/conformance/run_cases.py, which describes the folders. Programs run many to a process of ExecuTorch;
one that ends the process fails alone, and the others go on. What the compiler refuses with a reason is counted apart.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "conformance"))
from run_cases import RANDOM, agree, call  # noqa: E402

REFUSED = re.compile("cannot be said with ExecuTorch's kernels|is not supported|depends on data")


def worker():
    """Reads lines of JSON: {"pte", "inputs", "kinds", "out"}; answers each with a line: {"why"}."""
    import torch
    from executorch.runtime import Runtime, Verification

    runtime = Runtime.get()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # kernels print

    def run(task):
        program = runtime.load_program(task["pte"], verification=Verification.InternalConsistency)
        method = program.load_method("forward")
        if method is None:
            return "method forward does not load"
        arrays = [np.load(p) for p in task["inputs"]]
        if len(arrays) != sum(kind not in ("none", "text") for kind in task["kinds"]):
            return f"{len(arrays)} inputs for a program of {task['kinds']}"
        feed, inputs = iter(arrays), []
        for kind in task["kinds"]:
            x = None if kind in ("none", "text") else next(feed)
            if kind == "tensor":  # the runtime ends the process for numpy's strides of an empty array
                x = torch.from_numpy(x) if x.size else torch.empty(x.shape, dtype=torch.from_numpy(x).dtype)
            inputs.append(x.item() if kind in ("int", "bool", "real") else x)
        for i, y in enumerate(method.execute(inputs)):
            if isinstance(y, torch.Tensor):
                y = (y.float() if y.dtype == torch.bfloat16 else y).numpy()
            np.save(pathlib.Path(task["out"]) / f"output_{i}.npy", np.asarray(y))
        return ""

    for line in sys.stdin:
        try:
            why = run(json.loads(line))
        except Exception as e:  # what the runtime refuses
            why = f"{type(e).__name__}: {str(e).strip().splitlines()[-1][:200]}"
        print(json.dumps({"why": why}), file=answers, flush=True)


class Runner:
    """A worker process, started again whenever a program ends it."""

    def __init__(self):
        self.process = None

    def start(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, __file__, "--worker"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def run(self, task, timeout):
        if self.process is None:
            self.start()
        begin = self.log.tell()
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            self.process.kill()
            self.process.wait()
            self.process = None
            return f"no answer in {timeout} s"
        answer = self.process.stdout.readline()
        if answer:
            why = json.loads(answer)["why"]
        else:
            why = f"the runtime ended with {self.process.wait()}"
            self.process = None
        if why:
            self.log.seek(begin)
            said = [x for x in self.log.read().splitlines() if x.startswith(("[", "E "))]
            why += f" | {said[0][:200]}" if said else ""
        if self.process is not None:
            self.log.seek(0, 2)
        return why

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sixfold", type=pathlib.Path)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=1, help="take every n-th case")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the programs in this folder")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("-j", type=int, default=2, help="compilers at a time")
    args = parser.parse_args()
    folders = sorted(p.parent for p in args.cases.rglob("case.json"))
    folders = [f for f in folders if re.search(args.only, f"{f.parent.name}/{f.name}")][:: args.sample]
    results, tally, runner = {}, collections.Counter(), Runner()
    with tempfile.TemporaryDirectory() as tmp, concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        keep = args.keep or pathlib.Path(tmp)

        def ours(folder, pte):
            inputs = sorted(folder.glob("in_*.npy"), key=lambda p: int(p.stem[3:]))
            feed = [x for p in inputs for x in ("--input", p)]
            with tempfile.TemporaryDirectory(dir=tmp) as out:
                _, why = call([args.sixfold.resolve(), "run", pte, "--engine", "cpu", *feed, "--output-dir", out], args.timeout)
                return why or agree(folder, pathlib.Path(out), 1e-5, 1e-4, scaled=True)[0]

        def compile_one(folder):
            pte = keep / folder.parent.name / f"{folder.name}.pte"
            pte.parent.mkdir(parents=True, exist_ok=True)
            command = [args.sixfold.resolve(), "compile", folder / "model.pt2", "--backend", "cpu", "-o", pte, "--json"]
            said, why = call(command, args.timeout)
            case = json.loads((folder / "case.json").read_text())
            if any(word in op for op in case["ops"] for word in RANDOM):
                return pte, said, why, "random output"
            return pte, said, why, "" if why else ours(folder, pte)

        for folder, (pte, said, why, own) in zip(folders, pool.map(compile_one, folders)):
            state = "refused" if REFUSED.search(why) else "compile"
            if not why:
                out = pathlib.Path(tempfile.mkdtemp(dir=tmp))
                inputs = sorted(folder.glob("in_*.npy"), key=lambda p: int(p.stem[3:]))
                task = {"pte": str(pte), "inputs": [str(p) for p in inputs], "kinds": json.loads(said)["methods"][0]["inputs"], "out": str(out)}
                state, why = "run", runner.run(task, args.timeout)
                if not why and own == "random output":
                    state, why = "skipped", own
                elif not why:
                    state, why = "mismatch", agree(folder, out, 1e-5, 1e-4, scaled=True)[0]
                if not why and own:
                    state, why = "sixfold", own
                elif why and own and own != "random output":
                    why += f"; sixfold run: {own}"
                for p in out.iterdir():
                    p.unlink()
                if not args.keep:
                    pte.unlink()
            results[f"{folder.parent.name}/{folder.name}"] = {"state": state if why else "passed", "why": why}
            tally[state if why else "passed"] += 1
            print(f"\r{sum(tally.values())}/{len(folders)}", end="", file=sys.stderr, flush=True)
    runner.stop()
    print(file=sys.stderr)
    for name, r in results.items():
        if r["state"] not in ("passed", "skipped"):
            print(f"{r['state']:10} {name}: {r['why']}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    scored = len(folders) - tally["skipped"]
    print(f"{tally['passed']} of {scored} passed, {tally['refused']} refused by name, {tally['skipped']} skipped")
    sys.exit(scored == 0 or tally["passed"] < scored)


if __name__ == "__main__":
    worker() if "--worker" in sys.argv else main()
