"""Samples for the quantizer: every form that --calib takes, in several processes too, and what is wrong with bad ones.

The engine is ours: nothing here needs Qualcomm's libraries.
"""
import io
import json
import os
import shutil
import struct
import subprocess
import zlib

import numpy as np
import pytest
import torch
from conftest import MODEL, SIXFOLD, TEST_SET, call, fails

FAST = ("--rounding", "nearest", "--no-bias-correction", "--no-accuracy", "--observer", "moving-average")


@pytest.fixture(scope="module")
def digits():
    return np.load(TEST_SET)["in0"][:6]


def command(program, calib, *flags, model=MODEL, precision="8a8w"):
    return ["compile", model, "-o", program, "--backend", "htp", "--engine", "emulator", "--precision", precision, "--calib", calib, *flags]


def bytes_of(program, calib, *flags, **kwargs):
    done = call(*command(program, calib, *FAST, *flags, **kwargs))
    assert done.returncode == 0, done.stderr
    return program.read_bytes()


@pytest.fixture(scope="module")
def stacked(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("calib") / "all.npz"
    np.savez(path, in0=digits)
    return path


@pytest.fixture(scope="module")
def wanted(stacked, tmp_path_factory):
    return bytes_of(tmp_path_factory.mktemp("pte") / "m.pte", stacked)


def test_a_folder_of_npz_files_is_read_in_the_order_of_names(digits, wanted, tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    for i in reversed(range(len(digits))):
        np.savez(folder / f"{i:03}.npz", in0=digits[i])
    assert bytes_of(tmp_path / "m.pte", folder) == wanted


def test_rows_without_the_batch_are_refused_with_a_hint(digits, tmp_path):
    np.savez(tmp_path / "rows.npz", in0=digits[:, 0])
    message = fails(*command(tmp_path / "m.pte", tmp_path / "rows.npz"))
    assert "f32[1, 8, 8] was given: the first axis, of 1, is missing (of n stacked samples, [n, 1, ...])" in message


def test_a_list_names_npy_files_beside_it_or_here(digits, wanted, tmp_path):
    lines = []
    for i, digit in enumerate(digits):
        np.save(tmp_path / f"{i}.npy", digit)
        lines.append([f"{i}.npy", str(tmp_path / f"{i}.npy"), os.path.relpath(tmp_path / f"{i}.npy")][i % 3])
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n\n")
    assert bytes_of(tmp_path / "m.pte", tmp_path / "list.txt") == wanted


# --- images ---

def png(pixels):
    """An RGB image as a PNG file, written by hand."""
    height, width, _ = pixels.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.fixture(scope="module")
def image_model(tmp_path_factory):
    torch = pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("model") / "image.pt2"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(model, (torch.zeros(1, 3, 16, 16),)), path)
    return path


def input_range(program, calib, model, *flags):
    """Of the model's input, by the encodings that the quantizer chose."""
    out = program.with_suffix(".json")
    bytes_of(program, calib, "--export-encodings", out, *flags, model=model)
    e = json.loads(out.read_text())["activation_encodings"][0]
    scale, offset = e["scale"][0], e["offset"][0]
    return scale * offset, scale * (offset + 255)


def test_images_are_cropped_and_brought_to_the_models_numbers(image_model, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    pixels = np.zeros((20, 24, 3), np.uint8)
    pixels[2:18, 4:20] = 100  # the middle: 16 x 16
    pixels[9, 9] = 51, 51, 204
    (folder / "a.png").write_bytes(png(pixels))
    low, high = input_range(tmp_path / "a.pte", folder, image_model, "--preprocess", "crop=16")
    assert low == pytest.approx(0, abs=1e-3) and high == pytest.approx(204 / 255, abs=0.01)
    low, high = input_range(tmp_path / "b.pte", folder, image_model, "--preprocess", "crop=16,mean=0.5:0.5:0.5,std=0.25:0.25:0.25")
    assert low == pytest.approx((0.2 - 0.5) / 0.25, abs=0.02) and high == pytest.approx((0.8 - 0.5) / 0.25, abs=0.02)


def test_images_are_resized_as_pillow_does(image_model, tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "images"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    jpeg = io.BytesIO()
    image.fromarray(pixels).save(jpeg, "JPEG", quality=95)
    (folder / "a.jpeg").write_bytes(jpeg.getvalue())
    small = np.asarray(image.open(jpeg).resize((21, 16), image.BILINEAR), np.float32)[:, 2:18] / 255
    low, high = input_range(tmp_path / "a.pte", folder, image_model, "--preprocess", "resize=16,crop=16")
    assert high == pytest.approx(small.max(), abs=0.02)


def test_bad_images_and_words_are_told(image_model, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.png").write_bytes(png(np.zeros((16, 16, 3), np.uint8))[:50])
    assert "a.png" in fails(*command(tmp_path / "m.pte", folder, model=image_model))
    (folder / "a.png").write_bytes(png(np.zeros((8, 8, 3), np.uint8)))
    said = fails(*command(tmp_path / "m.pte", folder, model=image_model))
    assert "8" in said and "16" in said and "a.png" in said
    said = fails(*command(tmp_path / "m.pte", folder, "--preprocess", "crop=16,size=3", model=image_model))
    assert "size" in said


# --- bad samples: told before anything is run ---

SAMPLE = np.load(TEST_SET)["in0"].shape[1:]


def zeros(n, last=8, dtype=np.float32):
    return np.zeros((n, *SAMPLE[:-1], last), dtype)


@pytest.mark.parametrize("arrays,words", [
    ({}, ["in0"]),
    ({"in0": zeros(0)}, ["no samples"]),
    ({"in0": zeros(4, 9)}, ["9", "8"]),
    ({"in0": zeros(4, dtype=np.int32)}, ["i32", "f32"]),
    ({"in0": zeros(4), "in1": np.zeros((4, 1), np.float32)}, ["2", "1"]),
    ({"in0": zeros(4), "in1": np.zeros((3, 1), np.float32)}, ["3", "4"]),
])
def test_samples_that_do_not_fit_are_told(arrays, words, tmp_path):
    np.savez(tmp_path / "bad.npz", **arrays)
    said = fails(*command(tmp_path / "m.pte", tmp_path / "bad.npz"))
    assert all(word in said for word in words), said
    assert not (tmp_path / "m.pte").exists()


def test_missing_and_mixed_samples_are_told(digits, tmp_path):
    assert "nowhere.npz" in fails(*command(tmp_path / "m.pte", tmp_path / "nowhere.npz"))
    (tmp_path / "empty").mkdir()
    assert "0 .npz files and 0 images" in fails(*command(tmp_path / "m.pte", tmp_path / "empty"))
    (tmp_path / "list.txt").write_text("gone.npy\n")
    said = fails(*command(tmp_path / "m.pte", tmp_path / "list.txt"))
    assert "gone.npy" in said and "list.txt:1" in said
    (tmp_path / "list.txt").write_text("\n")
    assert "no samples" in fails(*command(tmp_path / "m.pte", tmp_path / "list.txt"))


def test_numbers_that_no_range_covers_name_their_layer(digits, tmp_path):
    bad = digits.copy()
    bad[2].flat[5] = np.nan
    np.savez(tmp_path / "nan.npz", in0=bad)
    said = fails(*command(tmp_path / "m.pte", tmp_path / "nan.npz"))
    assert "NaN" in said and "row 2" in said
    torch = pytest.importorskip("torch")

    class Overflows(torch.nn.Module):
        def forward(self, x):
            return torch.exp(x * 1000) + x

    torch.export.save(torch.export.export(Overflows(), (torch.zeros(4),)), tmp_path / "m.pt2")
    np.savez(tmp_path / "s.npz", in0=np.array([[0, 0, 0, 0], [0, 1, 2, 3]], np.float32))
    said = fails(*command(tmp_path / "m.pte", tmp_path / "s.npz", model=tmp_path / "m.pt2"))
    assert "exp" in said and "infinity" in said and "row 1" in said


def test_a_sample_that_only_judges_and_fails_leaves_no_file(tmp_path):
    """Judging goes on while the model is lowered; the file appears when both are done."""
    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows, self.linear = torch.nn.Embedding(10, 8), torch.nn.Linear(8, 4)

        def forward(self, indices):
            return self.linear(self.rows(indices))

    model, indices = tmp_path / "m.pt2", np.arange(16 * 3, dtype=np.int64).reshape(16, 1, 3) % 10
    torch.export.save(torch.export.export(Rows().eval(), (torch.from_numpy(indices[0]),)), model)
    for last, ok in ((9, True), (10, False)):
        indices[15] = last
        np.savez(tmp_path / "s.npz", in0=indices)
        done = call(*command(tmp_path / "m.pte", tmp_path / "s.npz", model=model))
        assert (done.returncode == 0) == ok, done.stderr
        if not ok:
            assert "row 15 of" in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == ["m.pt2", *(["m.pte"] if ok else []), "s.npz"]
        (tmp_path / "m.pte").unlink(missing_ok=True)


@pytest.mark.parametrize("samples,words", [
    (lambda x: x * 0, ["input image (0)", "one number throughout the 6 samples"]),
    (lambda x: x * 0 + 7, ["input image (7)", "one number"]),
    (lambda x: x * np.float32(1e30), ["input image (0 to 1e+30)", "scaled"]),
    (lambda x: x * np.float32(1e-30), ["input image (0 to 1e-30)", "scaled"]),
])
def test_samples_that_show_nothing_are_told(samples, words, digits, tmp_path):
    np.savez(tmp_path / "odd.npz", in0=samples(digits))
    done = call(*command(tmp_path / "m.pte", tmp_path / "odd.npz", *FAST, "--json"))
    assert done.returncode == 0, done.stderr
    notes = json.loads(done.stdout)["methods"][0]["notes"]
    assert len(notes) == 1 and all(word in notes[0] for word in words), notes


def test_samples_like_any_are_told_of_nobody(stacked, tmp_path):
    done = call(*command(tmp_path / "m.pte", stacked, *FAST, "--json"))
    assert json.loads(done.stdout)["methods"][0]["notes"] == []


def test_constant_activations_still_have_a_grid(digits, tmp_path):
    np.savez(tmp_path / "zeros.npz", in0=np.zeros_like(digits))
    assert bytes_of(tmp_path / "m.pte", tmp_path / "zeros.npz")
    np.save(tmp_path / "x.npy", digits[0])
    done = call("run", tmp_path / "m.pte", "--engine", "emulator", "--input", tmp_path / "x.npy", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.isfinite(np.load(tmp_path / "output_0.npy")).all()


# --- recipes and encodings ---

@pytest.mark.parametrize("recipe,words", [
    ({"rules": [{"node": "nobody", "precision": "16a8w"}]}, ["node nobody"]),
    ({"rules": [{"module": "no.such", "precision": "16a8w"}]}, ["module no.such"]),
    ({"rules": [{"match": "(", "precision": "16a8w"}]}, ["regular expression"]),
    ({"rules": [{"op": "linear", "precision": "9a9w"}]}, ["9a9w"]),
    ({"rules": [{"op": "linear"}]}, ["changes nothing"]),
    ({"rules": [{"op": "linear", "node": "linear", "precision": "fp16"}]}, ["2 of op"]),
    ({"rules": [{"op": "linear", "precision": "8a8w"}, {"op": "aten.linear.default", "precision": "16a8w"}]}, ["contradicts itself"]),
    ({"rule": []}, ["rule"]),
])
def test_recipes_that_name_nothing_or_contradict_themselves_are_told(recipe, words, stacked, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(recipe))
    said = fails(*command(tmp_path / "m.pte", stacked, "--recipe", tmp_path / "r.json"))
    assert all(word in said for word in words), said


@pytest.mark.parametrize("field,value,words", [
    ("scale", [-1.0], "expected more than 0"),
    ("offset", [-300], "-300"),
    ("name", "nobody", "nobody"),
])
def test_encodings_out_of_range_are_told(field, value, words, stacked, tmp_path):
    bytes_of(tmp_path / "a.pte", stacked, "--export-encodings", tmp_path / "e.json")
    file = json.loads((tmp_path / "e.json").read_text())
    file["activation_encodings"][1][field] = value
    (tmp_path / "e.json").write_text(json.dumps(file))
    assert words in fails(*command(tmp_path / "m.pte", stacked, "--encodings", tmp_path / "e.json"))


# --- a search, and several processes ---

def test_precisions_are_searched_and_the_table_is_told(stacked, tmp_path):
    losses = []
    for loss in (0.05, 0.0001):
        done = call(*command(tmp_path / "m.pte", stacked, *FAST[:3], "--max-loss", loss, "--json", precision="auto"))
        assert done.returncode == 0, done.stderr
        search = json.loads(done.stdout)["methods"][0]["search"]
        assert search["loss"] <= loss
        assert {l["precision"] for l in search["layers"]} <= {"8a8w", "16a8w", "fp16"}
        assert search["predicted_us_all_8a8w"] <= search["predicted_us"] <= search["predicted_us_all_fp16"]
        losses.append(search["predicted_us"])
    assert losses[0] < losses[1]
    assert "--max-loss is 2" in fails(*command(tmp_path / "m.pte", stacked, "--max-loss", 2, precision="auto"))


def test_several_processes_give_the_same_bytes(digits, stacked, wanted, tmp_path):
    mpirun = shutil.which("mpirun")
    if not mpirun:
        pytest.skip("mpirun is not there: tools/install.sh test installs OpenMPI")
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def run(calib, *flags):
        text = [mpirun, "-n", "3", str(SIXFOLD), *(str(a) for a in command(tmp_path / "m.pte", calib, *flags))]
        return subprocess.run(text, capture_output=True, text=True, timeout=120, env=environment)

    done = run(stacked, *FAST)
    if "built without OpenMPI" in done.stderr:
        pytest.skip("this program was built before OpenMPI was there")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("wrote ") == 1
    assert (tmp_path / "m.pte").read_bytes() == wanted
    # Weights are rounded by what layers read in all samples.
    np.savez(tmp_path / "many.npz", in0=np.load(TEST_SET)["in0"][:24])
    words = command(tmp_path / "one.pte", tmp_path / "many.npz", "--rounding", "adaround")
    assert call(*words).returncode == 0 and run(tmp_path / "many.npz", "--rounding", "adaround").returncode == 0
    assert (tmp_path / "m.pte").read_bytes() == (tmp_path / "one.pte").read_bytes()
    (tmp_path / "m.pte").unlink()
    bad = digits.copy()
    bad[1].flat[0] = np.nan
    bad[4].flat[0] = np.nan
    np.savez(tmp_path / "nan.npz", in0=bad)
    done = run(tmp_path / "nan.npz", *FAST)
    assert done.returncode != 0 and "row 1" in done.stderr and "NaN" in done.stderr
    assert not (tmp_path / "m.pte").exists()
