#!/usr/bin/env python3
"""A quantized ONNX model on ONNX Runtime's QNN provider, with any libQnnHtp.so behind it; nothing may stay on the CPU.

    onnx_client.py LIBRARY OUT [--mobilenet] [--profile FILE]

writes OUT/model.onnx (static QDQ: u8 activations, s8 weights by channel), runs it, writes the context that the provider compiled
(OUT/context.onnx), runs that in a second session, and prints one JSON object: how far outputs are from ONNX Runtime's own CPU provider
in steps of the output encoding, and whether both sessions agree.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime.quantization as quantization
import onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config, qnn_preprocess_model


class Builder:
    def __init__(self):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(0)

    def constant(self, values):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def conv(self, x, channels, filters, size, stride=1, groups=1):
        fan_in = channels // groups * size * size
        w = self.random.normal(size=(filters, channels // groups, size, size)) * np.sqrt(2 / fan_in)
        b = self.random.normal(size=filters) * 0.1
        return self.add("Conv", x, self.constant(w), self.constant(b), kernel_shape=[size, size], strides=[stride, stride],
                        pads=[size // 2] * 4, group=groups)

    def relu6(self, x):
        return self.add("Clip", x, self.constant(0.0), self.constant(6.0))

    def classify(self, x, channels, classes):
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        w = self.random.normal(size=(classes, channels)) / np.sqrt(channels)
        return self.add("Gemm", x, self.constant(w), self.constant(np.zeros(classes)), transB=1)

    def save(self, path, shape, out, classes):
        graph = helper.make_graph(self.nodes, "client", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, classes])], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return shape


def small(path):
    b = Builder()
    stem = b.add("Relu", b.conv("x", 3, 16, 3, 2))
    x = b.relu6(b.conv(stem, 16, 16, 3, groups=16))
    x = b.add("Add", b.conv(x, 16, 16, 1), stem)
    x = b.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.add("Mul", b.add("Sigmoid", x), x)
    x = b.add("Softmax", b.classify(x, 16, 10), axis=1)
    return b.save(path, [1, 3, 32, 32], x, 10)


def mobilenet(path):
    b, channels = Builder(), 32
    x = b.relu6(b.conv("x", 3, 32, 3, 2))
    for expand, filters, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            inner, before, step = channels * expand, x, stride if i == 0 else 1
            if expand > 1:
                x = b.relu6(b.conv(x, channels, inner, 1))
            x = b.relu6(b.conv(x, inner, inner, 3, step, inner))
            x = b.conv(x, inner, filters, 1)
            x = b.add("Add", x, before) if step == 1 and channels == filters else x
            channels = filters
    return b.save(path, [1, 3, 224, 224], b.classify(b.relu6(b.conv(x, channels, 1280, 1)), 1280, 1000), 1000)


class Samples(quantization.CalibrationDataReader):
    def __init__(self, shape):
        random = np.random.default_rng(1)
        self.left = [{"x": random.normal(size=shape).astype(np.float32)} for _ in range(2)]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantize(folder, make):
    shape = make(folder / "float.onnx")
    changed = qnn_preprocess_model(str(folder / "float.onnx"), str(folder / "prepared.onnx"))
    source = str(folder / ("prepared.onnx" if changed else "float.onnx"))
    config = get_qnn_qdq_config(source, Samples(shape), activation_type=quantization.QuantType.QUInt8,
                                weight_type=quantization.QuantType.QInt8, per_channel=True)
    quantization.quantize(source, str(folder / "model.onnx"), config)
    return shape


def session(model, library, entries, options):
    device = [d for d in ort.get_ep_devices() if d.ep_name == "QNN"][:1]
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    for key, value in {"session.disable_cpu_ep_fallback": "1", **entries}.items():
        settings.add_session_config_entry(key, value)
    settings.add_provider_for_devices(device, {"backend_path": str(library), "soc_model": "57", "htp_arch": "75", **options})
    return ort.InferenceSession(str(model), settings)


def output_scale(model):
    """Of the encoding of the output: the last dequantize node's."""
    values = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    last = [n for n in model.graph.node if model.graph.output[0].name in n.output][0]
    return float(values[last.input[1]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--mobilenet", action="store_true")
    parser.add_argument("--profile", help="CSV of the provider's detailed events")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ort.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
    shape = quantize(args.out, mobilenet if args.mobilenet else small)
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    context = args.out / "context.onnx"
    context.unlink(missing_ok=True)
    library = args.library.resolve()
    cached = {"ep.context_enable": "1", "ep.context_file_path": str(context), "ep.context_embed_mode": "0"}
    profile = {"profiling_level": "detailed", "profiling_file_path": args.profile} if args.profile else {}
    first = session(args.out / "model.onnx", library, cached, profile).run(None, {"x": x})[0]
    second = session(context, library, {}, {}).run(None, {"x": x})[0]
    cpu = ort.InferenceSession(str(args.out / "model.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    scale = output_scale(onnx.load(args.out / "model.onnx"))
    np.save(args.out / "output.npy", first)
    print(json.dumps({"steps": float(np.abs(first - cpu).max() / scale), "same_from_context": bool(np.array_equal(first, second)),
                      "same_class": bool(first.argmax() == cpu.argmax()), "different": len(set(first.ravel().tolist()))}))


if __name__ == "__main__":
    sys.exit(main())
