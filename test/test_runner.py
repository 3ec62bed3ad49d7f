"""qnn_executor_runner, used as ExecuTorch's runner of this name is: raw files in, raw files and an ETDump out."""
import re
import subprocess

import numpy as np
import pytest
import torch
from conftest import ROOT, SIXFOLD, call

RUNNER = SIXFOLD.parent / "qnn_executor_runner"

# Section 6.9 of the reference: flags and their defaults.
FLAGS = {"model_path": "model.pte", "output_folder_path": "outputs", "input_list_path": "input_list.txt", "iteration": "1", "warm_up": "0",
         "shared_buffer": "false", "method_index": "0", "etdump_path": "etdump.etdp", "dump_intermediate_outputs": "false",
         "debug_output_path": "debug_output.bin", "debug_buffer_size": "100000000", "input_shape_path": "", "output_shape_path": "",
         "performance_output_path": "inference_speed.txt", "log_level": "0", "htp_performance_mode": "0", "profile_level": "0",
         "lpai_fps": "0", "lpai_ftrt_ratio": "0", "lpai_client_perf_type": "0", "lpai_affinity": "0", "lpai_core_selection": "0",
         "heap_profiling_path": ""}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        z = torch.tanh(self.linear(x))
        parts = torch.split(z * y, [1, 2], dim=1)
        return torch.exp(parts[1]), torch.argmax(z, dim=1)


def run(folder, *flags, fails=False):
    done = subprocess.run([RUNNER, *map(str, flags)], cwd=folder, capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def export(module, args, path, **kwargs):
    torch.export.save(torch.export.export(module.eval(), args, **kwargs), path)
    done = call("compile", path, "--backend", "cpu", "-o", path.with_suffix(".pte"))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def net(tmp_path):
    """A folder with model.pte, two lines of inputs, and what eager torch gives for them."""
    torch.manual_seed(1)
    module, wants, lines = Net(), [], []
    for n in range(2):
        x, y = torch.randn(2, 4), torch.randn(2, 3)
        x.numpy().tofile(tmp_path / f"x{n}.raw")
        y.numpy().tofile(tmp_path / f"y{n}.raw")
        lines.append(f"x{n}.raw y{n}.raw\n")
        wants.append([t.detach().numpy() for t in module(x, y)])
    export(module, (x, y), tmp_path / "model.pt2")
    (tmp_path / "input_list.txt").write_text("".join(lines))
    return tmp_path, wants


def check_outputs(folder, wants):
    for n, want in enumerate(wants):
        for i, w in enumerate(want):
            got = np.fromfile(folder / f"output_{n}_{i}.raw", dtype=w.dtype).reshape(w.shape)
            np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-5)
    assert len(list(folder.iterdir())) == sum(len(w) for w in wants)


def inspect(folder, values=None):
    devtools = pytest.importorskip("executorch.devtools")
    return {b.bundled_input_index if b.name == "Execute" else b.name: b
            for b in devtools.Inspector(etdump_path=str(folder), debug_buffer_path=values and str(values)).event_blocks}


def test_every_flag_of_the_reference_is_there_with_its_default(tmp_path):
    said = run(tmp_path, "--help")
    for name, default in FLAGS.items():
        line = next(x for x in said.splitlines() if re.match(rf"  --{name} ", x))
        assert line.endswith(f"({default})") if default else not line.endswith(")"), line


def test_defaults_alone_find_and_write_the_files_of_the_reference(net):
    folder, wants = net
    run(folder)
    check_outputs(folder / "outputs", wants)
    assert float((folder / "inference_speed.txt").read_text()) > 0
    assert not (folder / "debug_output.bin").exists()
    execute = inspect(folder / "etdump.etdp")[-1]
    events = {e.name: e for e in execute.events}
    assert len(events["Method::execute"].perf_data.raw) == 2  # one for each line
    assert "native_call_tanh.out" in events and "OPERATOR_CALL" in events


def test_other_names_for_the_same_flags(net):
    folder, wants = net
    said = run(folder, "--input_path=input_list.txt", "--output_path=out", "--profile_output=p.etdp", "--num_inference_iterations=3",
               "--warmup_iterations=2", "--performance_output_path=")
    assert said.startswith("2 inferences, 6 executes")
    check_outputs(folder / "out", wants)
    assert len(inspect(folder / "p.etdp")[-1].events[-1].perf_data.raw) == 6  # warm-ups leave no trace
    assert {p.name for p in folder.glob("*") if p.suffix not in (".raw", ".pt2", ".pte")} == {"input_list.txt", "out", "p.etdp"}


def test_gflags_spellings(net):
    folder, wants = net
    run(folder, "-output_folder_path", "o", "--noshared_buffer", "--etdump_path=", "--performance_output_path", "")
    check_outputs(folder / "o", wants)
    assert not (folder / "etdump.etdp").exists()


def test_without_a_list_inputs_are_ones(net):
    folder, _ = net
    (folder / "input_list.txt").unlink()
    run(folder)
    torch.manual_seed(1)
    want = Net()(torch.ones(2, 4), torch.ones(2, 3))
    check_outputs(folder / "outputs", [[w.detach().numpy() for w in want]])


def test_the_inspector_reads_intermediate_outputs(net):
    folder, wants = net
    run(folder, "--dump_intermediate_outputs", "--debug_buffer_size=65536", "--iteration=2")
    assert (folder / "debug_output.bin").stat().st_size == 65536
    blocks = inspect(folder / "etdump.etdp", folder / "debug_output.bin")
    torch.manual_seed(1)
    module = Net()
    for n, want in enumerate(wants):
        x = torch.from_numpy(np.fromfile(folder / f"x{n}.raw", dtype=np.float32).reshape(2, 4))
        y = torch.from_numpy(np.fromfile(folder / f"y{n}.raw", dtype=np.float32).reshape(2, 3))
        tanh = torch.tanh(module.linear(x)).detach()
        events = {e.name: e for e in blocks[n].events}
        torch.testing.assert_close(events["native_call_tanh.out"].debug_data[0], tanh)
        torch.testing.assert_close(events["native_call_mul.out"].debug_data[0], tanh * y)
        assert len(events["native_call_tanh.out"].perf_data.raw) == 2
        for got, w in zip(blocks[n].run_output, want, strict=True):
            np.testing.assert_allclose(got.numpy(), w, rtol=1e-4, atol=1e-5)


def test_the_python_runtime_of_executorch_logs_the_same_values(net):
    """Event for event: the names, the instructions and the values of ExecuTorch's own ETDump of the same program."""
    folder, _ = net
    portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
    module = portable_lib._load_for_executorch(str(folder / "model.pte"), enable_etdump=True, debug_buffer_size=65536)
    x = torch.from_numpy(np.fromfile(folder / "x0.raw", dtype=np.float32).reshape(2, 4))
    y = torch.from_numpy(np.fromfile(folder / "y0.raw", dtype=np.float32).reshape(2, 3))
    module.forward([x, y])
    module.write_etdump_result_to_file(str(folder / "theirs.etdp"), str(folder / "theirs.bin"))
    (folder / "input_list.txt").write_text("x0.raw y0.raw\n")
    run(folder, "--dump_intermediate_outputs", "--debug_buffer_size=65536")
    theirs = inspect(folder / "theirs.etdp", folder / "theirs.bin")[-1]
    ours = inspect(folder / "etdump.etdp", folder / "debug_output.bin")[0]
    assert [(e.name, e._instruction_id) for e in ours.events] == [(e.name, e._instruction_id) for e in theirs.events]
    for a, b in zip(ours.events, theirs.events, strict=True):
        assert len(a.debug_data) == len(b.debug_data), a.name
        for p, q in zip(a.debug_data, b.debug_data):
            torch.testing.assert_close(p, q)
    for p, q in zip(ours.run_output, theirs.run_output, strict=True):
        torch.testing.assert_close(p, q)


def test_a_debug_buffer_that_is_too_small_is_named_with_both_sizes(net):
    folder, _ = net
    said = run(folder, "--dump_intermediate_outputs", "--debug_buffer_size=100", fails=True)
    assert re.search(r"need \d{3,} bytes, the debug buffer has 100", said)
    assert not (folder / "debug_output.bin").exists()


def test_shapes_of_a_dynamic_model_come_from_a_file(tmp_path):
    class Half(torch.nn.Module):
        def forward(self, x):
            return x * 0.5

    export(Half(), (torch.ones(4, 3),), tmp_path / "model.pt2", dynamic_shapes=({0: torch.export.Dim("n", min=1, max=8)},))
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    x.tofile(tmp_path / "x.raw")
    (tmp_path / "input_list.txt").write_text("x.raw\n")
    (tmp_path / "shapes.txt").write_text("5,3\n")
    run(tmp_path, "--input_shape_path=shapes.txt", "--output_shape_path=shapes.txt")
    check_outputs(tmp_path / "outputs", [[x / 2]])
    (tmp_path / "other.txt").write_text("4,3\n")
    assert "output 0 has shape [5, 3], other.txt expects [4, 3]" in run(
        tmp_path, "--input_shape_path=shapes.txt", "--output_shape_path=other.txt", fails=True)
    (tmp_path / "shapes.txt").write_text("9,3\n")
    x = np.zeros((9, 3), np.float32).tofile(tmp_path / "x.raw")
    assert "at most" in run(tmp_path, "--input_shape_path=shapes.txt", fails=True)


def test_wrong_calls_are_refused_with_what_is_wrong(net):
    folder, _ = net
    assert "flag --iterations is not known" in run(folder, "--iterations=3", fails=True)
    assert "--method_index is 1, the program has 1 methods" in run(folder, "--method_index=1", fails=True)
    assert "--iteration is -1" in run(folder, "--iteration=-1", fails=True)
    assert "missing.pte" in run(folder, "--model_path=missing.pte", fails=True)
    (folder / "x0.raw").write_bytes(bytes(31))
    assert "x0.raw has 31 bytes, input 0 of f32[2, 4] needs 32" in run(folder, fails=True)
    (folder / "input_list.txt").write_text("x1.raw\n")
    assert "line 1 of input_list.txt names 1 files, the method takes 2 tensors" in run(folder, fails=True)


def test_delegate_flags_say_that_they_have_no_effect(net):
    folder, _ = net
    done = subprocess.run([RUNNER, "--htp_performance_mode=2"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "--htp_performance_mode has no effect" in done.stderr


def test_sixfold_run_writes_the_same_dump(net, tmp_path):
    folder, wants = net
    for n, name in enumerate("xy"):
        raw = np.fromfile(folder / f"{name}0.raw", dtype=np.float32).reshape(2, 4 - n)
        np.save(folder / f"{name}.npy", raw)
    done = call("run", folder / "model.pte", "--input", folder / "x.npy", "--input", folder / "y.npy", "--iterations", 2, "--warmup", 1,
                "--etdump", folder / "r.etdp", "--etdump-values", folder / "r.bin")
    assert done.returncode == 0, done.stderr
    block = inspect(folder / "r.etdp", folder / "r.bin")[0]
    assert all(len(e.perf_data.raw) == 2 for e in block.events)
    for got, w in zip(block.run_output, wants[0], strict=True):
        np.testing.assert_allclose(got.numpy(), w, rtol=1e-4, atol=1e-5)
    assert ".pt2 has no instructions" in call("run", folder / "model.pt2", "--etdump", folder / "r.etdp").stderr
