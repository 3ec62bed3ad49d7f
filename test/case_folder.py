"""Write one conformance case: the folder that the capture scripts make and the case runner reads.

    OUT/<kind>/<name>/model.pt2   torch.export.save of the module, before anything ran it (mutable buffers keep their first value)
                      in_<i>.npy  leaves of the inputs that are tensors or numbers, in pytree order (numbers are constants of the program)
                      out_<i>.npy eager outputs
                      case.json   test, index, kind, atol, rtol, quant, lower, ops

A case is refused, and counted by reason, when torch.export refuses the module, when .npy has no such dtype, when it is too
large, or when the exported program itself does not give the eager outputs: then there is no right answer to score.
"""
import collections, copy, hashlib, json, logging, pathlib, re, shutil, signal, sys, warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import numpy as np
import torch
from torch.utils import _pytree as pytree

torch.set_num_threads(1)
NPY = {torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
       torch.uint16, torch.uint32, torch.uint64, torch.bool}


FOREIGN = {"mlx", "mlx_test", "et_vk", "tosa", "arm", "cortex_m", "neutron", "coreml", "llama", "dim_order_ops"}


class Refused(Exception):
    pass


class Late(BaseException):  # not an Exception: code that retries on any exception must not catch it
    pass


def arrays(value):
    """Tensors and numbers of a pytree as numpy arrays; a copy, because a later in-place op may write into the tensor."""
    made = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, (bool, int, float)):
            leaf = torch.tensor(leaf)
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided or leaf.dtype not in NPY:
                raise Refused(f"{leaf.dtype if leaf.layout == torch.strided else leaf.layout} is not an npy type".replace("torch.", ""))
            made.append(leaf.detach().clone().contiguous().numpy())
    return made


def same(a, b):
    return len(a) == len(b) and all(x.shape == y.shape and x.dtype == y.dtype and np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True)
                                    for x, y in zip(a, b))


def nodes(program):
    """call_function nodes, those inside higher-order ops too"""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [x for g in graphs for x in g.nodes if x.op == "call_function"]


def fresh(value, layout=torch.preserve_format):
    """One tensor given twice would be exported as one input, and an op that writes its input must not spoil the next run."""
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(memory_format=layout), value)


class AsTuple(torch.nn.Module):
    """torch.return_types.median and its like have no name in the .pt2 format."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        return tuple(self.module(*args, **kwargs))


class OpCall(torch.nn.Module):
    """function(*args, **kwargs) as a module: tensors of the arguments are its inputs (`inputs`), the rest is baked in."""

    def __init__(self, function, *args, **kwargs):
        super().__init__()
        leaves, self.spec = pytree.tree_flatten((list(args), kwargs))
        self.function, self.fixed = function, [None if isinstance(x, torch.Tensor) else (x,) for x in leaves]
        self.inputs = tuple(x for x in leaves if isinstance(x, torch.Tensor))

    def forward(self, *inputs):
        given = iter(inputs)
        args, kwargs = pytree.tree_unflatten([next(given) if x is None else x[0] for x in self.fixed], self.spec)
        return self.function(*args, **kwargs)


class Cases:
    def __init__(self, out, max_elements=3_000_000, seconds=120):
        self.out, self.max_elements, self.seconds = pathlib.Path(out), max_elements, seconds
        self.seen, self.count, self.captured = set(), collections.Counter(), collections.Counter()
        self.refused, self.reasons = collections.Counter(), []

    def add(self, kind, test, module, inputs, kwargs=None, dynamic_shapes=None, more_inputs=(), atol=1e-5, rtol=1e-4,
            prepare=None, check=None, strict=False):
        """`more_inputs` are further inputs, usually of other sizes, for the same program: each becomes a case of its own.
        `prepare` maps the exported program to the one that is saved; `check` raises Refused for a program that is not wanted."""
        test = re.sub(r"[^A-Za-z0-9_.=-]+", "_", test).strip("_")[:150]
        old = signal.signal(signal.SIGPROF, self._late)  # processor time: the machine may be busy
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        try:
            self._add(kind, test, module, inputs, kwargs or {}, dynamic_shapes, more_inputs, atol, rtol, prepare, check, strict)
        except Refused as error:
            self._refuse(kind, test, str(error))
        except Late:
            self._refuse(kind, test, f"took more than {self.seconds} s")
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            self._refuse(kind, test, "not exportable", f"{type(error).__name__}: {text[0][:160]}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, old)
        if sys.stderr.isatty():
            print(f"\r{sum(self.captured.values())} cases", end="", file=sys.stderr, flush=True)

    def _late(self, *_):
        raise Late()

    def _refuse(self, kind, test, reason, detail=""):
        self.refused[reason] += 1
        self.reasons.append(f"{kind}/{test}: {reason} {detail}".rstrip())

    def _add(self, kind, test, module, inputs, kwargs, dynamic_shapes, more_inputs, atol, rtol, prepare, check, strict):
        args, kwargs = fresh(tuple(inputs)), fresh(kwargs)
        if sum(x.size for x in arrays((args, kwargs))) > self.max_elements:
            raise Refused("too large")
        if not isinstance(module, torch.fx.GraphModule):  # an exported module has no mode to set
            module.eval()
        # eager runs on a copy: it may write into buffers, which the program shares with the module
        eager = copy.deepcopy(module)
        with torch.no_grad():
            if type(copy.deepcopy(eager)(*fresh(args), **fresh(kwargs))).__module__ == "torch.return_types":
                module, eager = AsTuple(module), AsTuple(eager)
        program = torch.export.export(module, fresh(args), fresh(kwargs), dynamic_shapes=dynamic_shapes, strict=strict)
        if prepare:
            program = prepare(program)
            eager = program.module()
        for name in {str(x.target) for x in nodes(program)}:
            if name.split(".")[0] in FOREIGN:
                raise Refused("op of another backend")
        if check:
            check(program)
        wrote = None
        for a, k in [(args, kwargs), *((fresh(tuple(x)), {}) for x in more_inputs)]:
            feed = arrays((a, k))
            with torch.no_grad():
                want = arrays(copy.deepcopy(eager)(*fresh(a), **fresh(k)))
                a, k = fresh((a, k), torch.contiguous_format)  # as .npy files are: an op may look at strides
                if not same(want, arrays(copy.deepcopy(program).module()(*a, **k))):
                    raise Refused("eager is not what the exported program gives")
            if sum(x.size for x in want) > self.max_elements:
                raise Refused("too large")
            key = self._key(program, feed)
            if key in self.seen:
                self.refused["duplicate"] += 1
                continue
            self.seen.add(key)
            n = self.count[kind, test]
            self.count[kind, test] += 1
            wrote = self._write(self.out / kind / (test if n == 0 else f"{test}.{n}"), program, wrote, feed, want,
                                {"test": test, "index": n, "kind": kind, "atol": atol, "rtol": rtol, "quant": None, "lower": {},
                                 "ops": sorted({str(x.target) for x in nodes(program)})})
            self.captured[kind] += 1

    @staticmethod
    def _key(program, feed):
        key = hashlib.sha256(re.sub(r"#.*", "", str(program.graph_module.code)).encode())
        key.update(str([n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"]).encode())
        for t in [*program.state_dict.values(), *program.constants.values()]:
            if isinstance(t, torch.Tensor):
                key.update(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b"-")
        for x in feed:
            key.update(x.tobytes())
        return key.hexdigest()

    @staticmethod
    def _write(folder, program, wrote, feed, want, case):
        folder.mkdir(parents=True, exist_ok=True)
        if wrote:
            shutil.copy(wrote, folder / "model.pt2")
        else:
            torch.export.save(program, str(folder / "model.pt2"))
        for i, x in enumerate(feed):
            np.save(folder / f"in_{i}.npy", x)
        for i, x in enumerate(want):
            np.save(folder / f"out_{i}.npy", x)
        (folder / "case.json").write_text(json.dumps(case, indent=1))
        return folder / "model.pt2"

    def close(self):
        """The counts as one line; every refusal goes to OUT/refused.txt."""
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "refused.txt").write_text("\n".join(self.reasons) + "\n")
        kinds = ", ".join(f"{n} {k}" for k, n in sorted(self.captured.items()))
        refused = ", ".join(f"{n} {k}" for k, n in self.refused.most_common())
        return f"captured {sum(self.captured.values())} ({kinds}); left out {sum(self.refused.values())} ({refused})"
