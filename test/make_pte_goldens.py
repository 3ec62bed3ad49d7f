"""make_pte_goldens.py: ExecuTorch's own files in test/pte/, with their inputs and outputs inside the .bpte.

They are kept as they are: whatever reads a .pte must read these for ever. Run again only to add one.
"""

import sys
from pathlib import Path

import torch
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        a, b = torch.split(torch.nn.functional.gelu(self.fc(x)), [1, 2], 1)
        return torch.cat([b, a], 1), x.sum()


class Counter(torch.nn.Module):
    """A state with an initial value, a branch, and a size that changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.tensor([3.0, 4.0]))

    def forward(self, x):
        self.seen.add_(1)
        y = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
        return y.reshape(-1) + self.seen.sum(), self.seen * 1


class ConvNet(torch.nn.Module):
    """MobileNetV2 in small, with all of its kernels: a strided convolution, a pointwise one, a depthwise one, a
    residual, a mean, a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU6()
        )
        self.expand = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 1), torch.nn.ReLU6())
        self.depthwise = torch.nn.Sequential(torch.nn.Conv2d(32, 32, 3, 1, 1, groups=32), torch.nn.ReLU6())
        self.project = torch.nn.Conv2d(32, 16, 1)
        self.fc = torch.nn.Linear(16, 5)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.project(self.depthwise(self.expand(x)))
        return self.fc(torch.nn.functional.dropout(x.mean([2, 3]), 0.2, self.training))


class Rows(torch.nn.Module):
    """Any number of rows: convolution, products and a table, all of another size in each run."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 6, 3, padding=1)
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = torch.relu(self.fc(self.conv(x)))
        return torch.softmax(y @ y.transpose(1, 2), -1), torch.arange(x.shape[0]) * 2


def exported(module, *args, **options):
    torch.manual_seed(1)
    return torch.export.export(module.eval(), args, **options)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    mlp, x = Mlp(), torch.randn(2, 4)
    program = to_edge(exported(mlp, x)).to_executorch()
    (folder / "mlp.pte").write_bytes(program.buffer)

    suite = MethodTestSuite("forward", [MethodTestCase(inputs=[x], expected_outputs=list(mlp(x)))])
    bundle = BundledProgram(program, [suite])
    (folder / "mlp.bpte").write_bytes(serialize_from_bundled_program_to_flatbuffer(bundle))

    external = to_edge(exported(mlp, x)).to_executorch(ExecutorchBackendConfig(external_constants=True))
    (folder / "mlp_external.pte").write_bytes(external.buffer)
    external.write_tensor_data_to_file(str(folder))
    (folder / "_default_external_constant.ptd").rename(folder / "mlp_external.ptd")

    n = torch.export.Dim("n", min=2, max=6)
    counter = exported(Counter(), torch.ones(3, 2), dynamic_shapes=({0: n},))
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["seen"])])
    methods = to_edge({"forward": counter}, constant_methods={"get_n": 7, "get_name": "counter"})
    (folder / "counter.pte").write_bytes(methods.to_executorch(config).buffer)

    torch.manual_seed(2)
    conv = ConvNet().eval()
    conv.stem[1].running_mean += torch.rand(16)
    program = to_edge(exported(conv, torch.randn(1, 3, 12, 12))).to_executorch()
    (folder / "conv.pte").write_bytes(program.buffer)
    n = torch.export.Dim("n", min=2, max=6)
    program = to_edge(exported(Rows(), torch.randn(3, 4, 8), dynamic_shapes=({0: n},))).to_executorch()
    (folder / "rows.pte").write_bytes(program.buffer)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pte")
