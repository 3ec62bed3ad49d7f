#!/usr/bin/env python3
"""Turn the sample inputs of torch's own operator table (torch.testing's op_db) into case folders, one call each.

    pip install torch==2.13.0 expecttest pytest
    python capture_opinfo_cases.py OUT [--only REGEX]

For each op and each of float32, int64, bool and float16 that it takes, up to three samples: tensors are inputs, the rest is baked in.
Kind `inplace` holds one float32 sample of each in-place form, applied to a copy of its first argument. Left out: higher-order ops,
complex or sparse values, shapes that depend on data, random or uninitialised results, and results that are one of several right
ones (signs of singular vectors, which of equal elements). REGEX is searched in "<kind>/<op>". See case_folder.py for the folder.
"""
import argparse, pathlib, re

from case_folder import Cases, OpCall, Refused, nodes, pytree, torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16)
SMALL = 4096  # elements of all tensors of a sample
NOT_ONE_ANSWER = re.compile(r"empty|svd|eig|pca_lowrank|lobpcg|resize_|^rand|^normal|^bernoulli|^multinomial|dropout|^__getitem__$|jiterator|^to_sparse|sparse|masked_select")
TIES = re.compile(r"^(topk|kthvalue|mode|median|nanmedian)$")  # for integers


def check(program):
    for node in nodes(program):
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise Refused("higher-order op")
        if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            raise Refused("random")
    for node in program.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.SymInt) or isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape):
                raise Refused("shape depends on data")
            if isinstance(value, torch.Tensor) and (value.is_complex() or value.layout != torch.strided):
                raise Refused("complex or sparse")


def choose(samples, count):
    """First, last and middle of the small ones: neighbours in these lists differ the least."""
    small = []
    for i, sample in enumerate(samples):  # to its end: a generator closed later, while export traces, would be traced
        if i > 80:
            continue
        tensors = [x for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(x, torch.Tensor)]
        if tensors and sum(t.numel() for t in tensors) <= SMALL and all(t.layout == torch.strided and not t.is_complex() for t in tensors):
            small.append(sample)
    return [small[i] for i in sorted({0, len(small) - 1, len(small) // 2} if count > 1 else {len(small) // 2})][:count] if small else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    cases = Cases(args.out, max_elements=200_000, seconds=60)
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if NOT_ONE_ANSWER.search(op.name):
            continue
        for kind, dtype in [(str(d)[6:], d) for d in DTYPES] + [("inplace", torch.float32)]:
            function = op.op
            if kind == "inplace":
                inplace = op.inplace_variant
                if inplace is None:
                    continue
                function = lambda x, *a, inplace=inplace, **k: inplace(x.clone(), *a, **k)
            if not re.search(args.only, f"{kind}/{name}") or not op.supports_dtype(dtype, "cpu"):
                continue
            if dtype in (torch.int64, torch.bool) and TIES.search(op.name):
                continue
            torch.manual_seed(0)
            try:
                samples = choose(op.sample_inputs("cpu", dtype, requires_grad=False), 1 if kind == "inplace" else 3)
            except Exception as error:
                cases._refuse(kind, name, "no samples", f"{type(error).__name__}: {error}"[:160])
                continue
            for sample in samples:
                if kind == "inplace" and getattr(sample, "broadcasts_input", False):
                    continue
                torch.manual_seed(0)
                call = OpCall(function, sample.input, *sample.args, **sample.kwargs)
                cases.add(kind, name, call, call.inputs, check=check)
    print(cases.close())


if __name__ == "__main__":
    main()
