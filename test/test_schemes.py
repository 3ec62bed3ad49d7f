"""Precisions by name, by module and for single layers: who answers to which name, and what is told where the chip has not what was asked for.

The engine is ours: nothing here needs Qualcomm's libraries.
"""
import json

import numpy as np
import pytest
from conftest import call, fails

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # has the ops of quantized models


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(16, 32, 3, padding=1, bias=False), torch.nn.BatchNorm2d(32)
        self.point, self.fc = torch.nn.Conv2d(32, 32, 1), torch.nn.Linear(32, 8)

    def forward(self, x):
        x = torch.relu(self.point(torch.relu(self.bn(self.conv(x)))))
        return self.fc(x.mean((2, 3)))


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A folder with model.pt2 and calib.npz."""
    folder = tmp_path_factory.mktemp("net")
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Net().eval(), (torch.zeros(1, 16, 8, 8),)), folder / "model.pt2")
    np.savez(folder / "calib.npz", in0=np.random.default_rng(0).standard_normal((4, 1, 16, 8, 8), dtype=np.float32))
    return folder


def command(net, *flags, soc="SM8650"):
    return ["compile", net / "model.pt2", "-o", net / "m.pte", "--backend", "htp", "--soc", soc, "--calib", net / "calib.npz",
            "--rounding", "nearest", "--no-bias-correction", "--no-accuracy", *flags]


def made(net, *flags, **kwargs):
    """The report, and the bits of each weight's encodings by the node that reads it."""
    done = call(*command(net, *flags, "--export-encodings", net / "e.json", "--json", **kwargs))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["methods"][0], json.loads((net / "e.json").read_text())


def bits_of(encodings, kind):
    return sorted(e["bw"] for e in encodings[f"{kind}_encodings"])


@pytest.mark.parametrize("rule", [{"node": "conv2d"}, {"module": "conv"}, {"match": "^conv$"}, {"module": "bn"}, {"node": "batch_norm"}])
def test_a_convolution_answers_to_its_name_and_to_its_batch_norms(rule, net):
    (net / "r.json").write_text(json.dumps({"rules": [{**rule, "precision": "16a8w"}]}))
    report, encodings = made(net, "--precision", "8a8w", "--no-widen", "--recipe", net / "r.json")
    assert any("batch_norm" in c or "relu" in c or "conv2d" in c for c in report["converts"]), report["converts"]
    assert 16 in bits_of(encodings, "activation") and 8 in bits_of(encodings, "activation")


@pytest.mark.parametrize("name", ["conv", "conv2d", "bn", "batch_norm"])
def test_blocks_of_a_filter_with_taps_become_channels_and_that_is_told(name, net):
    report, encodings = made(net, "--precision", "16a4w_block", "--block-size", f"{name}=1,16,3,3")
    assert report["notes"] == ["weights in blocks need a filter of one tap [htp.conv.3]: batch_norm has a scale for each channel"]
    assert set(bits_of(encodings, "param")) == {4}
    said = fails(*command(net, "--precision", "16a4w_block", "--block-size", f"{name}=1,16,3,3", "--strict"))
    assert "htp.conv.3" in said and "--strict" in said


def test_blocks_where_the_chip_has_them_are_told_of_nobody(net):
    report, _ = made(net, "--precision", "16a4w_block", "--block-size", "point=1,16,1,1", "--block-size", "fc=1,16", "--strict")
    assert report["notes"] == []


@pytest.mark.parametrize("words,soc,flags", [
    ("htp.block.1", "SM8350", ["--precision", "16a4w_block", "--block-size", "point=1,16,1,1"]),
    ("does not divide", "SM8650", ["--precision", "16a4w_block", "--block-size", "point=1,5,1,1"]),
    ("names nobody", "SM8650", ["--precision", "16a4w_block", "--block-size", "nobody=1,16"]),
])
def test_what_the_chip_has_not_is_an_error_when_strict(words, soc, flags, net):
    assert words in fails(*command(net, *flags, "--strict", soc=soc))


class Product(torch.nn.Module):
    def forward(self, x, y):
        return x @ y


def test_products_of_16_bits_need_a_later_chip(tmp_path):
    x = (torch.zeros(1, 8, 8), torch.zeros(1, 8, 8))
    torch.export.save(torch.export.export(Product(), x), tmp_path / "model.pt2")
    rows = np.random.default_rng(0).standard_normal((4, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "calib.npz", in0=rows, in1=rows)
    report, _ = made(tmp_path, "--precision", "16a8w", soc="SM8450")
    assert any("htp.matmul.1" in note for note in report["notes"])
    assert "htp.matmul.1" in fails(*command(tmp_path, "--precision", "16a8w", "--strict", soc="SM8450"))
    assert made(tmp_path, "--precision", "16a8w", "--strict")[0]["notes"] == []


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.point = torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 1)
        self.deep, self.odd = torch.nn.Conv2d(16, 6, 3, groups=2), torch.nn.Conv2d(6, 8, 1)
        self.up, self.fc = torch.nn.ConvTranspose2d(8, 8, 2, stride=2), torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.up(self.odd(self.deep(self.point(self.wide(x)))))
        return self.fc(x.mean((2, 3)))


def test_weights_that_halves_are_not_multiplied_with_stay_float_on_the_npu(tmp_path):
    torch.manual_seed(0)
    x, model = torch.randn(1, 8, 8, 8), Halves().eval()
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    compiles = ["compile", tmp_path / "model.pt2", "-o", tmp_path / "m.pte", "--precision", "fp16a8w"]
    report = json.loads(call(*compiles, "--json").stdout)
    assert report["delegates"] == 1 and report["cpu_nodes"] == []
    told = " ".join(n for n in report["methods"][0]["notes"] if "stay float" in n)
    assert [name for name in ("conv2d", "conv2d_1", "conv2d_2", "conv2d_3", "conv_transpose2d", "linear") if
            any(name in n.rsplit(": ", 1)[1].split(", ") for n in report["methods"][0]["notes"])] == [
                "conv2d", "conv2d_2", "conv2d_3", "conv_transpose2d"], told
    assert "stay float" in fails(*compiles, "--strict")
    assert call("run", tmp_path / "m.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path).returncode == 0
    want, got = model(x).detach().numpy(), np.load(tmp_path / "output_0.npy")
    assert np.abs(want - got).max() < 0.01 * np.abs(want).max()


class Logarithms(torch.nn.Module):
    def forward(self, x):
        return torch.log(x + 0.01) - torch.log(x.flip(-1) + 0.01)


def test_a_model_that_is_noise_with_8_bits_computes_with_16_and_says_so(tmp_path):
    """Most inputs are far below a step of 8 bits, and the outputs are made of them."""
    torch.export.save(torch.export.export(Logarithms(), (torch.ones(1, 64),)), tmp_path / "model.pt2")
    rows = 10 ** np.random.default_rng(0).uniform(-2, 3, (16, 1, 64)).astype(np.float32)
    np.savez(tmp_path / "calib.npz", in0=rows)
    report, encodings = made(tmp_path, "--precision", "8a8w")
    assert any("mostly noise" in note for note in report["notes"]), report["accuracy"]
    assert report["accuracy"]["steps"][-1]["kept"]
    assert set(bits_of(encodings, "activation")) == {16}
    report, encodings = made(tmp_path, "--precision", "8a8w", "--no-widen")
    assert report["notes"] == [] and set(bits_of(encodings, "activation")) == {8}


class Powers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        linear, relu = torch.nn.Linear, torch.nn.ReLU()
        self.layers = torch.nn.Sequential(linear(64, 256), relu, linear(256, 64), relu, linear(64, 8))

    def forward(self, x):
        return torch.exp(4 * self.layers(x))


def test_16_bits_go_where_8_cost_most_and_the_note_says_how_much_longer_it_takes(tmp_path):
    """A few large outputs take their range, and what leads to them is told little better."""
    torch.export.save(torch.export.export(Powers(), (torch.ones(1, 64),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=3 * np.random.default_rng(0).standard_normal((16, 1, 64), dtype=np.float32))
    def compiled(*flags):
        done = call("compile", tmp_path / "model.pt2", "-o", tmp_path / "m.pte", "--backend", "htp", "--calib", tmp_path / "calib.npz",
                    "--export-encodings", tmp_path / "e.json", "--json", *flags)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["methods"][0], bits_of(json.loads((tmp_path / "e.json").read_text()), "activation")

    report, bits = compiled()
    step = {s["step"]: s for s in report["accuracy"]["steps"]}["16 bits where 8 cost most"]
    assert step["kept"] and step["after_db"] > step["before_db"] + 10, step
    assert 16 in bits
    note, = (n for n in report["notes"] if "these compute with 16" in n)
    assert 0 <= int(note.split("predicted to take ")[1].split(" %")[0]) <= 25, note
    assert f"with {len(report['converts'])} convert" in note, note
    names = note.rsplit(": ", 1)[1].split(", ")
    assert len(names) == len(set(names)), note
    report, bits = compiled("--no-widen")
    assert report["notes"] == [] and set(bits) == {8}


class Detector(torch.nn.Module):
    """Boxes in pixels and probabilities in one tensor, as detectors are exported."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.boxes, self.scores = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Conv2d(3, 6, 3, padding=1)

    def forward(self, x):
        return torch.cat([(100 * torch.relu(self.boxes(x)) + 200).flatten(2), torch.sigmoid(6 * self.scores(x) - 2).flatten(2)], 1)


def test_probabilities_beside_boxes_in_pixels_are_told(tmp_path):
    """All of them are less than a step of the grid that 8 bits would have for both."""
    model = Detector()
    torch.export.save(torch.export.export(model, (torch.ones(1, 3, 8, 8),)), tmp_path / "model.pt2")
    x = torch.randn(16, 1, 3, 8, 8)
    np.savez(tmp_path / "calib.npz", in0=x.numpy())
    np.save(tmp_path / "x.npy", x[3].numpy())
    def noise_of_scores(*flags):
        report = json.loads(call("compile", tmp_path / "model.pt2", "-o", tmp_path / "m.pte", "--backend", "htp", "--calib",
                                 tmp_path / "calib.npz", "--json", *flags).stdout)
        assert call("run", tmp_path / "m.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path).returncode == 0
        got, want = np.load(tmp_path / "output_0.npy")[:, 4:], model(x[3])[:, 4:].detach().numpy()
        return np.abs(got - want).max(), [n for n in report["methods"][0]["notes"] if "parts of an output" in n]

    error, notes = noise_of_scores()
    assert error < 0.05 and len(notes) == 1, (error, notes)
    error, notes = noise_of_scores("--no-widen")
    assert error > 0.3 and notes == []


class Loud(torch.nn.Module):
    """The power of sound in bands, as models of it begin; samples of 16 bits have powers of 1e12."""

    def __init__(self):
        super().__init__()
        angle = 2 * torch.pi * torch.outer(torch.arange(32), torch.arange(64)) / 64
        self.register_buffer("real", (angle.cos() * torch.hann_window(64))[:, None])
        self.register_buffer("imaginary", (angle.sin() * torch.hann_window(64))[:, None])
        self.register_buffer("bands", torch.nn.functional.relu(1 - (torch.arange(32)[:, None] / 3 - torch.arange(8)).abs()))

    def forward(self, x):
        a, b = (torch.nn.functional.conv1d(x, w, stride=32) for w in (self.real, self.imaginary))
        return torch.log10((a * a + b * b).transpose(1, 2) @ self.bands + 1)


@pytest.mark.parametrize("precision", ["8a8w", "16a8w"])
def test_logarithms_of_loud_sounds_are_scaled_and_compute_with_halves(precision, tmp_path):
    torch.export.save(torch.export.export(Loud(), (torch.ones(1, 1, 512),)), tmp_path / "model.pt2")
    rng = np.random.default_rng(0)
    time = np.arange(512)
    rows = [20000 * np.sin(time * 0.2 * (i + 1)) + 30 * rng.standard_normal(512) for i in range(16)]
    np.savez(tmp_path / "calib.npz", in0=np.array(rows, np.float32)[:, None, None])
    told = {}
    for flags in ((), ("--no-widen",)):
        done = call("compile", tmp_path / "model.pt2", "-o", tmp_path / "m.pte", "--backend", "htp", "--precision", precision, "--calib",
                    tmp_path / "calib.npz", "--json", *flags)
        assert done.returncode == 0, done.stderr
        told[flags] = json.loads(done.stdout)["methods"][0]
    assert any("1 logarithm has its operand scaled" in n for n in told[()]["notes"])
    assert not any("scaled by" in n for n in told[("--no-widen",)]["notes"])
    assert told[()]["accuracy"]["sqnr_db"] > told[("--no-widen",)]["accuracy"]["sqnr_db"] + 10


class Differences(torch.nn.Module):
    """Of what is nearly alike: rounding costs weights and activations as much as there is to tell."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(64, 16, bias=False)
        with torch.no_grad():
            self.fc.weight -= self.fc.weight.mean(1, keepdim=True)

    def forward(self, x):
        return self.fc(x)


def test_weights_that_are_yet_to_be_rounded_do_not_hide_what_16_bits_bring(tmp_path):
    torch.export.save(torch.export.export(Differences(), (torch.ones(1, 64),)), tmp_path / "model.pt2")
    rows = 10 + 0.02 * np.random.default_rng(0).standard_normal((16, 1, 64), dtype=np.float32)
    np.savez(tmp_path / "calib.npz", in0=rows)
    done = call("compile", tmp_path / "model.pt2", "-o", tmp_path / "m.pte", "--backend", "htp", "--calib", tmp_path / "calib.npz", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["methods"][0]
    steps = {s["step"]: s for s in report["accuracy"]["steps"]}
    assert not steps["16 bits everywhere"]["kept"] and steps["16 bits everywhere, weights not rounded"]["kept"], steps
    assert any("mostly noise" in note for note in report["notes"]) and report["accuracy"]["sqnr_db"] > 35, steps


def test_a_model_that_is_quantized_keeps_its_encodings_whatever_the_precision(tmp_path):
    """As convert_pt2e writes it: the grids of the file stay, and what has none gets the precision that is asked for."""

    class Quantized(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.free = torch.nn.Linear(16, 8), torch.nn.Linear(8, 4)

        def forward(self, x):
            q = torch.ops.quantized_decomposed
            x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.05, 100, 0, 255, torch.uint8), 0.05, 100, 0, 255, torch.uint8)
            y = self.fc(x)
            y = q.dequantize_per_tensor(q.quantize_per_tensor(y, 0.125, 7, 0, 255, torch.uint8), 0.125, 7, 0, 255, torch.uint8)
            return self.free(y)

    torch.manual_seed(0)
    torch.export.save(torch.export.export(Quantized().eval(), (torch.zeros(2, 16),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=np.random.default_rng(0).standard_normal((4, 2, 16), dtype=np.float32))
    for precision, bits in (("8a8w", 8), ("16a8w", 16)):
        report, encodings = made(tmp_path, "--precision", precision, "--no-widen")
        found = {(round(e["scale"][0], 6), e["offset"][0], e["bw"]) for e in encodings["activation_encodings"]}
        assert (0.05, -100, 8) in found and (0.125, -7, 8) in found, found
        assert any(e["bw"] == bits and round(e["scale"][0], 6) not in (0.05, 0.125) for e in encodings["activation_encodings"]), found


class Stored(torch.nn.Module):
    """As convert_pt2e writes it, with the integers of weight and bias in the file."""

    def __init__(self, bias):
        super().__init__()
        self.register_buffer("w", torch.randint(-127, 128, (8, 16), dtype=torch.int8))
        self.register_buffer("b", torch.full((8,), round(bias / 1e-7), dtype=torch.int32))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        grid = (1e-3, 100, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, *grid), *grid)
        w = q.dequantize_per_tensor(self.w, 1e-8, 0, -127, 127, torch.int8)
        b = q.dequantize_per_tensor(self.b, 1e-7, 0, -(2**31), 2**31 - 1, torch.int32)
        y = torch.nn.functional.linear(x, w, b)
        return q.dequantize_per_tensor(q.quantize_per_tensor(y, *grid), *grid)


@pytest.mark.parametrize("bias, reason", [(0.02, ""), (0.03, "beyond 32 bits in steps of operand times weight")])
def test_a_bias_in_the_file_stays_with_its_layer_and_is_never_cut(bias, reason, tmp_path):
    torch.manual_seed(0)
    x, model = torch.rand(2, 3, 16) * 0.1, Stored(bias).eval()
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    report = json.loads(call("compile", tmp_path / "model.pt2", "-o", tmp_path / "m.pte", "--json").stdout)
    assert [n["reason"] for n in report["cpu_nodes"]] == [] if not reason else reason in report["cpu_nodes"][0]["reason"]
    assert call("run", tmp_path / "m.pte", "--input", tmp_path / "x.npy", "--output-dir", tmp_path).returncode == 0
    assert np.abs(np.load(tmp_path / "output_0.npy") - model(x).numpy()).max() < 1.5e-3


class Mixed(Net):
    """With parts that have no name of their own: a folded batch norm, and what attention is made of."""

    def forward(self, x):
        x = torch.relu(self.point(torch.relu(self.bn(self.conv(x))))).flatten(2).transpose(1, 2)
        return self.fc(torch.nn.functional.scaled_dot_product_attention(x, x, x))


def older(encodings):
    """The same as AIMET 0.6.1 writes it."""
    def parts(e):
        return [{"bitwidth": e["bw"], "dtype": "int", "is_symmetric": str(e["is_sym"]), "scale": s, "offset": o,
                 "min": s * o, "max": s * (o + 2 ** e["bw"] - 1)} for s, o in zip(e["scale"], e["offset"])]
    kinds = ("activation_encodings", "param_encodings")
    return {"version": "0.6.1", **{k: {e["name"]: parts(e) for e in encodings[k]} for k in kinds}}


@pytest.mark.parametrize("precision", ["8a8w", "16a8w"])
def test_encodings_that_were_written_make_the_same_bytes_when_read(precision, tmp_path):
    torch.manual_seed(1)
    torch.export.save(torch.export.export(Mixed().eval(), (torch.zeros(1, 16, 8, 8),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=np.random.default_rng(0).standard_normal((16, 1, 16, 8, 8), dtype=np.float32))
    _, encodings = made(tmp_path, "--precision", precision)
    weights = [e["name"] for e in encodings["param_encodings"]]
    assert len(weights) == 3 and all(weights) and "point.weight" in weights, weights
    assert not any("convert" in e["name"] for e in encodings["activation_encodings"])
    program = (tmp_path / "m.pte").read_bytes()
    for n, form in enumerate((encodings, older(encodings))):
        (tmp_path / f"given{n}.json").write_text(json.dumps(form))
        _, again = made(tmp_path, "--precision", precision, "--encodings", tmp_path / f"given{n}.json")
        assert again == encodings and (tmp_path / "m.pte").read_bytes() == program


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(8, 16, batch_first=True), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


@pytest.mark.parametrize("precision", ["8a8w", "16a8w"])
def test_weights_that_all_steps_share_are_written_once(precision, tmp_path):
    torch.manual_seed(1)
    torch.export.save(torch.export.export(Recurrent().eval(), (torch.zeros(1, 6, 8),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=np.random.default_rng(0).standard_normal((16, 1, 6, 8), dtype=np.float32))
    _, encodings = made(tmp_path, "--precision", precision)
    for kind in ("activation_encodings", "param_encodings"):
        names = [e["name"] for e in encodings[kind]]
        assert len(names) == len(set(names)), names
    program = (tmp_path / "m.pte").read_bytes()
    (tmp_path / "given.json").write_text(json.dumps(encodings))
    _, again = made(tmp_path, "--precision", precision, "--encodings", tmp_path / "given.json")
    assert again == encodings and (tmp_path / "m.pte").read_bytes() == program


def test_scales_that_were_given_are_not_searched_again(tmp_path):
    torch.manual_seed(1)
    torch.export.save(torch.export.export(Net().eval(), (torch.zeros(1, 16, 8, 8),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=np.random.default_rng(0).standard_normal((16, 1, 16, 8, 8), dtype=np.float32))
    _, plain = made(tmp_path, "--precision", "16a8w")
    searching = ["--precision", "16a8w", "--search-scales"]
    _, found = made(tmp_path, *searching)
    assert found["param_encodings"] != plain["param_encodings"]
    (tmp_path / "given.json").write_text(json.dumps({k: v for k, v in plain.items() if k != "activation_encodings"}))
    assert made(tmp_path, *searching, "--encodings", tmp_path / "given.json")[1]["param_encodings"] == plain["param_encodings"]


def on_grid(x, scale, zero, wide=False):
    ops, high, dtype = torch.ops.quantized_decomposed, 65535 if wide else 255, torch.uint16 if wide else torch.uint8
    q = ops.quantize_per_tensor.default(x, scale, zero, 0, high, dtype)
    return ops.dequantize_per_tensor.default(q, scale, zero, 0, high, dtype)


class Rule(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f, self.linear = f, torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.f(self, x)


@pytest.mark.parametrize("rule,f", [
    ("htp.fixed.1]: sigmoid has u8 in steps of 0.01", lambda m, x: on_grid(torch.sigmoid(on_grid(x, 0.02, 128)), 0.01, 0)),
    ("htp.fixed.1]: tanh has u16", lambda m, x: on_grid(torch.tanh(on_grid(x, 1e-4, 32768, True)), 5e-5, 30000, True)),
    ("htp.dtype.1]: linear reads x requantized from u8 to u16", lambda m, x: on_grid(m.linear(on_grid(x, 0.02, 128)), 1e-4, 32768, True)),
    ("htp.matmul.2]: matmul reads mul requantized to i16",
     lambda m, x: on_grid(on_grid(x, 1e-4, 32768, True) @ on_grid(x.transpose(0, 1) * 2, 2e-4, 30000, True), 1e-3, 32768, True)),
])
def test_encodings_that_break_a_rule_of_the_device_are_told_and_are_errors_when_strict(rule, f, tmp_path):
    torch.export.save(torch.export.export(Rule(f).eval(), (torch.zeros(4, 16),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=np.random.default_rng(0).standard_normal((4, 4, 16), dtype=np.float32))
    notes = made(tmp_path, "--precision", "8a8w")[0]["notes"]
    assert len(notes) == 1 and rule in notes[0], notes
    said = fails(*command(tmp_path, "--precision", "8a8w", "--strict"))
    assert "--strict" in said and rule in said


def test_what_only_moves_elements_keeps_their_encoding(tmp_path):
    torch.export.save(torch.export.export(Rule(lambda m, x: torch.exp(torch.neg(x).reshape(16, 4))).eval(), (torch.zeros(4, 16),)),
                      tmp_path / "model.pt2")
    np.savez(tmp_path / "calib.npz", in0=np.random.default_rng(0).standard_normal((4, 4, 16), dtype=np.float32))
    _, encodings = made(tmp_path, "--precision", "8a8w", "--no-widen")
    moved = next(e for e in encodings["activation_encodings"] if e["name"] in ("view", "reshape"))
    moved["scale"] = [2 * moved["scale"][0]]
    (tmp_path / "given.json").write_text(json.dumps(encodings))
    flags = ["--precision", "8a8w", "--no-widen", "--encodings", tmp_path / "given.json"]
    assert any("htp.shared.1" in note for note in made(tmp_path, *flags)[0]["notes"])
    assert "htp.shared.1" in fails(*command(tmp_path, *flags, "--strict"))
