"""Qualcomm's libraries as a user meets them: found, copied, linked, absent, of every version; chips from a file.

The live unit tests are in sixfold/qnn/live_test.cpp. QNN_WHEELS names a folder with unpacked onnxruntime-qnn wheels
(<version>/onnxruntime_qnn), or "download" to fetch them: then every version is tried.
"""
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, SIXFOLD, TEST_SET, WORK, call, fails

VERSIONS = {"2.3.0": "2.47.0", "2.4.0": "2.48.40", "2.5.0": "2.49.40", "2.6.0": "2.50.40", "2.7.0": "2.51.0"}


def installed():
    for packages in sorted((ROOT / ".venv/lib").glob("python3*/site-packages")):
        if (packages / "onnxruntime_qnn/libQnnHtp.so").exists():
            return packages / "onnxruntime_qnn"
    return None


WHEEL = installed()
needs_libraries = pytest.mark.skipif(WHEEL is None, reason="onnxruntime-qnn is not in .venv (tools/install.sh test)")


def doctor(*args, **kwargs):
    done = call("doctor", "--json", *args, **kwargs)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.count("\n") == 1  # nothing of the library's own
    return json.loads(done.stdout)


def test_without_libraries_doctor_says_how_to_get_them(tmp_path):
    report = doctor("--qnn-lib-dir", tmp_path)
    assert report["emulator"]["works"] and report["emulator"]["version"]
    assert not report["qnn"]["works"]
    assert "pip install onnxruntime-qnn" in report["qnn"]["problem"]
    assert [p["folder"] for p in report["qnn"]["looked_in"]][0] == str(tmp_path)


@needs_libraries
def test_doctor_prepares_a_graph_with_the_libraries_of_the_active_python():
    environment = {k: v for k, v in os.environ.items() if k != "QNN_SDK_ROOT"} | {"VIRTUAL_ENV": str(ROOT / ".venv")}
    report = doctor(env=environment)
    assert report["qnn"]["works"], report["qnn"]
    assert report["qnn"]["core_api"].startswith("2.") and report["qnn"]["htp_arch"] == 75
    assert report["python"]["onnxruntime_qnn"]


@needs_libraries
def test_links_work_and_copies_need_their_libcxx(tmp_path):
    names = ("libQnnHtp.so", "libQnnSystem.so")
    for folder in ("links/lib/x86_64-linux-clang", "copies"):
        (tmp_path / folder).mkdir(parents=True)
    for name in names:
        (tmp_path / "links/lib/x86_64-linux-clang" / name).symlink_to(WHEEL / name)
        shutil.copy(WHEEL / name, tmp_path / "copies")
    assert doctor("--qnn-lib-dir", tmp_path / "links")["qnn"]["works"]
    assert doctor(env=os.environ | {"QNN_SDK_ROOT": str(tmp_path / "links")})["qnn"]["works"]
    alone = doctor("--qnn-lib-dir", tmp_path / "copies")["qnn"]
    assert not alone["works"] and "LD_LIBRARY_PATH" in alone["problem"]
    shutil.copytree(WHEEL.parent / "onnxruntime_qnn.libs", tmp_path / "onnxruntime_qnn.libs")
    assert doctor("--qnn-lib-dir", tmp_path / "copies")["qnn"]["works"]


def test_an_unknown_chip_gets_the_nearest_names():
    assert "SM8650" in fails("doctor", "--soc", "SM8560")


@needs_libraries
def test_a_file_adds_a_chip(tmp_path):
    path = tmp_path / "soc.json"
    path.write_text('{"name": "MINE1", "id": 69, "htp_arch": 79, "vtcm_mb": 8}')
    report = doctor("--soc-file", path, "--qnn-lib-dir", WHEEL)
    assert report["soc"]["name"] == "MINE1" and report["qnn"]["htp_arch"] == 79
    path.write_text('{"name": "MINE2", "id": 9999, "htp_arch": 79}')
    report = doctor("--soc-file", path, "--qnn-lib-dir", WHEEL)
    assert not report["qnn"]["works"] and "9999" in report["qnn"]["problem"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"id": 57, "htp_arch": 75}', '{"name": "A b", "id": 57, "htp_arch": 75}', '{"name": "A", "htp_arch": 75}',
     '{"name": "A", "id": -1, "htp_arch": 75}', '{"name": "A", "id": 57.5, "htp_arch": 75}', '{"name": "A", "id": 57, "htp_arch": 5}',
     '{"name": "A", "id": 57, "htp_arch": 75, "vtcm": 8}', '{"name": "A", "id": 57, "htp_arch": 75, "vtcm_mb": "8"}'],
)
def test_a_wrong_chip_file_is_refused(tmp_path, text):
    path = tmp_path / "soc.json"
    path.write_text(text)
    fails("doctor", "--soc-file", path)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_works(version):
    wheels = os.environ.get("QNN_WHEELS")
    if not wheels:
        pytest.skip("QNN_WHEELS is not set: all versions are a slow test")
    folder = WORK / "qnn" if wheels == "download" else ROOT / wheels
    library = folder / version / "onnxruntime_qnn"
    if not library.exists() and wheels == "download":
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / version)]
        subprocess.run([*pip, f"onnxruntime-qnn=={version}"], check=True)
    report = doctor("--qnn-lib-dir", library)["qnn"]
    assert report["works"] and report["sdk"] == VERSIONS[version], report
    sdk = WORK / "qnn-sdk" / version
    (sdk / "lib").mkdir(parents=True, exist_ok=True)
    if not (sdk / "lib/x86_64-linux-clang").exists():
        (sdk / "lib/x86_64-linux-clang").symlink_to(library)
    tests = subprocess.run([str(ROOT / "build/release/sixfold_test"), "--gtest_filter=QnnLive.*"], capture_output=True,
                           text=True, env=os.environ | {"QNN_SDK_ROOT": str(sdk)})
    assert tests.returncode == 0 and "SKIPPED" not in tests.stdout, tests.stdout


def test_a_library_that_crashes_is_told_in_a_sentence(tmp_path):
    (tmp_path / "crash.c").write_text("int QnnInterface_getProviders(void* a, void* b) { __builtin_trap(); }\n")
    library = tmp_path / "libQnnHtp.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "crash.c"], check=True)
    out = tmp_path / "out.pte"
    said = fails("compile", ROOT / "demo/digits.pt2", "-o", out, "--backend", "htp", "--engine", "qnn", "--qnn-lib-dir", tmp_path, "--precision", "fp16")
    assert said.startswith("sixfold: Qualcomm's library crashed (signal ") and said.endswith(f"while loading {library}")
    assert not out.exists()


EMULATOR = SIXFOLD.parent / "qnn/lib/x86_64-linux-clang"


@pytest.fixture(scope="module")
def crashing(tmp_path_factory):
    """The emulator's libraries, with one that crashes or fails at what the environment says."""
    folder = tmp_path_factory.mktemp("crashing")
    done = subprocess.run(["cmake", "--build", SIXFOLD.parent, "--target", "qnn_libraries"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    (folder / "libQnnSystem.so").symlink_to(EMULATOR / "libQnnSystem.so")
    subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}", "-o", folder / "libQnnHtp.so",
                    ROOT / "test/crashing_library.cpp", "-ldl"], check=True)
    return folder


@pytest.mark.parametrize("how", [{}, {"SIXFOLD_TEST_FAILS": "1"}], ids=["crashes", "fails"])
@pytest.mark.parametrize("precision", ["fp16", "8a8w"])
def test_what_cannot_be_prepared_is_left_to_the_cpu_with_the_reason(crashing, tmp_path, image, how, precision):
    calibration = ["--calib", TEST_SET] if precision != "fp16" else []
    environment = os.environ | {"SIXFOLD_TEST_LIBRARY": str(EMULATOR / "libQnnHtp.so")}
    options = [ROOT / "demo/digits.pt2", "--engine", "qnn", "--qnn-lib-dir", crashing, "--precision", precision, *calibration]

    def compiled(name, **variables):
        done = call("compile", *options, "-o", tmp_path / name, "--json", env=environment | how | variables)
        assert done.returncode == 0, done.stderr
        assert ("trying again" in done.stderr) == (bool(variables) and not how)
        return json.loads(done.stdout)

    def result(name):
        run = call("run", tmp_path / name, "--engine", "emulator", "--input", image, "--output-dir", tmp_path)
        assert run.returncode == 0, run.stderr
        return np.load(tmp_path / "output_0.npy")

    whole = compiled("whole.pte")
    assert whole["delegates"] == 1 and not whole["cpu_nodes"]
    expected = result("whole.pte")

    # Alone: the pools stay on the CPU.
    without = compiled("without.pte", SIXFOLD_TEST_TYPE="PoolMax2d")
    assert without["delegates"] > 1 and without["cpu_nodes"]
    for node in without["cpu_nodes"]:
        assert "max_pool" in node["op"]
        assert "[htp.prepare.1]: " in node["reason"] and ("SIGSEGV" in node["reason"] or "6020" in node["reason"])
    assert np.abs(result("without.pte") - expected).max() < 0.05 * np.abs(expected).max()

    # With others: everything is on the NPU, in more delegates.
    apart = compiled("apart.pte", SIXFOLD_TEST_TYPE="PoolMax2d", SIXFOLD_TEST_WITH="Conv2d")
    assert apart["delegates"] > 1 and not apart["cpu_nodes"]
    assert any("[htp.prepare.2]" in note for note in apart["methods"][0]["notes"])
    assert np.abs(result("apart.pte") - expected).max() < 0.05 * np.abs(expected).max()

    refused = call("compile", *options, "-o", tmp_path / "none.pte", "--fail-on-fallback",
                   env=environment | how | {"SIXFOLD_TEST_TYPE": "PoolMax2d"})
    assert refused.returncode == 1 and "would run on the CPU" in refused.stderr and not (tmp_path / "none.pte").exists()


@pytest.mark.parametrize("how", [{}, {"SIXFOLD_TEST_FAILS": "1"}], ids=["crashes", "fails"])
def test_methods_that_cannot_be_prepared_together_have_contexts_of_their_own(crashing, tmp_path, image, how):
    environment = os.environ | {"SIXFOLD_TEST_LIBRARY": str(EMULATOR / "libQnnHtp.so")}
    models = [f"{method}={ROOT / 'demo/digits.pt2'}" for method in ("first", "second")]

    def compiled(name, **variables):
        done = call("compile", *models, "--engine", "qnn", "--qnn-lib-dir", crashing, "--precision", "fp16", "-o", tmp_path / name, "--json",
                    env=environment | variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def results(name):
        for method in ("first", "second"):
            run = call("run", tmp_path / name, "--engine", "emulator", "--method", method, "--input", image, "--output-dir", tmp_path)
            assert run.returncode == 0, run.stderr
            yield np.load(tmp_path / "output_0.npy")

    together, apart = compiled("together.pte"), compiled("apart.pte", SIXFOLD_TEST_ALONE="1", **how)
    assert not apart["cpu_nodes"]
    for shared, own in zip(together["methods"], apart["methods"]):
        assert not shared["notes"] and shared["delegates"] == own["delegates"] == 1  # no delegate is cut
        (note,) = own["notes"]
        assert "[htp.prepare.3]: " in note and ("SIGSEGV" in note or "6020" in note)
    for expected, result in zip(results("together.pte"), results("apart.pte")):
        assert np.array_equal(expected, result)
