"""What sixfold/package relies on of ExecuTorch's kernels: those that it lets write over an operand may do so."""
import re

import pytest
import torch
from conftest import ROOT
from stock_kernel import overload, run

SOURCE = (ROOT / "sixfold/package/storage.cpp").read_text()
TARGETS = sorted(set(re.findall(r'"(aten\.[\w.]+)"', SOURCE.split("works_in_place(std")[1])))
MORE = {"aten.clamp.default": (0, 2), "aten.elu.default": (1.5, 1.1, 0.9), "aten.leaky_relu.default": (0.1,)}
DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32]  # kernels are templates: these are their branches


def sample(dtype, shape, seed):
    torch.manual_seed(seed)
    x = torch.randint(1, 6, shape)
    return x > 3 if dtype == torch.bool else (x.double() + 0.25 * dtype.is_floating_point).to(dtype)


def operands(target, dtype, shape, other):
    tensors = sum(str(a.type) == "Tensor" for a in overload(target)._schema.arguments)
    if tensors == 1:
        return [sample(dtype, shape, 0), *MORE.get(target, ())]
    args = [sample(dtype, shape, 0), sample(dtype, other, 1)]
    return [sample(torch.bool, shape, 2), *args] if tensors == 3 else args


def test_the_list_was_found():
    assert len(TARGETS) > 40


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_may_lie_on_an_operand(target):
    tried = 0
    for dtype in DTYPES:
        for shape, other in (((3, 257), (3, 257)), ((17, 64), (1, 64)), ((5, 3), (5, 1))):
            for swap in (False, True):
                args = operands(target, dtype, shape, other)
                if swap and len(args) > 1 and isinstance(args[-1], torch.Tensor):
                    args[-2:] = args[:-3:-1]
                try:
                    wanted = overload(target)(*args)
                except (RuntimeError, NotImplementedError):
                    continue  # torch has no such op either
                for i, x in enumerate(a for a in args if isinstance(a, torch.Tensor)):
                    if x.dtype != wanted.dtype or x.shape != wanted.shape:
                        continue
                    apart, _ = run(target, args)
                    onto, _ = run(target, args, onto=i)
                    assert torch.equal(apart[0].nan_to_num(), onto[0].nan_to_num()), f"{dtype} {shape} {other} on operand {i}"
                    tried += 1
    assert tried
