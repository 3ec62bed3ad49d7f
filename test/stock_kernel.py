"""One kernel of ExecuTorch's stock runtime, called by a program of one instruction, so that what it takes can be tried."""
import executorch.exir.schema as S
import torch
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.operator.convert import to_out_variant
from executorch.exir.scalar_type import ScalarType
from executorch.runtime import Runtime

NUMBERS = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
           torch.float64: 7, torch.bool: 11, torch.bfloat16: 15}
ALIGNMENT = 64


def overload(target):
    namespace, name, form = target.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), form)


def out_variant(target):
    try:
        return to_out_variant(overload(target))[0]
    except Exception:  # its search gives up on overloads of Python numbers
        return overload(target + "_out")


class Program:
    def __init__(self):
        self.values, self.inputs, self.arena = [], [], 0

    def add(self, value):
        self.values.append(S.EValue(value))
        return len(self.values) - 1

    def tensor(self, t, at=None):
        if at is None:
            at, self.arena = self.arena, self.arena + -(-max(1, t.numel() * t.element_size()) // ALIGNMENT) * ALIGNMENT
        return self.add(S.Tensor(ScalarType(NUMBERS[t.dtype]), 0, list(t.shape), list(range(t.dim())), False, 0, 0,
                                 S.AllocationDetails(1, at, 0), S.TensorShapeDynamism.STATIC))

    def argument(self, value):
        if isinstance(value, torch.Tensor):
            self.inputs.append((self.tensor(value), value))
            return self.inputs[-1][0]
        if isinstance(value, (list, tuple)):
            return self.add(S.IntList([self.add(S.Int(v)) for v in value]))
        kinds = {type(None): lambda v: S.Null(), bool: S.Bool, int: S.Int, float: S.Double, str: S.String}
        return self.add(kinds[type(value)](value))


def run(target, args, onto=None):
    """The results of the kernel for these arguments; the first lies on tensor argument `onto`, where that is given."""
    program, kernel = Program(), out_variant(target)._schema
    wanted = overload(target)(*args)
    wanted = [wanted] if isinstance(wanted, torch.Tensor) else list(wanted)
    given = {a.name: v for a, v in zip(overload(target)._schema.arguments, args)}
    call, outs = [], []
    for a in kernel.arguments:
        if a.is_out:
            at = None
            if onto is not None and not outs:
                at = program.values[program.inputs[onto][0]].val.allocation_info.memory_offset_low
            outs.append(program.tensor(wanted[len(outs)], at))
            call.append(outs[-1])
        else:
            call.append(program.argument(given.get(a.name, a.default_value if a.has_default_value() else None)))
    call.append(outs[0] if len(outs) == 1 else program.add(S.TensorList(outs)))
    chain = S.Chain([], [], [S.Instruction(S.KernelCall(0, call))], None)
    plan = S.ExecutionPlan("forward", S.ContainerMetadata("", ""), program.values, [i for i, _ in program.inputs], outs, [chain],
                           [S.Operator(kernel.name, kernel.overload_name)], [], [0, program.arena])
    data = serialize_pte_binary(PTEFile(program=S.Program(0, [plan], [], [], [], S.SubsegmentOffsets(0, [0]))))
    method = Runtime.get().load_program(bytes(data)).load_method("forward")
    return method.execute([t.contiguous() for _, t in program.inputs]), wanted
