#!/usr/bin/env python3
"""Write sixfold/package/out_kernels.inc: the kernels of ExecuTorch's stock runtime, by the functional op that each computes.

    python tools/gen_out_kernels.py [OUT]

Asks the runtime of the executorch wheel which kernels it has, and torch's registry (through ExecuTorch's own search) for
the out-variant of every functional overload. A row is the functional target, the kernel's name and its schema.
"""
import contextlib
import importlib
import importlib.metadata
import io
import logging
import pathlib
import sys

import torch

REGISTRARS = ["executorch.exir.passes.dim_order_ops_registry", "executorch.exir.passes"]
NAMESPACES = ("aten", "dim_order_ops")


def stock_kernels():
    from executorch.runtime import Runtime

    return set(Runtime.get().operator_registry.operator_names)


def main():
    logging.disable(logging.WARNING)
    for module in REGISTRARS:
        importlib.import_module(module)
    from executorch.exir.operator.convert import to_out_variant

    kernels = stock_kernels()
    dispatched = set(torch._C._dispatch_get_all_op_names())
    rows, found = {}, set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, name = schema.name.split("::")
        full = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        if namespace not in NAMESPACES or full not in dispatched or schema.is_mutable:
            continue
        packet = getattr(getattr(torch.ops, namespace), name)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                out, _ = to_out_variant(getattr(packet, schema.overload_name or "default"))
        except Exception:  # its search gives up on overloads of Python numbers: pow
            out = getattr(packet, f"{schema.overload_name}_out", None)
        if out is None:
            continue
        kernel = out._schema.name + (f".{out._schema.overload_name}" if out._schema.overload_name else "")
        if kernel not in kernels:
            continue
        found.add(kernel)
        text = str(out._schema)
        rows[f"{namespace}.{name}.{schema.overload_name or 'default'}"] = (kernel, text[text.index("(") :])
    here = pathlib.Path(__file__).resolve().parent.parent
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "sixfold/package/out_kernels.inc"

    lines = [
        f"// Written by tools/gen_out_kernels.py with executorch {importlib.metadata.version('executorch')} and torch "
        f"{torch.__version__.split('+')[0]}; sorted by target, bytewise."
    ]
    for target in sorted(rows, key=str.encode):
        kernel, text = rows[target]
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{{"{target}", "{kernel}", "{text}"}},')
    out.write_text("\n".join(lines) + "\n")
    print(f"{len(rows)} rows; kernels without a functional op: {sorted(kernels - found)}")


if __name__ == "__main__":
    main()
