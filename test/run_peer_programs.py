#!/usr/bin/env python3
"""Run the programs that export_peer_programs.py made by `sixfold run`, and compare with eager torch.

    run_peer_programs.py SIXFOLD CASES PROGRAMS [--only REGEX] [--sample N] [--json OUT] [-j N]

A program passes when all outputs are within the float tolerance of the case runner. One that is refused with the name of a
kernel that we do not have is counted apart. Cases that ask for random numbers are skipped.
"""
import argparse, collections, concurrent.futures, json, pathlib, re, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "conformance"))
from run_cases import RANDOM, agree, call


def run_program(sixfold, folder, program, timeout=120):
    case = json.loads((folder / "case.json").read_text())
    if any(word in op for op in case["ops"] for word in RANDOM):
        return "skipped", "random output"
    inputs = sorted(folder.glob("in_*.npy"), key=lambda p: int(p.stem[3:]))
    feed = [x for p in inputs for x in ("--input", p)]
    with tempfile.TemporaryDirectory() as tmp:
        _, why = call([sixfold, "run", program, "--engine", "cpu", *feed, "--output-dir", tmp], timeout)
        if why:
            return ("refused" if "this build has no kernel" in why else "run"), why
        why, _ = agree(folder, pathlib.Path(tmp), 1e-5, 1e-4, scaled=True)
        return ("mismatch", why) if why else ("passed", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sixfold", type=pathlib.Path)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=1, help="take every n-th program")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    programs = sorted(args.programs.rglob("*.pte"))
    names = [str(p.relative_to(args.programs).with_suffix("")) for p in programs]
    work = [(n, p) for n, p in zip(names, programs) if re.search(args.only, n)][:: args.sample]
    sixfold = args.sixfold.resolve()
    results, tally = {}, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for (name, _), (state, why) in zip(work, pool.map(lambda w: run_program(sixfold, args.cases / w[0], w[1]), work)):
            results[name] = {"state": state, "why": why}
            tally[state] += 1
    for name, r in results.items():
        if r["state"] not in ("passed", "skipped"):
            print(f"{r['state']:9} {name}: {r['why']}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    scored = len(work) - tally["skipped"]
    print(f"{tally['passed']} of {scored} passed, {tally['refused']} refused by the name of a kernel, {tally['skipped']} skipped")
    sys.exit(scored == 0 or tally["passed"] + tally["refused"] < scored or tally["passed"] < 0.99 * scored)


if __name__ == "__main__":
    main()
