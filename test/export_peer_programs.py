#!/usr/bin/env python3
"""Make ExecuTorch's own program of each case folder: to_edge().to_executorch() of its model.pt2.

    export_peer_programs.py CASES OUT [--only REGEX] [--sample N]

writes OUT/<suite>/<case>.pte, and OUT/refused.json: what ExecuTorch itself does not export, with its reason. Programs that are
there already stay. Each case runs in a process of its own, so that a crash or a hang of one is a row of that list.
"""
import argparse, json, logging, os, pathlib, re, signal, sys, warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

torch.set_num_threads(1)


def export(model, path):
    program = torch.export.load(model)
    try:
        edge = to_edge(program)
    except Exception:  # ops outside the core set are still programs that its runtime may have kernels for
        edge = to_edge(torch.export.load(model), compile_config=EdgeCompileConfig(_check_ir_validity=False))
    # Without the pass a buffer that the model mutates would start with whatever the memory holds.
    made = edge.to_executorch(ExecutorchBackendConfig(passes=[InitializedMutableBufferPass([""])]))
    part = path.with_suffix(".part")
    with open(part, "wb") as f:
        made.write_to_file(f)
    part.rename(path)


def in_child(work, seconds):
    """work() in a fork; the reason when it failed"""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        signal.alarm(seconds)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1), os.dup2(null, 2)
        why = ""
        try:
            work()
        except BaseException as e:
            lines = [x.strip() for x in str(e).splitlines() if x.strip()]
            why = f"{type(e).__name__}: {' '.join(lines)[:300]}"
        os.write(write, why.encode()[:4000])
        os._exit(0 if not why else 1)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        why = f.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"no answer in {seconds} s" if os.WTERMSIG(status) == signal.SIGALRM else f"signal {os.WTERMSIG(status)}"
    return why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, default=1, help="take every n-th case")
    parser.add_argument("--timeout", type=int, default=600)
    args = parser.parse_args()
    refused_path = args.out / "refused.json"
    refused = json.loads(refused_path.read_text()) if refused_path.exists() else {}
    folders = sorted(p.parent for p in args.cases.rglob("model.pt2"))
    folders = [f for f in folders if re.search(args.only, f"{f.parent.name}/{f.name}")][:: args.sample]
    for i, folder in enumerate(folders):
        name = f"{folder.parent.name}/{folder.name}"
        path = args.out / f"{name}.pte"
        if path.exists() or name in refused:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        why = in_child(lambda: export(folder / "model.pt2", path), args.timeout)
        if why:
            refused[name] = why
            refused_path.write_text(json.dumps(refused, indent=1))
        print(f"{i + 1}/{len(folders)} {name} {why}", flush=True)
    print(f"{len(folders) - sum(1 for f in folders if f'{f.parent.name}/{f.name}' in refused)} programs, {len(refused)} refused")


if __name__ == "__main__":
    main()
