"""The audit: models with one planted reason each, the reason named, and the fixes that are offered work.

The models are those of make_audit_models.py, made once into .work/audit. Every third is audited, and every sixth fixed;
SIXFOLD_AUDIT=all does both with all of them.
"""
import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import MODEL, ROOT, WORK, call, fails
from make_audit_models import CASES
from test_htp import environment
from test_qnn import needs_libraries

pytestmark = needs_libraries
ALL = os.environ.get("SIXFOLD_AUDIT") == "all"
NAMES = list(CASES) if ALL else list(CASES)[::3]


@pytest.fixture(scope="module")
def models():
    folder = WORK / "audit"
    script = ROOT / "test/make_audit_models.py"
    if not (folder / "done").exists() or (folder / "done").stat().st_mtime < script.stat().st_mtime:
        done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        (folder / "done").touch()
    return folder


def audit(*args):
    done = call("audit", *args, "--json", env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_the_cpu(report):
    # The library finds out when it prepares a graph that a tile does not fit, and words it by its own ops.
    return {(n["node"], "TCM" if "TCM" in n["reason"] else n["reason"].split(";")[0].rstrip(")")) for n in report["cpu_nodes"]}


def planted(report, expected):
    found = [n for n in report["cpu_nodes"] if re.search(expected["op"], n["op"])]
    assert found, f"no {expected['op']} among {[(n['op'], n['reason']) for n in report['cpu_nodes']]}"
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_planted_reason_is_named_and_an_offered_fix_works(name, models, tmp_path):
    expected = CASES[name][1]
    options = [*expected.get("options", []), "--engine", "qnn"]
    report = audit(models / f"{name}.pt2", *options)
    assert on_the_cpu(audit(models / f"{name}.pt2", *expected.get("options", []))) == on_the_cpu(report)  # the emulator, by default
    nodes = planted(report, expected)
    for node in nodes:
        assert re.search(expected["reason"], node["reason"]), node["reason"]
        assert node["node"] and node["source"]
        assert node["cost"]["delegates"] == report["delegates"]
        assert node["cost"]["delegates_without"] <= report["delegates"] + 1
    offered = {n["fix"]["name"] if n["fix"] else None for n in nodes}
    assert offered == {expected["fix"]}
    if expected["fix"] and expected.get("applies", True) and (ALL or NAMES.index(name) % 2 == 0):
        fixed = audit(models / f"{name}.pt2", *options, "--apply-fixes")
        # Reshapes at the model's edge cost nothing; types that the device lacks are converted there.
        left = [n for n in fixed["cpu_nodes"] if re.search(expected["op"], n["op"]) and not n["cost"]["free"]]
        assert [n for n in left if n["canonical"] != "to"] == []
        assert fixed["delegates"] > 0
        assert fixed["notes"]
        program = tmp_path / "m.pte"
        made = call("compile", models / f"{name}.pt2", "-o", program, "--backend", "htp", *options, "--apply-fixes", "--json", env=environment())
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["delegates"] == fixed["delegates"]
        if expected.get("runs", True) and list(models.glob(f"{name}.in_*.npy")):
            check_numbers(models / name, program, tmp_path, expected.get("tolerance", 0.02))


def check_numbers(stem, program, folder, tolerance):
    """The fixed program gives the model's numbers, as the CPU engine computes them, to a half's precision."""
    feed = [x for p in sorted(stem.parent.glob(f"{stem.name}.in_*.npy")) for x in ("--input", p)]
    done = call("run", program, "--engine", "qnn", *feed, "--output-dir", folder / "npu", env=environment())
    assert done.returncode == 0, done.stderr
    done = call("run", stem.with_suffix(".pt2"), *feed, "--output-dir", folder / "cpu")
    assert done.returncode == 0, done.stderr
    for path in sorted((folder / "cpu").glob("*.npy")):
        ours, theirs = np.load(folder / "npu" / path.name), np.load(path)
        assert ours.shape == theirs.shape
        most = max(1.0, float(np.abs(theirs.astype(np.float64)).max(initial=0)))
        assert float(np.abs(ours.astype(np.float64) - theirs).max(initial=0)) <= tolerance * most, path.name


@pytest.mark.parametrize("precision", ["8a8w", "16a8w"])
def test_grids_need_no_samples_and_both_engines_agree(precision, models):
    """Without --calib ranges are assumed, and said to be; fallbacks are those of the same model on either engine."""
    for name in NAMES[::2]:
        reports = [audit(models / f"{name}.pt2", "--precision", precision, "--engine", engine) for engine in ("qnn", "emulator")]
        assert any("every range is taken" in note for note in reports[0]["notes"])
        assert on_the_cpu(reports[0]) == on_the_cpu(reports[1]), name


def test_a_model_that_fits_has_nothing_to_say():
    report = audit(MODEL)
    assert report["engine"] == "sixfold emulator"
    assert report["delegates"] == 1 and report["cpu_nodes"] == [] and report["device_nodes"] > 5


def test_fail_on_fallback_names_the_nodes(tmp_path):
    done = call("audit", MODEL, "--skip-op", "relu", "--fail-on-fallback", env=environment())
    assert done.returncode == 1 and "relu" in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert call("audit", MODEL, "--fail-on-fallback", env=environment()).returncode == 0
    program = tmp_path / "m.pte"
    why = fails("compile", MODEL, "-o", program, "--backend", "htp", "--skip-op", "relu", "--fail-on-fallback", env=environment())
    assert "relu" in why and not program.exists()


def test_a_skip_that_matches_nothing_names_the_nearest():
    assert "relu" in fails("audit", MODEL, "--skip-op", "rellu", env=environment())
    assert "conv2d" in fails("audit", MODEL, "--skip-node", "conv2", env=environment())


def test_contexts_are_kept_by_content(tmp_path):
    cache = tmp_path / "cache"

    def compile_(name, *extra):
        done = call("compile", MODEL, "-o", tmp_path / name, "--backend", "htp", "--engine", "qnn", "--cache", cache, "--json", *extra, env=environment())
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = compile_("a.pte")
    assert first["cache"] == {"hits": 0, "misses": 1}
    second = compile_("b.pte")
    assert second["cache"] == {"hits": 1, "misses": 0}
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes()
    assert compile_("c.pte", "--optimization", "2")["cache"]["misses"] == 1
    # A damaged file is noticed, said and made anew.
    (kept, _) = sorted(cache.glob("*.ctx"), key=lambda p: p.stat().st_mtime)
    damaged = bytearray(kept.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    kept.write_bytes(damaged)
    third = compile_("d.pte")
    assert third["cache"] == {"hits": 0, "misses": 1} and "damaged" in third["notes"][0]
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "d.pte").read_bytes()
    kept.write_bytes(b"")
    assert compile_("e.pte")["cache"]["misses"] == 1
    # Two at once.
    kept.unlink()
    reports = []
    threads = [threading.Thread(target=lambda n=n: reports.append(compile_(n))) for n in ("f.pte", "g.pte")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(reports) == 2
    assert (tmp_path / "f.pte").read_bytes() == (tmp_path / "g.pte").read_bytes() == (tmp_path / "a.pte").read_bytes()
    assert compile_("h.pte")["cache"]["hits"] == 1
    assert not list(cache.glob("*.part*"))
