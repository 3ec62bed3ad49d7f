"""Files for the NPU between ExecuTorch and us, both ways and to the bit; what each refuses, and what damage does.

A few of ExecuTorch's own files are made here; SIXFOLD_NPU_PEERS=all makes all of make_npu_peer_programs.py (minutes).
SIXFOLD_NPU_DAMAGE=n tries n damaged files on Qualcomm's library instead of a dozen.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys

import make_npu_peer_programs as peers
import numpy as np
import pytest
import torch
from conftest import MODEL, ROOT, SIXFOLD, TEST_SET, WORK, call, fails
from test_htp import environment
from test_qnn import VERSIONS, WHEEL, needs_libraries

pytestmark = needs_libraries
RUNNER = SIXFOLD.parent / "qnn_executor_runner"
MAGIC = struct.pack("<I", 0x5678ABCD)
# Qualcomm's host library does not run these, in ExecuTorch either: weights that graphs share, other sizes than the largest.
DEVICE_ONLY = {"shared_weights": "Shared weights buffer", "dynamic": "dim 3 mismatch"}
# ExecuTorch's runtime crashes on DLCs (its call has another layout than the library's), leaves mutable buffers inside a delegate as
# memory was, and does not load what its mha2sha pass wrote for a constant output.
NO_REFERENCE = {"online": "fp16_one", "online_q8_cut": "q8_cut", "state_inside": None, "heads": None}


def sdk():
    root = WORK / "qnn_sdk"
    folder = root / "lib/x86_64-linux-clang"
    folder.mkdir(parents=True, exist_ok=True)
    for library in WHEEL.glob("libQnn*.so"):
        if not (folder / library.name).is_symlink():
            (folder / library.name).symlink_to(library)
    return dict(environment(), QNN_SDK_ROOT=str(root), LD_LIBRARY_PATH=f"{folder}:{WHEEL.parent / 'onnxruntime_qnn.libs'}")


def run(folder, method, count, out, *flags):
    """All calls of a method, one after the other; outputs by call, or what it said when it failed."""
    lines = [" ".join(str(p) for p in sorted(folder.glob(f"{method}.{n}.in_*.npy"), key=lambda p: int(p.stem.split("_")[-1])))
             for n in range(count)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "list").write_text("\n".join(lines) + "\n")
    done = call("run", folder / "model.pte", "--engine", "qnn", "--method", method, "--input-list", out / "list", "--output-dir", out,
                *flags, env=environment())
    if done.returncode != 0:
        return done.stderr
    return [[np.load(out / f"output_{n}_{i}.npy") for i in range(len(list(out.glob(f"output_{n}_*.npy"))))] for n in range(count)]


def theirs(folder, method, n):
    return [np.load(p) for p in sorted(folder.glob(f"{method}.{n}.out_*.npy"), key=lambda p: int(p.stem.split("_")[-1]))]


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture(scope="module")
def peer_programs():
    out = WORK / "npu_peers"
    whole = os.environ.get("SIXFOLD_NPU_PEERS") == "all"
    only = "" if whole else "^(integers|q8_cut|intermediates|profiled)$"
    wanted = [n for n in peers.CASES if re.search(only, n)]
    if not all((out / n / "calls.json").exists() for n in wanted):
        done = subprocess.run([sys.executable, ROOT / "test/make_npu_peer_programs.py", out, "--only", only], capture_output=True,
                              text=True, env=sdk())
        assert whole or done.returncode == 0, done.stdout[-3000:]
    return out, [n for n in wanted if (out / n / "calls.json").exists()]


def test_files_of_executorch_run_to_the_same_bits(peer_programs, tmp_path):
    out, names = peer_programs
    for name in names:
        for method, count in json.loads((out / name / "calls.json").read_text()).items():
            got = run(out / name, method, count, tmp_path / name / method)
            if name in DEVICE_ONLY:
                assert DEVICE_ONLY[name] in got
                continue
            if name == "heads":
                assert "called with 3 arguments, its graph forward has 1 inputs and 1 outputs" in got
                continue
            assert not isinstance(got, str), (name, got)
            reference = out / (NO_REFERENCE.get(name, name) or name)
            if name == "state_inside":  # buffers start as zeros: 0 + x, then sums
                np.testing.assert_allclose([c[0][0] for c in got], [[0, 2, 4, 6], [2, 6, 10, 14], [6, 12, 18, 24]], rtol=1e-3)
                continue
            for n in range(count):
                want = theirs(reference, method, n)
                assert len(want) == len(got[n]) > 0
                assert all(same(a, b) for a, b in zip(got[n], want)), (name, method, n)


def inspect(path, values=None):
    devtools = pytest.importorskip("executorch.devtools")
    return {b.name: b for b in devtools.Inspector(etdump_path=str(path), debug_buffer_path=values and str(values)).event_blocks}


ETDUMP = """
import sys, numpy as np, torch
from executorch.extension.pybindings import portable_lib
m = portable_lib._load_for_executorch(sys.argv[1] + "/model.pte", enable_etdump=True, debug_buffer_size=1 << 20)
m.forward([torch.from_numpy(np.load(sys.argv[1] + "/forward.0.in_0.npy"))])
m.write_etdump_result_to_file(sys.argv[2] + ".etdp", sys.argv[2] + ".bin")
"""


@pytest.mark.parametrize("name", ["profiled", "intermediates"])
def test_the_inspector_sees_inside_delegates_what_executorch_shows(name, peer_programs, tmp_path):
    """Event for event, op for op: cycles of the first, values of the second."""
    folder = peer_programs[0] / name
    done = subprocess.run([sys.executable, "-c", ETDUMP, folder, tmp_path / "theirs"], capture_output=True, text=True, env=sdk())
    assert done.returncode == 0, done.stderr[-2000:]
    np.fromfile(folder / "forward.0.in_0.npy")
    np.load(folder / "forward.0.in_0.npy").tofile(tmp_path / "x.raw")
    (tmp_path / "input_list.txt").write_text("x.raw\n")
    done = subprocess.run([RUNNER, f"--model_path={folder / 'model.pte'}", "--dump_intermediate_outputs", "--debug_buffer_size=65536"],
                          cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    ours = inspect(tmp_path / "etdump.etdp", tmp_path / "debug_output.bin")["Execute"].events
    want = inspect(tmp_path / "theirs.etdp", tmp_path / "theirs.bin")["Execute"].events
    assert [(e.name, e._instruction_id, e.is_delegated_op) for e in ours] == [(e.name, e._instruction_id, e.is_delegated_op) for e in want]
    assert sum(e.is_delegated_op for e in ours) >= 8
    for a, b in zip(ours, want, strict=True):
        assert len(a.debug_data) == len(b.debug_data)
        assert all(torch.equal(p, q) for p, q in zip(a.debug_data, b.debug_data)), a.name


def test_levels_of_profiling(tmp_path, image):
    made = call("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", "--skip-op", "relu", env=environment())
    assert made.returncode == 0, made.stderr
    counts = {}
    for level in ("off", "basic", "detailed"):
        done = call("run", tmp_path / "m.pte", "--engine", "qnn", "--input", image, "--profile", "--profile-level", level, "--json",
                    "--etdump", tmp_path / f"{level}.etdp", env=environment())
        assert done.returncode == 0, done.stderr
        steps = json.loads(done.stdout)["steps"]
        counts[level] = sum(len(s.get("events", [])) for s in steps)
        delegated = [e for e in inspect(tmp_path / f"{level}.etdp")["Execute"].events if e.is_delegated_op]
        assert len(delegated) == counts[level]
    assert counts["off"] == 0 < counts["basic"] < counts["detailed"]
    assert "expected off, basic or detailed" in fails("run", tmp_path / "m.pte", "--engine", "qnn", "--profile-level", "much")


class Mixed(torch.nn.Module):
    """64-bit and 32-bit integers, truth values, a number and None among inputs and outputs."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 6)

    def forward(self, ids, small, scale: float, nothing=None):
        rows = self.table(ids) * scale
        return torch.argmax(rows, -1), rows > 0, small + 1, rows.sum(), nothing


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 8, 4))
        self.register_buffer("count", torch.ones(1, dtype=torch.int64))

    def forward(self, x, at):
        self.keys.index_copy_(1, at, x)
        self.count.add_(1)
        return torch.relu(self.keys).sum(1), self.count.clone()


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.b(torch.sigmoid(torch.relu(self.a(x)).flatten(2)))


def export(module, inputs, path, **kwargs):
    torch.export.save(torch.export.export(module.eval(), inputs, **kwargs), path)


def test_our_files_run_on_executorch_to_the_same_bits(tmp_path):
    """Several delegates and methods, states, integers, truth values: all in one process of ExecuTorch's."""
    torch.manual_seed(3)
    image, ids = torch.randn(1, 3, 8, 8), torch.tensor([[1, 4, 7]])
    mixed = (ids, torch.tensor([[3, 5]], dtype=torch.int32), 0.5, None)
    steps = [(torch.arange(4.0).reshape(1, 1, 4) + i, torch.tensor([i])) for i in range(3)]
    small = Small()
    cases = {"one": ({"forward": (small, [(image,)])}, []),
             "cut": ({"forward": (small, [(image,)])}, ["--skip-op", "relu", "--skip-op", "sigmoid"]),
             "methods": ({"first": (small, [(image,)]), "second": (torch.nn.Sequential(small.a, torch.nn.ReLU()), [(image,)])}, []),
             "mixed": ({"forward": (Mixed(), [mixed])}, []),
             "state": ({"forward": (Counter(), steps)}, [])}
    folders = []
    for name, (methods, flags) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        models = []
        for method, (module, calls) in methods.items():
            export(module, calls[0], folder / f"{method}.pt2")
            models.append(f"{method}={folder / (method + '.pt2')}")
        made = call("compile", *models, "-o", folder / "model.pte", "--backend", "htp", "--engine", "qnn", *flags, "--json", env=environment())
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["delegates"] >= (2 if name in ("cut", "methods") else 1)
        for method, (_, calls) in methods.items():
            for n, inputs in enumerate(calls):
                given = [x for x in inputs if isinstance(x, torch.Tensor)]
                kinds = ["none" if x is None else "tensor" if isinstance(x, torch.Tensor) else x for x in inputs]
                (folder / f"{method}.{n}.kinds.json").write_text(json.dumps(kinds))
                for i, x in enumerate(given):
                    np.save(folder / f"{method}.{n}.in_{i}.npy", x.numpy())
        (folder / "calls.json").write_text(json.dumps({method: len(calls) for method, (_, calls) in methods.items()}))
        folders.append(folder)
    done = subprocess.run([sys.executable, "-c", peers.RUN, *folders], capture_output=True, text=True, env=sdk())
    assert done.returncode == 0, done.stderr[-2000:]
    for folder in folders:
        for method, count in json.loads((folder / "calls.json").read_text()).items():
            got = run(folder, method, count, tmp_path / "out" / folder.name / method)
            assert not isinstance(got, str), (folder.name, got)
            for n in range(count):
                want = theirs(folder, method, n)
                assert len(want) == len(got[n]) and all(same(a, b) for a, b in zip(got[n], want)), (folder.name, method, n)


def test_a_dynamic_batch_is_kept_off_the_npu_or_refused(tmp_path):
    export(Small(), (torch.randn(2, 3, 8, 8),), tmp_path / "m.pt2", dynamic_shapes=({0: torch.export.Dim("n", min=1, max=4)},))
    made = call("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", "--json", env=environment())
    if made.returncode == 0:
        assert json.loads(made.stdout)["delegates"] == 0 and json.loads(made.stdout)["cpu_nodes"]
    else:
        assert len(made.stderr.strip().splitlines()) == 1 and "symbol" in made.stderr or "dynamic" in made.stderr


def test_the_same_model_and_options_give_the_same_bytes(tmp_path):
    """Under another name, later, in another folder."""
    (tmp_path / "sub").mkdir()
    other = tmp_path / "sub/other.pt2"
    other.write_bytes(MODEL.read_bytes())
    flags = ["--backend", "htp", "--engine", "qnn", "--skip-op", "relu"]
    for model, out in ((MODEL, tmp_path / "a.pte"), (other, tmp_path / "sub/b.pte")):
        done = call("compile", model, "-o", out, *flags, env=environment(), cwd=out.parent)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "sub/b.pte").read_bytes()


def test_weights_are_shared_between_methods_when_asked(tmp_path):
    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(512, 512)

        def forward(self, x):
            return torch.relu(self.fc(x))

    wide = Wide()
    for name, rows in (("one", 1), ("four", 4)):
        export(wide, (torch.randn(rows, 512),), tmp_path / f"{name}.pt2")
    sizes = {}
    for flag in ("", "--weight-sharing"):
        done = call("compile", f"one={tmp_path}/one.pt2", f"four={tmp_path}/four.pt2", "-o", tmp_path / "m.pte", "--backend", "htp",
                    "--engine", "qnn", "--json", *([flag] if flag else []), env=environment())
        assert done.returncode == 0, done.stderr
        sizes[flag] = json.loads(done.stdout)["file_bytes"]
    assert sizes["--weight-sharing"] < 0.7 * sizes[""]
    np.save(tmp_path / "x.npy", np.zeros((1, 512), np.float32))
    assert "share weights, which needs a device" in fails("run", tmp_path / "m.pte", "--engine", "qnn", "--method", "one", "--input",
                                                          tmp_path / "x.npy", env=environment())


@pytest.mark.parametrize("flag, value, said", [
    ("--optimization", 4, "--optimization is 4, expected 1 to 3"), ("--hvx-threads", -1, "--hvx-threads is -1, expected 0 to 64"),
    ("--vtcm-mb", 300, "--vtcm-mb is 300, expected 0 to 256"), ("--vtcm-mb", 16, "--vtcm-mb is 16, SM8650 has 8"),
    ("--priority", "urgent", "--priority is urgent, expected low, normal, normal_high or high")])
def test_options_of_graphs_are_checked(flag, value, said, tmp_path):
    assert said in fails("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", flag, value, env=environment())
    assert not (tmp_path / "m.pte").exists()


def test_options_of_graphs_reach_the_file(tmp_path):
    plain = tmp_path / "plain.pte"
    call("compile", MODEL, "-o", plain, "--backend", "htp", "--engine", "qnn", env=environment())
    for flags in (["--optimization", 1], ["--hvx-threads", 2], ["--vtcm-mb", 2], ["--dlbc"]):
        done = call("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", *flags, env=environment())
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "m.pte").read_bytes() != plain.read_bytes(), flags


def test_the_manifest_names_the_chip_and_the_library(tmp_path, image):
    done = call("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", "--soc", "sm8550", env=environment())
    assert done.returncode == 0, done.stderr
    shown = call("show", tmp_path / "m.pte", "--summary").stdout
    assert re.search(r"target +SM8550", shown) and re.search(r"qnn +2\.\d+", shown), shown
    run_it = ("run", tmp_path / "m.pte", "--engine", "qnn", "--input", image)
    assert "the delegate is for SM8550 (43, HTP v73), the device is SM8650 (57, HTP v75)" in fails(*run_it, "--soc", "SM8650", env=environment())
    assert call(*run_it, "--soc", "SM8550", env=environment()).returncode == 0


def damaged(rng, blob):
    """The payload with a few bytes or words of its binary changed, or cut."""
    out, kind = bytearray(blob), rng.randrange(4)
    for _ in range(1 if kind == 0 else rng.randrange(1, 9)):
        at = rng.randrange(256, len(out) - 4)
        if kind < 2:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            out[at:at + 4] = rng.choice([b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", rng.randbytes(4)])
        else:
            out[at:] = rng.randbytes(len(out) - at)
    return bytes(out)


def test_damaged_binaries_are_refused_or_run_but_never_crash_us(peer_programs, tmp_path):
    """Nobody vouches for ExecuTorch's files: Qualcomm's library meets them in a child process first."""
    folder = peer_programs[0] / "q8_cut"
    whole = (folder / "model.pte").read_bytes()
    at = whole.index(MAGIC)
    size = 256 + struct.unpack_from("<Q", whole, at + 12)[0]
    rng = random.Random(7)
    count = int(os.environ.get("SIXFOLD_NPU_DAMAGE", 12))
    states = {}
    for n in range(count):
        path = tmp_path / "m.pte"
        path.write_bytes(whole[:at] + damaged(rng, whole[at:at + size]) + whole[at + size:])
        done = call("run", path, "--engine", "qnn", "--input", folder / "forward.0.in_0.npy", env=environment(), timeout=120)
        state = "ran" if done.returncode == 0 else "crashed" if done.returncode < 0 or done.returncode > 125 else "refused"
        states[state] = states.get(state, 0) + 1
        assert state != "crashed", (n, done.returncode, done.stderr)
        assert state == "ran" or len(done.stderr.strip().splitlines()) == 1, done.stderr
    print(states)


def test_damage_that_headers_tell_of(peer_programs, tmp_path):
    folder = peer_programs[0] / "q8_cut"
    whole = (folder / "model.pte").read_bytes()
    at = whole.index(MAGIC)

    def said(change, *args):
        path = tmp_path / "m.pte"
        path.write_bytes(change(bytearray(whole)))
        return fails("run", path, "--engine", "qnn", "--input", folder / "forward.0.in_0.npy", *args, env=environment())

    def put(offset, text):
        def change(file):
            file[offset:offset + len(text)] = text
            return bytes(file)
        return change

    assert "a QNN payload begins with" in said(put(at, b"\0\0\0\0"))
    assert "says that its context binary has 7 bytes, there are" in said(put(at + 12, struct.pack("<Q", 7)))
    assert "no QNN context binary" in said(put(at + 256, bytes(4096)))
    assert "the delegate is for SM8650 (57, HTP v75), the device is SM8750 (69, HTP v79)" in said(bytes, "--soc", "SM8750")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_compiles_and_runs(version, tmp_path, image):
    """With the libraries that QNN_WHEELS has; the reference client starts with one of the five."""
    wheels = os.environ.get("QNN_WHEELS")
    if not wheels:
        pytest.skip("QNN_WHEELS is not set: all versions are a slow test")
    folder = WORK / "qnn" if wheels == "download" else ROOT / wheels
    library = folder / version / "onnxruntime_qnn"
    if not library.exists():
        pytest.skip(f"{library} is not there: test_qnn.py downloads it")
    torch.manual_seed(3)
    export(Small(), (torch.randn(1, 3, 8, 8),), tmp_path / "small.pt2")
    np.save(tmp_path / "x.npy", torch.randn(1, 3, 8, 8).numpy())
    for model, given, flags in ((MODEL, image, []), (MODEL, image, ["--skip-op", "relu"]), (tmp_path / "small.pt2", tmp_path / "x.npy", []),
                                (tmp_path / "small.pt2", tmp_path / "x.npy", ["--precision", "fp16a8w", "--soc", "SM8750"])):
        done = call("compile", model, "-o", tmp_path / "m.pte", "--backend", "htp", "--engine", "qnn", "--qnn-lib-dir", library, *flags)
        assert done.returncode == 0, done.stderr
        done = call("run", tmp_path / "m.pte", "--engine", "qnn", "--qnn-lib-dir", library, "--input", given, "--output-dir", tmp_path)
        assert done.returncode == 0, done.stderr
        want = call("run", model, "--input", given, "--output-dir", tmp_path / "cpu")
        assert want.returncode == 0, want.stderr
        a, b = np.load(tmp_path / "output_0.npy"), np.load(tmp_path / "cpu/output_0.npy")
        np.testing.assert_allclose(a, b, atol=0.02 * max(1, np.abs(b).max()))
    versions = list(VERSIONS)
    for other in versions[:versions.index(version)]:  # an older library says what is wrong
        older = folder / other / "onnxruntime_qnn"
        text = fails("run", tmp_path / "m.pte", "--engine", "qnn", "--qnn-lib-dir", older, "--input", tmp_path / "x.npy")
        assert f"made with QNN {VERSIONS[version]}" in text and f"is QNN {VERSIONS[other]}" in text
