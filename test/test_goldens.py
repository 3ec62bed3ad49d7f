"""Programs that `sixfold compile` made, kept in test/pte/compiled: they give eager torch's outputs for ever, and are made anew to the byte."""
import json
import re

import numpy as np
import pytest
from conftest import ROOT, call
from make_compiled_goldens import OUT, PROGRAMS

PTES = sorted(OUT.glob("*_*.pte"))


def methods_of(pte):
    return PROGRAMS[pte.stem.rsplit("_", 1)[0]].items()


def test_there_is_one_of_each_program_for_this_version():
    version = call("--version").stdout.split()[-1]
    assert {f"{name}_{version}.pte" for name in PROGRAMS} <= {p.name for p in PTES}


@pytest.mark.parametrize("pte", PTES, ids=lambda p: p.stem)
def test_a_golden_gives_the_same_outputs_for_ever(pte, tmp_path):
    for method, source in methods_of(pte):
        data = np.load(OUT / f"{source}.npz")
        feed = []
        for i in range(sum(n.startswith("in") for n in data.files)):
            np.save(tmp_path / f"in{i}.npy", data[f"in{i}"])
            feed += ["--input", tmp_path / f"in{i}.npy"]
        done = call("run", pte, "--method", method, *feed, "--output-dir", tmp_path / method, "--verify-data")
        assert done.returncode == 0, done.stderr
        outs = sum(n.startswith("out") for n in data.files)
        assert len(list((tmp_path / method).iterdir())) == outs > 0
        for i in range(outs):
            want, got = data[f"out{i}"], np.load(tmp_path / method / f"output_{i}.npy")
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pte", PTES, ids=lambda p: p.stem)
def test_executorch_runs_the_golden(pte):
    import torch
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(pte)
    for method, source in methods_of(pte):
        data = np.load(OUT / f"{source}.npz")
        inputs = [torch.from_numpy(data[f"in{i}"]) for i in range(sum(n.startswith("in") for n in data.files))]
        for i, got in enumerate(program.load_method(method).execute(inputs)):
            torch.testing.assert_close(got, torch.from_numpy(data[f"out{i}"]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bytes_from_any_build_in_any_folder(name, tmp_path):
    """The golden came from another build; copies of the sources under other names give its bytes too."""
    version = call("--version").stdout.split()[-1]
    sources = []
    for method, source in PROGRAMS[name].items():
        copy = tmp_path / f"copy of {source}.pt2"
        copy.write_bytes((OUT / f"{source}.pt2").read_bytes())
        sources.append(f"{method}={copy}")
    done = call("compile", *sources, "--backend", "cpu", "-o", tmp_path / "m.pte")
    assert done.returncode == 0, done.stderr
    golden = OUT / f"{name}_{version}.pte"
    assert (tmp_path / "m.pte").read_bytes() == golden.read_bytes(), (
        "compile writes other bytes than when the golden was made: if that is meant, run test/make_compiled_goldens.py")


@pytest.mark.parametrize("pte", PTES, ids=lambda p: p.stem)
def test_a_golden_shows_its_manifest(pte):
    shown = json.loads(call("show", pte, "--json").stdout)
    assert re.fullmatch(r"sixfold \d+\.\d+\.\d+", shown["manifest"]["tool"])
    assert len(shown["manifest"]["sources"]) == len(methods_of(pte))
    assert str(ROOT).encode() not in pte.read_bytes()
