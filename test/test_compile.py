"""sixfold compile: what it writes, ExecuTorch's own runtime computes, with eager torch's numbers."""
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import MODEL, ROOT, SIXFOLD, TEST_SET, WORK, call, fails

from executorch.runtime import Runtime


def export(module, args, path, **kwargs):
    torch.export.save(torch.export.export(module.eval(), args, **kwargs), path)
    return path


def compiled(out, *args):
    done = call("compile", *args, "--backend", "cpu", "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def load(path, method="forward"):
    return Runtime.get().load_program(path).load_method(method)


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_the_digits_are_read(tmp_path):
    report = compiled(tmp_path / "digits.pte", MODEL)
    assert report["delegates"] == 0 and report["cpu_nodes"]
    method = load(tmp_path / "digits.pte")
    data = np.load(TEST_SET)
    right = sum(int(method.execute([torch.from_numpy(x)])[0].argmax()) == y for x, y in zip(data["in0"], data["labels"]))
    assert right >= 350


def test_the_npu_is_what_a_model_is_compiled_for_unless_the_cpu_is_named(tmp_path):
    done = call("compile", MODEL, "-o", tmp_path / "npu.pte", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["delegates"] == 1 and not report["cpu_nodes"] and report["soc"] == "SM8650"
    said = fails("compile", MODEL, "--backend", "cpu", "--precision", "8a8w", "-o", tmp_path / "cpu.pte")
    assert "--precision is for --backend htp, and the backend is cpu" in said
    assert not (tmp_path / "cpu.pte").exists()


def test_two_runs_give_the_same_bytes(tmp_path):
    compiled(tmp_path / "a.pte", MODEL)
    compiled(tmp_path / "b.pte", MODEL)
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()


def test_text_says_what_was_done(tmp_path):
    done = call("compile", MODEL, "--backend", "cpu", "-o", tmp_path / "digits.pte")
    assert done.returncode == 0
    for word in ("imported", "kernels", "arena", "wrote"):
        assert word in done.stdout


def test_several_methods_share_a_file(tmp_path):
    class Scaled(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by, self.weight = by, torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))

        def forward(self, x):
            return x @ self.weight * self.by

    x = torch.randn(4, 2)
    a = export(Scaled(2.0), (x,), tmp_path / "a.pt2")
    b = export(Scaled(3.0), (x,), tmp_path / "b.pt2")
    compiled(tmp_path / "m.pte", f"prefill={a}", f"decode={b}")
    for name, by in (("prefill", 2.0), ("decode", 3.0)):
        close(load(tmp_path / "m.pte", name).execute([x])[0], Scaled(by)(x))


def test_two_methods_of_one_name_are_refused(tmp_path):
    assert "two methods are called forward" in fails("compile", MODEL, MODEL, "-o", tmp_path / "m.pte")
    assert not (tmp_path / "m.pte").exists()


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


def test_a_buffer_starts_with_its_value_and_keeps_what_is_written(tmp_path):
    path = export(Counter(), (torch.ones(3),), tmp_path / "counter.pt2")
    compiled(tmp_path / "counter.pte", path)
    method, eager = load(tmp_path / "counter.pte"), Counter()
    for step in range(3):
        x = torch.full((3,), float(step))
        close(method.execute([x])[0], eager(x))


class Flexible(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        y = torch.relu(self.linear(x)).reshape(x.shape[0], -1, 2, 4).transpose(1, 2)
        z = torch.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)
        z = z.transpose(1, 2).reshape(x.shape[0], x.shape[1], 8)
        return self.norm(torch.cat([z, x[:, 1:]], 1)), x.shape[1] * 2


def test_sizes_up_to_their_bound_are_computed(tmp_path):
    module = Flexible().eval()
    n = torch.export.Dim("n", min=4, max=20)
    path = export(module, (torch.randn(1, 6, 8),), tmp_path / "m.pt2", dynamic_shapes=({1: n},))
    report = compiled(tmp_path / "m.pte", path)
    assert report["methods"][0]["bounds"]
    for length in (4, 7, 20):
        x = torch.randn(1, length, 8)
        method = load(tmp_path / "m.pte")
        got, want = method.execute([x]), module(x)
        close(got[0], want[0])
        assert got[1] == want[1]


def test_a_size_without_a_bound_is_asked_for(tmp_path):
    path = export(Flexible(), (torch.randn(1, 6, 8),), tmp_path / "m.pt2", dynamic_shapes=({1: torch.export.Dim.AUTO},))
    said = fails("compile", path, "--backend", "cpu", "-o", tmp_path / "m.pte")
    assert "has no upper bound: give one with --bound" in said
    symbol = said.split("symbol ")[1].split()[0]
    compiled(tmp_path / "m.pte", path, "--bound", f"{symbol}=16")
    assert len(load(tmp_path / "m.pte").execute([torch.randn(1, 16, 8)])) == 2
    assert "the model's symbols are" in fails("compile", path, "--backend", "cpu", "-o", tmp_path / "m.pte", "--bound", "zz=4")


def test_what_has_no_kernel_is_refused_by_name(tmp_path):
    class Reduced(torch.nn.Module):
        def forward(self, x, i):
            a = torch.zeros(4, 2000).scatter_reduce(1, i, x, "amax")
            return a, torch.zeros(4, 2000).scatter_reduce(1, i, x, "prod")

    args = (torch.randn(4, 1000), torch.zeros(4, 1000, dtype=torch.int64))
    said = fails("compile", export(Reduced(), args, tmp_path / "m.pt2"), "--backend", "cpu", "-o", tmp_path / "m.pte")
    assert "2 nodes" in said and "scatter" in said and not (tmp_path / "m.pte").exists()


def test_options_are_checked(tmp_path):
    assert "expected htp or cpu" in fails("compile", MODEL, "-o", tmp_path / "m.pte", "--backend", "abacus")
    assert "power of two" in fails("compile", MODEL, "-o", tmp_path / "m.pte", "--alignment", 48)
    assert "SYMBOL=N" in fails("compile", MODEL, "-o", tmp_path / "m.pte", "--bound", "s0=many")


@pytest.mark.parametrize("flags", [["--page-align"], ["--alignment", 16], ["--no-in-place"], ["--no-plan-outputs"], ["--no-plan-inputs"]])
def test_layouts_do_not_change_numbers(flags, tmp_path):
    compiled(tmp_path / "a.pte", MODEL)
    compiled(tmp_path / "b.pte", MODEL, *flags)
    x = torch.from_numpy(np.load(TEST_SET)["in0"][0])
    assert torch.equal(load(tmp_path / "a.pte").execute([x])[0], load(tmp_path / "b.pte").execute([x])[0])


def test_batch_norms_are_folded_unless_calls_are_asked_for(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    net(torch.randn(8, 3, 6, 6) * 3 + 1)  # means and variances other than 0 and 1
    x = torch.randn(1, 3, 6, 6)
    model = export(net, (x,), tmp_path / "m.pt2")
    for flags, calls in (([], 2), (["--keep-batch-norm"], 3)):
        assert compiled(tmp_path / "m.pte", model, *flags)["methods"][0]["kernel_calls"] == calls
        want = net(x).detach().numpy()
        close(load(tmp_path / "m.pte").execute([x])[0], torch.from_numpy(want))
        np.save(tmp_path / "x.npy", x.numpy())
        done = call("run", tmp_path / "m.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "out")
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(np.load(tmp_path / "out/output_0.npy"), want, rtol=1e-4, atol=1e-5)


def test_negative_indices_count_from_the_end(tmp_path):
    class Picked(torch.nn.Module):
        def forward(self, x, i):
            return x[:, i], x[i - 1]

    x, i = torch.randn(4, 5), torch.tensor([-1, 2, 0])
    n = torch.export.Dim("n", min=4, max=7)
    compiled(tmp_path / "m.pte", export(Picked(), (x, i), tmp_path / "m.pt2", dynamic_shapes=({0: n}, None)))
    for rows in (4, 6):
        x = torch.randn(rows, 5)
        for got, want in zip(load(tmp_path / "m.pte").execute([x, i]), Picked()(x, i), strict=True):
            close(got, want)


def test_a_size_as_a_number_is_that_of_the_call(tmp_path):
    class Sized(torch.nn.Module):
        def forward(self, x):
            return torch.full((2,), x.shape[0]), x + torch.full((), x.shape[0] * 2)

    n = torch.export.Dim("n", min=2, max=9)
    compiled(tmp_path / "m.pte", export(Sized(), (torch.ones(4),), tmp_path / "m.pt2", dynamic_shapes=({0: n},)))
    for rows in (3, 9):
        x = torch.randn(rows)
        for got, want in zip(load(tmp_path / "m.pte").execute([x]), Sized()(x), strict=True):
            close(got, want)


def test_a_range_of_reals_has_the_size_that_comes_in(tmp_path):
    class Range(torch.nn.Module):
        def forward(self, x):
            return torch.arange(1, x.shape[0] + 1, 0.5)

    n = torch.export.Dim("n", min=2, max=9)
    path = export(Range(), (torch.ones(4),), tmp_path / "m.pt2", dynamic_shapes=({0: n},))
    compiled(tmp_path / "m.pte", path)
    for rows in (2, 5, 9):
        x = torch.ones(rows)
        assert torch.equal(load(tmp_path / "m.pte").execute([x])[0], Range()(x))


def test_our_runtime_scales_the_size_that_comes_in(tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x, scale_factor=(1, 2.5))

    n = torch.export.Dim("n", min=2, max=9)
    path = export(Twice(), (torch.ones(1, 2, 3, 4),), tmp_path / "m.pt2", dynamic_shapes=({3: n},))
    compiled(tmp_path / "m.pte", path)
    x = torch.randn(1, 2, 3, 7)
    np.save(tmp_path / "x.npy", x.numpy())
    done = call("run", tmp_path / "m.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    close(torch.from_numpy(np.load(tmp_path / "out/output_0.npy")), Twice()(x))


def test_conformance_cases_run_on_both_runtimes(cases, tmp_path):
    script = [sys.executable, ROOT / "test/run_compiled_cases.py", SIXFOLD, cases, "--sample", "12", "--json", tmp_path / "r.json"]
    done = subprocess.run(script, capture_output=True, text=True)
    results = json.loads((tmp_path / "r.json").read_text())
    failed = {n for n, r in results.items() if r["state"] not in ("passed", "skipped")}
    # Saved after the op had changed its input in place: what eager torch gave was made from other numbers.
    assert not failed - {"float/leaky_relu.2", "quant/leaky_relu.2"}, done.stdout
    assert len(results) > 80


class Branches(torch.nn.Module):
    """Values of many sizes that live for long and short."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(4 + 2 * i, 6 + 2 * i, 3, stride=1 + i % 2, padding=1) for i in range(6))
        self.heads = torch.nn.ModuleList(torch.nn.Conv2d(6 + 2 * i, 4, 1) for i in range(6))

    def forward(self, x):
        outs = []
        for layer, head in zip(self.layers, self.heads):
            x = torch.nn.functional.hardswish(layer(x))
            outs.append(torch.sigmoid(head(x)).mean((2, 3)))
        return torch.cat(outs, 1)


@pytest.mark.parametrize("flags", [["--no-in-place"], []])
def test_no_arena_is_larger_than_executorchs_planner_makes_it(flags, tmp_path):
    from executorch.exir._serialize._program import deserialize_pte_binary
    from executorch.exir.memory_planning import greedy
    from executorch.exir.tensor import TensorSpec

    path = export(Branches(), (torch.randn(1, 4, 31, 31),), tmp_path / "m.pt2")
    report = compiled(tmp_path / "m.pte", path, "--alignment", 16, *flags)
    assert report["methods"][0]["views"] == 0  # so that every tensor is a storage
    plan = deserialize_pte_binary((tmp_path / "m.pte").read_bytes()).program.execution_plan[0]
    calls = [i.instr_args.args for i in plan.chains[0].instructions]
    lives = {i: [-1, -1] for i in plan.inputs}
    for step, args in enumerate(calls):
        for i in (a for a in args if getattr(plan.values[a].val, "allocation_info", None)):
            lives.setdefault(i, [step, step])[1] = step
    for i in plan.outputs:
        lives[i][1] = len(calls)
    specs = set()
    for i, life in lives.items():
        spec = TensorSpec.from_tensor(torch.empty(plan.values[i].val.sizes))
        spec.lifetime = [life[0] + 1, life[1] + 1]
        specs.add(spec)
    theirs = greedy(16, specs, torch.fx.symbolic_trace(torch.nn.Identity()), None).bufsizes
    assert plan.non_const_buffer_sizes[1] == report["methods"][0]["arena_bytes"] <= sum(theirs)
