"""sixfold show of .pte, .ptd and .bpte files, and of damaged ones."""
import json

import pytest
from conftest import ROOT, call, fails

GOLDENS = ROOT / "test/pte"


def shown(name, *more):
    done = call("show", GOLDENS / name, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_text_has_methods_instructions_memory_and_segments():
    text = shown("counter.pte")
    for part in ("method forward:", "method get_n:", "aten::add.out(", "if not %13 go to 9", "memory: buffer 1, 208 bytes", "initial values"):
        assert part in text


def test_json_says_what_the_text_does():
    found = json.loads(shown("counter.pte", "--json"))
    assert [method["name"] for method in found["methods"]] == ["forward", "get_n", "get_name"]
    forward = found["methods"][0]
    x = forward["values"][forward["inputs"][0]]
    assert (x["dtype"], x["sizes"], x["dynamic"]) == ("f32", [6, 2], True)
    assert len(forward["chains"][0]) == 18
    [buffer] = forward["buffers"]
    assert buffer["peak_bytes"] <= buffer["bytes"] == 208
    assert all(t["offset"] + t["bytes"] <= 208 and t["first"] <= t["last"] for t in buffer["tensors"])
    assert [segment["content"] for segment in found["segments"]] == ["constants", "initial values"]


def test_data_files_and_bundles():
    entries = {e["key"]: e["sizes"] for e in json.loads(shown("mlp_external.ptd", "--json"))["entries"]}
    assert entries == {"fc.bias": [3], "fc.weight": [3, 4]}
    bundle = json.loads(shown("mlp.bpte", "--json"))
    assert [(s["method"], len(s["cases"])) for s in bundle["suites"]] == [("forward", 1)]
    assert bundle["program"]["methods"][0]["name"] == "forward"


@pytest.mark.parametrize("name", ["counter.pte", "mlp_external.ptd", "mlp.bpte"])
def test_a_cut_file_is_refused_in_one_sentence(name, tmp_path):
    cut = tmp_path / name
    data = (GOLDENS / name).read_bytes()
    cut.write_bytes(data[: len(data) - 9])
    fails("show", cut)
    fails("show", cut, "--json")
