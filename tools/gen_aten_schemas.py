#!/usr/bin/env python3
"""Write sixfold/ops/aten_schemas.inc: the schemas of every op that an exported model may call.

    python tools/gen_aten_schemas.py [OUT]

torch.export leaves out arguments that equal their default, and names in-place and aliasing arguments nowhere: both
stand in the op's schema only. Needs torch; torchao and executorch too, which register the ops of quantized graphs.
"""
import importlib
import pathlib
import re
import sys

import torch

# Importing these registers quantized_decomposed, torchao and dim_order_ops.
REGISTRARS = [
    "torch.ao.quantization.fx._decomposed",
    "torchao.quantization",
    "torchao.quantization.pt2e",
    "executorch.exir.passes._quant_patterns_and_replacements",
    "executorch.exir.passes.dim_order_ops_registry",
]
NAMESPACES = ("aten", "prims", "quantized_decomposed", "torchao", "dim_order_ops")

# Optimizers, storage layouts without a dense tensor, and kernels of one device: no exported graph has them.
LEFT_OUT = re.compile(
    r"^inductor_|^_?foreach_|^_amp_|^_fused_(adam|adagrad|sgd)|cudnn|miopen|mkldnn|cufft|_mps\b|^_?mps_|_for_mps|^_triton|^_cslt"
    r"|^_nested|nested_|jagged|sparse|^_coo|_csr|_csc|_bsr|_bsc|^_philox|^_test_|^_foobar|^_sobol|^_spdiags|^_spsolve"
    r"|^quantized_(gru|lstm|rnn)|^q_|^qscheme|^_make_per_|^_empty_.*quantized|^fbgemm|^_wrapped_|_dual(_copy)?$|^_fw_primal"
    r"|_batch_dim$|^record_stream|^retain|^_histogramdd|vulkan|^_propagate_xla|^set_?$|^set_data|^_coalesce|^coalesce"
    r"|^_?indices(_copy)?$|^_?values(_copy)?$|^c?c?r?row_indices|^c?col_indices|^_dim[IV]$|^_nnz|cutlass|swizzle|^mx_"
)
OPAQUE = re.compile(r"Dict\(|Storage|Stream|__torch__|\bAny\b|\bt\b|QScheme|RRef|Future")


def target_of(schema):
    namespace, name = schema.name.split("::")
    return f"{namespace}.{name}.{schema.overload_name or 'default'}"


def wanted(schema, dispatched):
    namespace, name = schema.name.split("::")
    full = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    if namespace not in NAMESPACES or full not in dispatched:
        return False
    if any(argument.is_out for argument in schema.arguments) or LEFT_OUT.search(name):
        return False
    signature = str(schema)
    return not OPAQUE.search(signature[signature.index("(") :])  # the name is no type: aten::t is an op


def main():
    for module in REGISTRARS:
        importlib.import_module(module)
    dispatched = set(torch._C._dispatch_get_all_op_names())
    rows = {}
    for schema in torch._C._jit_get_all_schemas():
        if wanted(schema, dispatched):
            text = str(schema)
            rows[target_of(schema)] = text[text.index("(") :]
    here = pathlib.Path(__file__).resolve().parent.parent
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "sixfold/ops/aten_schemas.inc"
    version = torch.__version__.split("+")[0]
    lines = [f"// Written by tools/gen_aten_schemas.py with torch {version}; sorted by target, bytewise."]
    for target in sorted(rows, key=str.encode):
        text = rows[target].replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{{"{target}", "{text}"}},')
    out.write_text("\n".join(lines) + "\n")
    print(f"{len(rows)} schemas, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
