#!/usr/bin/env python3
"""Write sixfold/load/out_variants.inc: what the kernels that a .pte may call compute, in terms of functional ATen ops.

    python tools/gen_out_variants.py [OUT]

A row is the kernel's name, the functional target, and the arguments in the order of the call:
    self,other,alpha,out!      '!' a result, '&' an operand that is also the result (in-place kernels),
                               '%' a dtype as a number, '~' an argument that says nothing about values (memory format, device, ...)
and after those, `dtype@`: not an argument of the kernel; the functional op takes the result's dtype for it.
Needs torch and executorch, which registers quantized_decomposed and dim_order_ops.
"""
import contextlib
import importlib
import importlib.metadata
import io
import logging
import pathlib
import re
import sys

import torch

REGISTRARS = [
    "torch.ao.quantization.fx._decomposed",
    "executorch.exir.passes._quant_patterns_and_replacements",
    "executorch.exir.passes.dim_order_ops_registry",
    "executorch.exir.passes",
    "executorch.kernels.quantized",
]
NAMESPACES = ("aten", "quantized_decomposed", "dim_order_ops", "et_copy")
IN_PLACE = {"aten::copy_": "aten.copy.default", "aten::index_put_": "aten.index_put.default"}
# Copies between devices, all of which are the CPU here.
SAME = {"et_copy::_h2d_copy.out": "aten.clone.default", "et_copy::_d2h_copy.out": "aten.clone.default"}
SILENT = {"layout", "device", "pin_memory", "memory_format", "generator", "non_blocking", "dim_order"}


def full_name(schema):
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


def arguments(schema, functional=None):
    out = []
    for a in schema.arguments:
        mark = ""
        if a.is_out:
            mark = "!"
        elif a.alias_info is not None and a.alias_info.is_write:
            mark = "&"
        elif a.name in SILENT:
            mark = "~"
        elif a.name.endswith("dtype"):
            mark = "%"
        out.append(a.name + mark)
    if functional is not None:
        have = {a.name for a in schema.arguments}
        if any(a.name == "dtype" for a in functional.arguments) and "dtype" not in have:
            out.append("dtype@")
    return ",".join(out)


def main():
    logging.disable(logging.WARNING)
    for module in REGISTRARS:
        importlib.import_module(module)
    from executorch.exir.operator.convert import to_out_variant

    here = pathlib.Path(__file__).resolve().parent.parent
    # Targets that a rule reads; a kernel without one is refused by name like any unknown kernel.
    known = set()
    for path in (here / "sixfold/ops").glob("*/aten*.cpp"):
        known.update(re.findall(r'"([a-z_]+\.[A-Za-z0-9_]+\.[A-Za-z0-9_]+)"', path.read_text()))
    dispatched = set(torch._C._dispatch_get_all_op_names())
    rows = {}
    schemas = {full_name(s): s for s in torch._C._jit_get_all_schemas()}
    for full, schema in schemas.items():
        namespace, name = schema.name.split("::")
        target = f"{namespace}.{name}.{schema.overload_name or 'default'}"
        if namespace not in NAMESPACES or full not in dispatched or target not in known or schema.is_mutable:
            continue
        if schema.name == "aten::copy" or target == "aten.arange.start":  # the latter is arange.start_step of step 1
            continue
        packet = getattr(getattr(torch.ops, namespace), name)
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                out, _ = to_out_variant(getattr(packet, schema.overload_name or "default"))
        except Exception:  # its search gives up on overloads of Python numbers: pow
            out = None
        for overload in (f"{schema.overload_name}_out", f"{schema.overload_name.capitalize()}_out"):
            out = out or getattr(packet, overload, None)
        if out is None:
            continue
        kernel = full_name(out._schema)
        if kernel in rows and rows[kernel][0] != target:
            print(f"{kernel} computes {rows[kernel][0]} and {target}", file=sys.stderr)
            continue
        rows[kernel] = (target, arguments(out._schema, schema))
    for kernel, target in {**IN_PLACE, "aten::copy.out": "aten.copy.default"}.items():
        rows[kernel] = (target, arguments(schemas[kernel]))
    for kernel, target in SAME.items():
        rows[kernel] = (target, "self,out!")
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "sixfold/load/out_variants.inc"
    lines = [
        f"// Written by tools/gen_out_variants.py with executorch {importlib.metadata.version('executorch')} and torch "
        f"{torch.__version__.split('+')[0]}; sorted by kernel, bytewise."
    ]
    for kernel in sorted(rows, key=str.encode):
        target, text = rows[kernel]
        lines.append(f'{{"{kernel}", "{target}", "{text}"}},')
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main()
