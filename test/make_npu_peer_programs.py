"""Programs for the NPU that ExecuTorch itself wrote, and what its runtime gives for them.

    make_npu_peer_programs.py OUT [--only REGEX] [--list]

writes OUT/<case>/model.pte with <method>.<call>.in_<i>.npy and, from ExecuTorch's own runtime and QNN delegate in a process
of its own, <method>.<call>.out_<i>.npy. Calls of a method follow each other on one loaded method, so that states show.
QNN_SDK_ROOT names a folder with lib/x86_64-linux-clang/libQnnHtp.so.
"""
import argparse
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import numpy as np
import torch

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def spec(soc="SM8650", fp16=True, htp=None, **options):
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import generate_htp_compiler_spec, generate_qnn_executorch_compiler_spec

    backend = generate_htp_compiler_spec(use_fp16=fp16, **(htp or {}))
    return generate_qnn_executorch_compiler_spec(soc_model=getattr(QcomChipset, soc), backend_options=backend, **options)


def lower(module, inputs, compiler_spec=None, config=None, **kwargs):
    from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn

    edge = to_edge_transform_and_lower_to_qnn(module, inputs, compiler_spec or spec(), **kwargs)
    return edge.to_executorch(config) if config else edge.to_executorch()


def quantized(module, inputs, dtype="use_8a8w", **kwargs):
    from executorch.backends.qualcomm.export_utils import make_quantizer
    from executorch.backends.qualcomm.quantizer.quantizer import QuantDtype
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    shapes = kwargs.pop("dynamic_shapes", None)
    exported = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=True).module()
    prepared = prepare_pt2e(exported, make_quantizer(quant_dtype=getattr(QuantDtype, dtype), soc_model="SM8650", **kwargs))
    prepared(*inputs)
    return convert_pt2e(prepared)


class Convs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.fc = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3), torch.nn.Linear(8 * 36, 5)

    def forward(self, x):
        y = torch.relu(self.a(x))
        y = torch.sigmoid(self.b(y))
        return self.fc(y.flatten(1))


IMAGE = (torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8),)


@case
def fp16_one():
    return lower(Convs().eval(), IMAGE), {"forward": [IMAGE]}


@case
def fp16_other_soc():
    return lower(Convs().eval(), IMAGE, spec("SM8550")), {"forward": [IMAGE]}


@case
def fp16_cut():
    return lower(Convs().eval(), IMAGE, skip_node_op_set={"aten.relu.default", "aten.sigmoid.default"}), {"forward": [IMAGE]}


@case
def q8_one():
    return lower(quantized(Convs().eval(), IMAGE), IMAGE, spec(fp16=False)), {"forward": [IMAGE]}


@case
def mobilenet_v2():
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "zoo"))
    import archs

    x = (torch.randn(1, 3, 224, 224),)
    return lower(quantized(archs.MobileNetV2().eval(), x), x, spec(fp16=False)), {"forward": [x]}


@case
def q8_cut():
    module = quantized(Convs().eval(), IMAGE)
    return lower(module, IMAGE, spec(fp16=False), skip_node_op_set={"aten.sigmoid.default"}), {"forward": [IMAGE]}


@case
def q16_cut():
    module = quantized(Convs().eval(), IMAGE, "use_16a8w")
    return lower(module, IMAGE, spec(fp16=False), skip_node_op_set={"aten.relu.default"}), {"forward": [IMAGE]}


@case
def q16a4w():
    return lower(quantized(Convs().eval(), IMAGE, "use_16a4w"), IMAGE, spec(fp16=False)), {"forward": [IMAGE]}


@case
def shared_weights():
    """Two methods, whose graphs share one context."""
    both = Convs().eval()
    half = torch.nn.Sequential(both.a, torch.nn.ReLU()).eval()
    one = spec(htp={"use_weight_sharing": True})
    program = lower({"whole": both, "half": half}, {"whole": IMAGE, "half": IMAGE}, {"whole": one, "half": one},
                    constant_methods={"version": 7, "rate": 0.5, "name": "x", "sizes": [1, 2, 3]})
    return program, {"whole": [IMAGE], "half": [IMAGE]}


@case
def methods_cut():
    """Two methods of three delegates each."""
    both, other = Convs().eval(), Convs().eval()
    program = lower({"first": both, "second": other}, {"first": IMAGE, "second": IMAGE}, skip_node_op_set={"aten.relu.default"})
    return program, {"first": [IMAGE], "second": [IMAGE]}


@case
def online():
    """The blob is a DLC."""
    return lower(Convs().eval(), IMAGE, spec(online_prepare=True)), {"forward": [IMAGE]}


@case
def online_q8_cut():
    module = quantized(Convs().eval(), IMAGE)
    return lower(module, IMAGE, spec(fp16=False, online_prepare=True), skip_node_op_set={"aten.sigmoid.default"}), {"forward": [IMAGE]}


@case
def intermediates():
    """Every tensor is an output of the graph."""
    return lower(Convs().eval(), IMAGE, spec(dump_intermediate_outputs=True)), {"forward": [IMAGE]}


@case
def intermediates_q8_cut():
    module = quantized(Convs().eval(), IMAGE)
    return (lower(module, IMAGE, spec(fp16=False, dump_intermediate_outputs=True), skip_node_op_set={"aten.sigmoid.default"}),
            {"forward": [IMAGE]})


@case
def profiled():
    return lower(Convs().eval(), IMAGE, spec(profile_level=2)), {"forward": [IMAGE]}


@case
def optrace():
    return lower(Convs().eval(), IMAGE, spec(profile_level=3)), {"forward": [IMAGE]}


@case
def options():
    return (lower(Convs().eval(), IMAGE, spec(htp={"use_dlbc": True}, shared_buffer=True, debug=True)),
            {"forward": [IMAGE]})


@case
def spill_fill():
    """use_multi_contexts: the compile spec carries the size of a buffer that contexts share."""
    from executorch.backends.qualcomm.utils.utils import to_edge_transform_and_lower_to_qnn, update_spill_fill_size

    edge = to_edge_transform_and_lower_to_qnn(Convs().eval(), IMAGE, spec(htp={"use_multi_contexts": True}),
                                              skip_node_op_set={"aten.relu.default"})
    update_spill_fill_size(edge.exported_program())
    return edge.to_executorch(), {"forward": [IMAGE]}


@case
def integers():
    """64-bit indices in and out, a truth value and a 32-bit integer out, an output that is an input."""

    class Lookup(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(10, 6)

        def forward(self, ids, small):
            rows = self.table(ids)
            return torch.argmax(rows, -1), rows > 0, small + 1, rows, ids

    inputs = (torch.tensor([[1, 4, 7]]), torch.tensor([[3, 5]], dtype=torch.int32))
    return lower(Lookup().eval(), inputs), {"forward": [inputs]}


@case
def many_inputs():
    """Twelve inputs, used out of their order; outputs in another order than they are made in."""

    class Sum(torch.nn.Module):
        def forward(self, *xs):
            s = xs[11] * 2 - xs[0]
            for i, x in enumerate(reversed(xs)):
                s = s + x * (i + 1)
            return s.abs(), xs[3] - s, s

    inputs = tuple(torch.full((2, 3), float(i)) + torch.arange(3) / 4 for i in range(12))
    return lower(Sum(), inputs), {"forward": [inputs]}


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 8, 4))
        self.register_buffer("sums", torch.ones(1, 4))

    def forward(self, x, at):
        self.keys.index_copy_(1, at, x)
        self.sums.add_(x[:, 0])
        return torch.relu(self.keys).sum(1) + self.sums


CACHE = [(torch.arange(4.0).reshape(1, 1, 4) + i, torch.tensor([i])) for i in range(3)]


@case
def state_inside():
    """Mutable buffers that live in the delegate."""
    return lower(Cache(), CACHE[0]), {"forward": CACHE}


@case
def state_outside():
    return lower(Cache(), CACHE[0], skip_mutable_buffer=True), {"forward": CACHE}


@case
def state_cut():
    return lower(Cache(), CACHE[0], skip_node_op_set={"aten.relu.default"}), {"forward": CACHE}


def quantized_io(shapes=None, dtype=torch.uint8, scheme="use_8a8w"):
    from executorch.backends.qualcomm._passes import TagQuantIO
    from executorch.backends.qualcomm._passes.build_quant_io import BuildQuantIo
    from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
    from executorch.backends.qualcomm.utils.constants import QCOM_PASS_ACTIVATE_KEY, QCOM_PASS_ARGS_KWARGS_DEFAULTS_KEY
    from executorch.exir.capture._config import ExecutorchBackendConfig

    class Add(torch.nn.Module):
        def forward(self, x, y):
            return torch.add(x, y)

    inputs = (torch.rand(1, 2, 3, 8), torch.rand(1, 2, 3, 8))
    module = quantized(Add(), inputs, scheme, dynamic_shapes=shapes)
    jobs = get_qnn_pass_manager_cls().get_capture_program_passes()
    jobs[TagQuantIO][QCOM_PASS_ACTIVATE_KEY] = True
    jobs[TagQuantIO][QCOM_PASS_ARGS_KWARGS_DEFAULTS_KEY]["get_quant_io_dtype_fn"] = (
        lambda n: dtype if any(name in n.name for name in ("x", "y", "add")) else None)
    return lower(module, inputs, spec(fp16=False), ExecutorchBackendConfig(passes=[BuildQuantIo()]), dynamic_shapes=shapes,
                 passes_job=jobs)


def integers_of(dtype, *shape):
    return torch.from_numpy((np.arange(np.prod(shape)) * 37 % 251).astype(dtype).reshape(shape))


@case
def bytes_in_and_out():
    call = (integers_of(np.uint8, 1, 2, 3, 8), integers_of(np.uint8, 1, 2, 3, 8))
    return quantized_io(), {"forward": [call]}


@case
def dynamic():
    """A size that changes between calls."""
    n = torch.export.Dim("n", min=1, max=8)
    calls = [(integers_of(np.uint16, 1, 2, 3, k), integers_of(np.uint16, 1, 2, 3, k)) for k in (8, 3, 1, 5)]
    return quantized_io({"x": {3: n}, "y": {3: n}}, torch.uint16, "use_16a16w"), {"forward": calls}


@case
def channels_last():
    """Inputs whose memory has another order."""
    x = (IMAGE[0].to(memory_format=torch.channels_last),)
    return lower(Convs().eval(), x), {"forward": [x]}


@case
def context_binary():
    """A binary that others made, wrapped: names of its tensors are theirs."""
    from executorch.backends.qualcomm.utils.utils import PyQnnManagerAdaptor, from_context_binary, to_edge_transform_and_lower_to_qnn
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset

    edge = to_edge_transform_and_lower_to_qnn(Convs().eval(), IMAGE, spec())
    binary = PyQnnManagerAdaptor.StripProtocol(edge.exported_program().graph_module._modules["lowered_module_0"].processed_bytes)
    bundle = from_context_binary(bytes(binary), "ctx_loader", soc_model=QcomChipset.SM8650)
    return bundle["edge_program_manager"].to_executorch(), {"forward": [tuple(torch.randn(t.shape) for t in bundle["inputs"].values())]}


@case
def heads():
    """use_mha2sha, and an output that is a constant."""

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))

        def forward(self, x):
            q, k, v = (f(x).view(1, 6, 4, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
            return torch.softmax(q @ k.transpose(2, 3) / 2, -1) @ v, torch.ones(2)

    x = (torch.randn(1, 6, 16),)
    return lower(Attention().eval(), x, spec(use_mha2sha=True)), {"forward": [x]}


RUN = """
import sys, pathlib, json, numpy as np, torch
from executorch.runtime import Runtime, Verification
for folder in map(pathlib.Path, sys.argv[1:]):
    program = Runtime.get().load_program(folder / "model.pte", verification=Verification.Minimal)
    calls = json.loads((folder / "calls.json").read_text())
    for name, count in calls.items():
        method = program.load_method(name)
        for n in range(count):
            inputs = []
            for i in range(1000):
                path = folder / f"{name}.{n}.in_{i}.npy"
                if not path.exists():
                    break
                x = torch.from_numpy(np.load(path))
                inputs.append(x)
            kinds = json.loads((folder / f"{name}.{n}.kinds.json").read_text())
            given, at = [], iter(inputs)
            for kind in kinds:
                x = None if kind == "none" else next(at) if isinstance(kind, str) else kind
                given.append(x.to(memory_format=torch.channels_last) if kind == "channels_last" else x)
            for i, out in enumerate(o for o in method.execute(given) if o is not None):
                np.save(folder / f"{name}.{n}.out_{i}.npy", out.detach().contiguous().numpy() if isinstance(out, torch.Tensor) else out)
"""


def write(folder, program, calls):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with open(folder / "model.pte", "wb") as file:
        program.write_to_file(file)
    for name, list_of_calls in calls.items():
        for n, inputs in enumerate(list_of_calls):
            kinds = ["none" if x is None else "channels_last" if x.ndim == 4 and not x.is_contiguous() else "tensor" for x in inputs]
            (folder / f"{name}.{n}.kinds.json").write_text(json.dumps(kinds))
            for i, x in enumerate(x for x in inputs if x is not None):
                np.save(folder / f"{name}.{n}.in_{i}.npy", x.contiguous().numpy())
    (folder / "calls.json").write_text(json.dumps({name: len(c) for name, c in calls.items()}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    chosen = [n for n in CASES if re.search(args.only, n)]
    if args.list:
        print("\n".join(chosen))
        return 0
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)  # Qualcomm's libraries write files where they are called
    bad = 0
    for name in chosen:
        torch.manual_seed(1)
        try:
            write(out / name, *CASES[name]())
        except Exception as error:
            print(f"{name}: not written: {type(error).__name__}: {str(error)[:300]}")
            bad += 1
            continue
        done = subprocess.run([sys.executable, "-c", RUN, out / name], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name}: ExecuTorch does not run it ({done.returncode}): {done.stderr[-300:]}")
            bad += 1
        print(f"{name}: written", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
