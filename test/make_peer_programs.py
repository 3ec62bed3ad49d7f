"""Programs of ExecuTorch with what operator cases do not have: dynamic shapes, control flow, sizes that the data tells,
memory orders, buffers that change, several methods, numbers among inputs and outputs.

Each entry of PROGRAMS is a function that gives (ExecuTorch program, calls, results): inputs of each call, and what eager torch
gives for them, one after the other on one module.
"""
import copy

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import nn
from torch.export import Dim, export

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def lower(module, calls, dynamic=None, config=None):
    """The program for the shapes of the first call."""
    fresh = lambda call: tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in call)
    eager = copy.deepcopy(module.eval())
    with torch.no_grad():
        results = [eager(*fresh(call)) for call in calls]
    results = [r if isinstance(r, (tuple, list)) else (r,) for r in results]
    exported = export(module, fresh(calls[0]), dynamic_shapes=dynamic, strict=False)
    made = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return made.to_executorch(config or ExecutorchBackendConfig()), calls, results


class Net(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def rand(*shape):
    return torch.rand(*shape) * 2 - 1


@program
def dynamic_mlp():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1))
    n = Dim("n", min=1, max=10)
    return lower(net, [(rand(k, 8),) for k in (4, 1, 10, 10, 3)], ({0: n},))


@program
def dynamic_attention():
    torch.manual_seed(1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = self.qkv(x).reshape(b, n, 3, 4, 4).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, n, c)), n * 2

    n = Dim("n", min=2, max=12)
    return lower(Attention(), [(rand(1, k, 16),) for k in (5, 2, 12, 7)], ({1: n},))


@program
def dynamic_image():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 1), nn.AdaptiveAvgPool2d(1))
    h = Dim("h", min=4, max=16)
    return lower(net, [(rand(1, 3, k, 8),) for k in (8, 16, 32, 10)], ({2: 2 * h},))


@program
def dynamic_join():
    n = Dim("n", min=1, max=9)

    def f(x, y):
        z = torch.cat([x, y, x], 0)
        return z[1:], z.sum(0), z.flatten() * z.shape[0], torch.arange(z.shape[0])

    calls = [(rand(a, 4), rand(b, 4)) for a, b in ((3, 2), (1, 1), (9, 9), (4, 8))]
    return lower(Net(f), calls, (({0: n}, {0: Dim("m", min=1, max=9)}),))


@program
def branches():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: (x * 2, x + 1), lambda x: (x - 3, x.abs()), (x,))

    return lower(Net(f), [(torch.ones(2, 3),), (-torch.ones(2, 3),), (rand(2, 3),)])


@program
def loop():
    from functorch.experimental.control_flow import map as fmap

    def f(xs, y):
        return fmap(lambda x, y: torch.relu(x) @ y, xs, y)

    return lower(Net(f), [(rand(5, 2, 3), rand(3, 4)) for _ in range(3)])


@program
def chosen_by_mask():
    def f(x):
        return torch.masked_select(x, x > 0), torch.nonzero(x > 0.5), x[x < 0]

    return lower(Net(f), [(rand(4, 5),) for _ in range(4)] + [(torch.zeros(4, 5),)])


@program
def channels_last():
    torch.manual_seed(3)

    class Image(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 2, 3, stride=2)

        def forward(self, x):
            x = x.to(memory_format=torch.channels_last)
            x = torch.relu(self.a(x))
            return self.b(x + 1).contiguous(), x.mean((2, 3)), x

    return lower(Image(), [(rand(2, 3, 9, 7),) for _ in range(2)])


@program
def counter():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))
            self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

        def forward(self, x):
            self.total.add_(x)
            self.count.add_(1)
            return self.total * 1, self.count * 1

    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["total", "count"])])
    return lower(Counter(), [(rand(3),) for _ in range(4)], config=config)


@program
def cache():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kv", torch.zeros(1, 8, 4))

        def forward(self, x, at):
            self.kv.index_copy_(1, at, x)
            return self.kv.sum(1), self.kv @ x.transpose(1, 2)

    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["kv"])])
    return lower(Cache(), [(rand(1, 1, 4), torch.tensor([k])) for k in range(5)], config=config)


@program
def caller_memory():
    torch.manual_seed(4)
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False))
    return lower(Net(lambda x, y: (x + y, x @ y.T, x)), [(rand(3, 4), rand(3, 4)) for _ in range(2)], config=config)


@program
def numbers():
    return lower(Net(lambda x, n, s, b: (x * n + s, n + 1, x.shape[0])), [(rand(2, 2), 3, 0.5, True)])


@program
def several_methods():
    a = export(Net(lambda x: x + 1), (rand(2),))
    b = export(Net(lambda x: x * 2), (rand(3),))
    made = to_edge({"forward": a, "twice": b}, constant_methods={"answer": 42})
    x = rand(2)
    return made.to_executorch(), [(x,)], [(x + 1,)]


@program
def integers():
    def f(x, y):
        return x // y, x % y, x << 2, (x > y).any(1), torch.where(x > y, x, y), x.to(torch.float32) / y, x.argmax(1)

    call = lambda: (torch.randint(-50, 50, (4, 6)), torch.randint(1, 9, (4, 6)))
    return lower(Net(f), [call() for _ in range(2)])


@program
def empty_tensors():
    return lower(Net(lambda x, y: (x + 1, torch.cat([x, y]), x.sum(0))), [(rand(0, 3), rand(2, 3))])


@program
def unbounded_item():
    def f(x, n):
        k = n.item()
        torch._check(k >= 1)
        torch._check(k <= 6)
        return x[:k] * 2, torch.full((k,), 1.5)

    return lower(Net(f), [(rand(6, 2), torch.tensor(k)) for k in (3, 1, 6)])
