"""The command line: help, exit statuses, sentences for wrong calls, and no half-written output."""
import json
import os
import resource
import signal
import stat

import numpy as np
import pytest
from conftest import MODEL, TEST_SET, call, fails


@pytest.fixture
def run(image, tmp_path):
    """Runs the digits model on one digit with other arguments appended; the folder is where outputs would go."""
    return lambda *more: fails("run", MODEL, "--engine", "cpu", *more, "--output-dir", tmp_path / "out")


def test_help_names_the_commands():
    done = call("--help")
    assert done.returncode == 0
    for word in ("run", "show", "Usage"):
        assert word in done.stdout


@pytest.mark.parametrize("command", ["run", "show"])
def test_every_command_has_help(command):
    done = call(command, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout


def test_version_is_one_line():
    done = call("--version")
    assert done.returncode == 0
    assert len(done.stdout.strip().splitlines()) == 1


@pytest.mark.parametrize("args", [[], ["fly"], ["run"], ["show"], ["run", MODEL, "--engine", "warp"], ["run", MODEL, "--no-such-flag"]])
def test_wrong_calls_fail(args):
    done = call(*args)
    assert 0 < done.returncode < 126
    assert done.stderr.strip()


def test_run_writes_an_output_file_for_each_output(image, tmp_path):
    done = call("run", MODEL, "--engine", "cpu", "--input", image, "--output-dir", tmp_path / "new/out")
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (tmp_path / "new/out").iterdir()] == ["output_0.npy"]
    logits = np.load(tmp_path / "new/out/output_0.npy")
    assert logits.shape == (1, 10) and logits.dtype == np.float32
    assert logits.argmax() == np.load(TEST_SET)["labels"][0]


def test_an_npz_gives_one_row_for_each_call(tmp_path):
    out = tmp_path / "out.npz"
    done = call("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", out, "--rows", 5, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean_ms"] > 0
    assert np.load(out)["out0"].shape == (5, 1, 10)


def test_more_rows_than_there_are_means_all(tmp_path):
    out = tmp_path / "out.npz"
    assert call("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", out, "--rows", 100_000).returncode == 0
    assert len(np.load(out)["out0"]) == len(np.load(TEST_SET)["labels"])


def test_compressed_npz_files_are_read(tmp_path):
    np.savez_compressed(tmp_path / "in.npz", in0=np.load(TEST_SET)["in0"][:3])
    done = call("run", MODEL, "--engine", "cpu", "--npz", tmp_path / "in.npz", "--npz-out", tmp_path / "out.npz")
    assert done.returncode == 0, done.stderr
    assert len(np.load(tmp_path / "out.npz")["out0"]) == 3


def test_labels_give_the_accuracy_that_torch_had():
    done = call("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--labels", "labels")
    assert done.returncode == 0, done.stderr
    assert "98.06" in done.stdout


def test_the_thread_count_does_not_change_a_bit(image, tmp_path):
    made = []
    for threads in (1, 2, 3):
        done = call("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", tmp_path / "out.npz", "--threads", threads)
        assert done.returncode == 0, done.stderr
        made.append(np.load(tmp_path / "out.npz")["out0"].tobytes())
    assert made[0] == made[1] == made[2]


def test_same_input_gives_the_same_npz_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        assert call("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", tmp_path / name, "--rows", 4).returncode == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_wrong_input_counts_name_both_numbers(run, image):
    message = run("--input", image, "--input", image)
    assert "1" in message and "2" in message
    assert "0" in run()


def test_a_wrong_shape_names_both(run, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 9), np.float32))
    message = run("--input", tmp_path / "x.npy")
    assert "[1, 1, 8, 8]" in message and "[1, 1, 8, 9]" in message


@pytest.mark.parametrize("dtype,word", [(np.float64, "f64"), (np.int64, "i64"), (np.uint8, "u8"), (np.complex64, "c")])
def test_a_wrong_dtype_is_named(run, dtype, word, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), dtype))
    message = run("--input", tmp_path / "x.npy")
    assert word in message.lower()


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"no array", b"\x93NUMPY\x01\x00\xff\xff{"])
def test_an_input_that_is_no_npy_is_named(run, data, tmp_path):
    (tmp_path / "x.npy").write_bytes(data)
    assert "x.npy" in run("--input", tmp_path / "x.npy")


def test_an_input_shorter_than_its_header_says_is_refused(run, image, tmp_path):
    (tmp_path / "x.npy").write_bytes(image.read_bytes()[:-8])
    assert "x.npy" in run("--input", tmp_path / "x.npy")


def test_a_missing_input_file_is_named(run, tmp_path):
    assert "nothing.npy" in run("--input", tmp_path / "nothing.npy")


def test_an_npz_without_in0_is_refused(tmp_path):
    np.savez(tmp_path / "in.npz", x=np.zeros(3))
    message = fails("run", MODEL, "--engine", "cpu", "--npz", tmp_path / "in.npz", "--npz-out", tmp_path / "out.npz")
    assert "in0" in message
    assert not (tmp_path / "out.npz").exists()


def test_labels_that_are_not_there_are_named():
    assert "answers" in fails("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--labels", "answers")


def test_an_output_folder_that_cannot_be_made_is_named(image, tmp_path):
    (tmp_path / "file").write_text("in the way")
    message = fails("run", MODEL, "--engine", "cpu", "--input", image, "--output-dir", tmp_path / "file/out")
    assert "file/out" in message
    message = fails("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", tmp_path / "file/out.npz")
    assert "file/out.npz" in message


def allow_small_files_only():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write past the limit fails, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk_leaves_no_output(tmp_path):
    out = tmp_path / "out.npz"
    message = fails("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", out, preexec_fn=allow_small_files_only)
    assert "out.npz" in message
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    fails("run", MODEL, "--engine", "cpu", "--npz", TEST_SET, "--npz-out", pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_show_is_for_people_and_for_programs():
    text = call("show", MODEL)
    assert text.returncode == 0, text.stderr
    for word in ("conv", "image", "train_digits.py"):
        assert word in text.stdout
    tree = call("show", MODEL, "--json")
    assert tree.returncode == 0, tree.stderr
    assert isinstance(json.loads(tree.stdout), dict)
