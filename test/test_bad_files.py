"""A .pt2 that is damaged, lies or was made to harm: one sentence and an exit status, never a crash, a hang or an output."""
import copy
import io
import json
import random
import struct
import zipfile

import pytest
from conftest import MODEL, call, fails

GRAPH = "digits/models/model.json"
WEIGHTS = "digits/data/weights/model_weights_config.json"


def members():
    with zipfile.ZipFile(MODEL) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, files, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=compression)
    return path


def refused(path):
    """Both readers of models refuse the file; run leaves no output behind."""
    out = path.parent / "out"
    fails("run", path, "--engine", "cpu", "--output-dir", out)
    assert not out.exists()
    return fails("show", path)


@pytest.fixture
def edit(tmp_path):
    """Writes the digits model with its graph changed by a function, and gives its path."""

    def make(change, member=GRAPH):
        files = members()
        tree = json.loads(files[member])
        change(tree)
        return write(tmp_path / "edited.pt2", {**files, member: json.dumps(tree).encode()})

    return make


def run_edited(path, image, tmp_path):
    return fails("run", path, "--engine", "cpu", "--input", image, "--output-dir", tmp_path / "out")


def test_a_zip_written_by_another_tool_runs(tmp_path, image):
    path = write(tmp_path / "plain.pt2", members())
    done = call("run", path, "--engine", "cpu", "--input", image, "--output-dir", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/output_0.npy").exists()


@pytest.mark.parametrize("make", ["missing", "directory", "empty", "text", "zip_without_model", "npz"])
def test_what_is_no_model_is_refused(make, tmp_path):
    path = tmp_path / "model.pt2"
    if make == "directory":
        path.mkdir()
    elif make == "empty":
        path.touch()
    elif make == "text":
        path.write_text("no zip at all\n" * 100)
    elif make == "zip_without_model":
        write(path, {"readme.txt": b"hello"})
    elif make == "npz":
        path.write_bytes((MODEL.parent / "digits_test.npz").read_bytes())
    assert "model.pt2" in refused(path)


def test_every_truncation_is_refused(tmp_path):
    whole = MODEL.read_bytes()
    path = tmp_path / "cut.pt2"
    rng = random.Random(0)
    sizes = [1, 4, 21, 22, len(whole) - 1, len(whole) - 22, *(rng.randrange(len(whole)) for _ in range(40))]
    for size in sizes:
        path.write_bytes(whole[:size])
        done = call("show", path, timeout=20)
        assert 0 < done.returncode < 126, f"cut at byte {size}: exit {done.returncode} {done.stderr}"
        assert len(done.stderr.strip().splitlines()) == 1, f"cut at byte {size}: {done.stderr}"


def test_flipped_bytes_never_crash(tmp_path, image):
    whole = MODEL.read_bytes()
    path, out = tmp_path / "flipped.pt2", tmp_path / "out"
    rng = random.Random(0)
    directory = whole.rindex(b"PK\x05\x06")
    places = [rng.randrange(len(whole)) for _ in range(80)] + [rng.randrange(directory - 4000, len(whole)) for _ in range(80)]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        done = call("run", path, "--engine", "cpu", "--input", image, "--output-dir", out, timeout=20)
        assert 0 <= done.returncode < 126, f"byte {place}: exit {done.returncode} {done.stderr}"


def test_a_flipped_byte_of_a_weight_is_found(tmp_path, image):
    whole = MODEL.read_bytes()
    with zipfile.ZipFile(MODEL) as archive:
        weights = [i for i in archive.infolist() if "/data/weights/" in i.filename and i.file_size > 8]  # 8: counters that nothing reads
        for info in weights:
            data = bytearray(whole)
            name_bytes, extra_bytes = struct.unpack_from("<HH", whole, info.header_offset + 26)
            data[info.header_offset + 30 + name_bytes + extra_bytes + info.file_size // 2] ^= 4
            path = tmp_path / "flipped.pt2"
            path.write_bytes(data)
            message = run_edited(path, image, tmp_path)
            assert "checksum" in message and info.filename in message
    assert len(weights) > 2


@pytest.mark.parametrize("key", ["graph_module", "graph_module.graph", "graph_module.graph.nodes", "graph_module.graph.tensor_values",
                                 "graph_module.graph.inputs", "graph_module.graph.outputs", "graph_module.signature", "schema_version"])
@pytest.mark.parametrize("value", ["absent", None, 7, "text", []])
def test_missing_or_wrong_typed_keys_are_refused(key, value, edit):
    *parents, last = key.split(".")

    def change(tree):
        for parent in parents:
            tree = tree[parent]
        if value == "absent":
            del tree[last]
        else:
            tree[last] = copy.copy(value)

    if value == [] and last in ("nodes", "inputs", "outputs"):
        change_list = change  # the right type, but the rest of the graph no longer fits
        refused(edit(change_list))
    else:
        refused(edit(change))


@pytest.mark.parametrize("major", [7, 9, 4_000_000_000])
def test_other_schema_versions_are_named(major, edit):
    message = refused(edit(lambda tree: tree["schema_version"].update(major=major)))
    assert "8" in message and str(major) in message


def test_a_node_with_an_unknown_input_is_named(edit):
    message = refused(edit(lambda tree: tree["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"]["as_tensor"].update(name="ghost")))
    assert "ghost" in message


def test_a_node_before_its_input_is_refused(edit):
    refused(edit(lambda tree: tree["graph_module"]["graph"]["nodes"].reverse()))


def test_two_values_of_one_name_are_refused(edit):
    def change(tree):
        nodes = tree["graph_module"]["graph"]["nodes"]
        nodes[1]["outputs"] = nodes[0]["outputs"]

    refused(edit(change))


def test_an_unknown_op_is_named(edit, image, tmp_path):
    path = edit(lambda tree: tree["graph_module"]["graph"]["nodes"][0].update(target="torch.ops.mylib.fancy.default"))
    assert "mylib.fancy" in run_edited(path, image, tmp_path)


@pytest.mark.parametrize("size", [-1, 2**31, 2**62, 2**63 - 1, 2**64, 1e300])
def test_absurd_sizes_are_refused(size, edit):
    def change(tree):
        tree["config"]["stem.0.weight"]["tensor_meta"]["sizes"] = [{"as_int": size}] * 4

    refused(edit(change, WEIGHTS))


def test_a_weight_shorter_than_its_shape_is_refused(tmp_path):
    files = members()
    files["digits/data/weights/weight_0"] = files["digits/data/weights/weight_0"][:100]
    message = refused(write(tmp_path / "short.pt2", files))
    assert "576" in message and "100" in message


def test_a_weight_that_is_not_there_is_refused(tmp_path):
    files = members()
    del files["digits/data/weights/weight_0"]
    assert "weight_0" in refused(write(tmp_path / "gone.pt2", files))


def test_strides_and_offset_outside_the_storage_are_refused(edit):
    def far(tree):
        tree["config"]["stem.0.weight"]["tensor_meta"]["storage_offset"] = {"as_int": 1_000_000}

    def wide(tree):
        tree["config"]["stem.0.weight"]["tensor_meta"]["strides"] = [{"as_int": 2**40}] * 4

    refused(edit(far, WEIGHTS))
    refused(edit(wide, WEIGHTS))


def test_a_shape_that_does_not_fit_the_ops_names_the_node(edit):
    def change(tree):
        tree["graph_module"]["graph"]["tensor_values"]["conv2d"]["sizes"][1] = {"as_int": 17}

    assert "conv2d" in refused(edit(change))


@pytest.mark.parametrize("opening,closing", [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [10_000, 1_000_000])
def test_deep_nesting_is_refused(opening, closing, depth, tmp_path):
    text = opening * depth + "1" + closing * depth
    refused(write(tmp_path / "deep.pt2", {**members(), GRAPH: text.encode()}))


def test_json_that_is_no_utf8_is_refused(tmp_path):
    refused(write(tmp_path / "utf8.pt2", {**members(), GRAPH: b'{"graph_module": "\xff\xfe\xff"}'}))


def test_a_zip_bomb_is_refused_without_being_unpacked(tmp_path):
    files = {**members(), GRAPH: b" " * 600_000_000}
    path = write(tmp_path / "bomb.pt2", files, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2_000_000
    command = ["run", path, "--engine", "cpu"]
    done = call(*command, timeout=20, preexec_fn=limit_memory)
    assert 0 < done.returncode < 126, done.stderr


def limit_memory():
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (400_000_000, 400_000_000))


def lies():
    """Zips whose directory does not tell the truth: (name, bytes)."""
    whole = MODEL.read_bytes()
    end, end64 = whole.rindex(b"PK\x05\x06"), whole.rindex(b"PK\x06\x06")  # torch writes both, and they agree
    start = struct.unpack_from("<I", whole, end + 16)[0]

    def patched(*edits):
        data = bytearray(whole)
        for offset, form, value in edits:
            struct.pack_into(form, data, offset, value)
        return bytes(data)

    yield "sizes past the end", patched((start + 20, "<I", 0x7FFFFFFF), (start + 24, "<I", 0x7FFFFFFF))
    yield "sizes of four gigabytes", patched((start + 20, "<I", 0xFFFFFFFE), (start + 24, "<I", 0xFFFFFFFE))
    yield "compressed smaller than said", patched((start + 20, "<I", 4))
    yield "member past the end", patched((start + 42, "<I", 0x7FFFFFFF))
    yield "member inside the directory", patched((start + 42, "<I", start))
    yield "unknown method", patched((start + 10, "<H", 99))
    yield "encrypted", patched((start + 8, "<H", 1))
    yield "name past the end", patched((start + 28, "<H", 0xFFFF))
    yield "directory past the end", patched((end + 16, "<I", 0x7FFFFFFF), (end64 + 48, "<Q", 2**62))
    yield "directory larger than the file", patched((end + 12, "<I", 0x7FFFFFFF), (end64 + 40, "<Q", 2**62))
    for name, count in (("no members", 0), ("too many members", 0xFFF0)):
        yield name, patched((end + 8, "<H", count), (end + 10, "<H", count), (end64 + 24, "<Q", count), (end64 + 32, "<Q", count))
    yield "bytes after the directory", whole + b"x" * 70_000


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in lies()])
def test_a_directory_that_lies_is_refused(data, tmp_path):
    path = tmp_path / "lie.pt2"
    path.write_bytes(data)
    refused(path)


def test_names_that_leave_the_archive_are_not_followed(tmp_path):
    def change(tree):
        tree["config"]["stem.0.weight"]["path_name"] = "../../../../../../etc/passwd"

    files = members()
    tree = json.loads(files[WEIGHTS])
    change(tree)
    refused(write(tmp_path / "escape.pt2", {**files, WEIGHTS: json.dumps(tree).encode()}))


def test_duplicate_members_are_no_crash(tmp_path):
    buffer = io.BytesIO(MODEL.read_bytes())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(zipfile.ZipInfo(GRAPH), b"{}")
    path = tmp_path / "twice.pt2"
    path.write_bytes(buffer.getvalue())
    done = call("show", path)
    assert 0 <= done.returncode < 126, done.stderr
