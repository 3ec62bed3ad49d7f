#!/usr/bin/env python3
"""Turn the operator suites that ship inside the `executorch` wheel, other than Qualcomm's own, into case folders.

    pip install torch==2.13.0 executorch==1.5.1 pytest parameterized
    python capture_suite_cases.py OUT [--only REGEX]

The suites are imported and run with their entry point (tester, pipeline, lower-and-compare helper) replaced by one that keeps
the module and its inputs; nothing is lowered. Packages that a suite needs for lowering alone, and that are not installed, are
stood in for. REGEX is searched in "<kind>/<test>". case_folder.py says what a folder holds and when a case is left out.
"""
import argparse, importlib, importlib.abc, importlib.machinery, inspect, itertools, pathlib, re, sys, types, unittest, unittest.mock

import _pytest.outcomes
from case_folder import Cases, OpCall, torch




class Chain:
    """What an entry point returns: every attribute, call and item is the chain again, so that fluent tests run to their end."""

    def __init__(self, take_more=lambda inputs: None):
        self._take_more = take_more

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **kwargs):
        if isinstance(kwargs.get("inputs"), tuple):  # run_method_and_compare_outputs(inputs=...): maybe other sizes
            self._take_more(kwargs["inputs"])
        return self

    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Entry:
    """Stands for a tester or pipeline class: keeps (module, inputs, dynamic shapes) of each construction."""

    def __init__(self, take, third_is_shapes=False):
        self.take, self.third_is_shapes = take, third_is_shapes

    def __getitem__(self, _):  # Pipeline[input_type](...)
        return self

    def __or__(self, _):  # in annotations
        return self

    def __call__(self, *args, **kwargs):
        args = list(args)
        pick = lambda *names: next((kwargs[n] for n in names if n in kwargs), None) if any(n in kwargs for n in names) else args.pop(0)
        module = pick("module", "model")
        inputs = pick("example_inputs", "test_data", "inputs", "sample_inputs")
        shapes = kwargs.get("dynamic_shapes") or (args[0] if args and self.third_is_shapes else None)
        return Chain(self.take(module, inputs, shapes))


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of these names, and below them, exist: given attributes are themselves, any other is a MagicMock."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if any(name == n or name.startswith(n + ".") for n in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        given = self.names.get(spec.name, {})
        default = given.get("*", lambda: unittest.mock.MagicMock())

        def get(name):
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(name)
            setattr(module, name, default())
            return getattr(module, name)

        module.__getattr__ = get
        for name, value in given.items():
            setattr(module, name, value)
        return module

    def exec_module(self, module):
        pass


class Suites:
    def __init__(self, out, only):
        self.cases, self.only, self.at, self.errors = Cases(out), only, None, []

    # -- keeping
    def take(self, module, inputs, dynamic_shapes=None, more_inputs=()):
        kind, test = self.at
        inputs = inputs if isinstance(inputs, tuple) else tuple(inputs)
        self.cases.add(kind, test, module, inputs, dynamic_shapes=dynamic_shapes, more_inputs=more_inputs)
        if dynamic_shapes is None:
            return lambda more: None
        return lambda more: self.cases.add(kind, test, module, inputs, dynamic_shapes=dynamic_shapes, more_inputs=[more])

    def run(self, kind, test, function):
        if not re.search(self.only, f"{kind}/{test}"):
            return
        self.at = (kind, test)
        torch.manual_seed(0)
        try:
            function()
        except (unittest.SkipTest, _pytest.outcomes.OutcomeException):
            pass
        except Exception as error:
            self.errors.append(f"{kind}/{test}: {type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}")

    # -- finding tests
    def modules(self, package):
        import executorch

        root = pathlib.Path(list(executorch.__path__)[0])
        for path in sorted((root / package).glob("test_*.py")):
            try:
                yield importlib.import_module("executorch." + str(path.relative_to(root).with_suffix("")).replace("/", "."))
            except (Exception, SystemExit) as error:
                self.errors.append(f"{package}/{path.name}: {type(error).__name__}: {str(error)[:160]}")

    def run_package(self, kind, package, skip=r"$^", given=lambda name: unittest.mock.MagicMock()):
        for module in self.modules(package):
            self.run_module(kind, module, skip, given)

    def run_module(self, kind, module, skip=r"$^", given=lambda name: unittest.mock.MagicMock()):
        short = module.__name__.rsplit(".", 1)[-1].removeprefix("test_")
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
                for test in unittest.TestLoader().getTestCaseNames(value):
                    if not re.search(skip, test):
                        self.run(kind, f"{short}.{test.removeprefix('test_')}", lambda: self.unit(value(test), test))
            elif name.startswith("test_") and inspect.isfunction(value) and not re.search(skip, name):
                for ids, arguments in self.parameters(value, given, vars(module)):
                    self.run(kind, ".".join([short, name.removeprefix("test_"), *ids]), lambda: value(**arguments))
            elif name.startswith("Test") and isinstance(value, type) and value.__module__ == module.__name__:
                for test in [t for t in dir(value) if t.startswith("test") and not re.search(skip, t)]:
                    for ids, arguments in self.parameters(getattr(value, test), given, {**vars(module), **vars(value)}):
                        arguments["self"] = value()
                        self.run(kind, ".".join([short, test.removeprefix("test").strip("_"), *ids]), lambda: getattr(value, test)(**arguments))

    @staticmethod
    def unit(case, test):
        case.setUp()
        getattr(case, test)()

    @staticmethod
    def parameters(function, given, fixtures):
        """The product of a function's pytest parametrize marks and of the parameters of the fixtures that it asks for."""
        axes = []
        for mark in getattr(function, "pytestmark", []):
            if mark.name == "parametrize":
                names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
                rows = []
                for i, row in enumerate(mark.args[1]):
                    values = row.values if hasattr(row, "marks") else tuple(row) if len(names) > 1 else (row,)
                    rows.append((str(getattr(row, "id", None) or i), dict(zip(names, values))))
                axes.append(rows)
        asked = inspect.signature(function).parameters
        for name in asked:
            values = getattr(getattr(fixtures.get(name), "_fixture_function_marker", None), "params", None)
            if values:
                axes.append([(str(v), {name: v}) for v in values])
        for combination in itertools.product(*reversed(axes)):
            arguments = {k: v for _, row in combination for k, v in row.items()}
            arguments.update({n: given(n) for n, p in asked.items() if n not in arguments and p.default is p.empty})
            yield [i for i, _ in combination], arguments


def portable(s):
    """backends/test/suite/operators: tests take a runner and, some, a dtype; the suite's own list has float32 alone switched on."""
    from executorch.backends.test.suite import operators

    runner = types.SimpleNamespace(_flow=types.SimpleNamespace(quantize=False, name="case", backend="case"),
                                   lower_and_run_model=lambda model, inputs, generate_random_test_inputs=True, dynamic_shapes=None:
                                       s.take(model, inputs, dynamic_shapes))
    for module in s.modules("backends/test/suite/operators"):
        for name, value in list(vars(module).items()):
            if not name.startswith("test_") or not inspect.isfunction(value):
                continue
            if "dtype" in inspect.signature(value).parameters:
                for dtype in operators.FLOAT_DTYPES:
                    s.run("portable", f"{name.removeprefix('test_')}.{str(dtype)[6:]}", lambda: value(runner, dtype))
            else:
                s.run("portable", name.removeprefix("test_"), lambda: value(runner))


def xnnpack(s):
    from executorch.backends.xnnpack.test import tester

    tester.Tester = Entry(s.take, third_is_shapes=True)
    s.run_package("xnnpack", "backends/xnnpack/test/ops")


def arm(s):
    """Pipelines for other targets than TOSA repeat the same modules."""
    entry = lambda: Entry(s.take)
    sys.meta_path.insert(0, StandIns({"tosa_serializer": {}, "tosa": {}, "ethosu": {}, "conftest": {},
                                      "executorch.backends.arm.test.tester.test_pipeline": {"*": entry},
                                      "executorch.backends.arm.test.tester.arm_tester": {"ArmTester": entry()},
                                      "executorch.backends.arm.test.runner_utils": {}}))
    s.run_package("arm", "backends/arm/test/ops", skip=r"_u[568]5_|_vgf_")


def cortex_m(s):
    from executorch.backends.cortex_m.test import tester  # stand-ins of arm() serve it too

    tester.CortexMTester = Entry(s.take)

    def row(case):
        case = case() if callable(case) else case
        inputs = case.get_example_inputs() if hasattr(case, "get_example_inputs") else case.example_inputs
        s.take(case.model, inputs() if callable(inputs) else inputs)

    for module in s.modules("backends/cortex_m/test/ops"):
        for name, value in list(vars(module).items()):
            if isinstance(value, dict) and name.startswith("test_cases"):
                for test, case in value.items():
                    s.run("cortex_m", f"{module.__name__.rsplit('_', 1)[-1]}.{name}.{test}", lambda: row(case))


def samsung(s):
    sys.meta_path.insert(0, StandIns({"executorch.backends.samsung.python": {}, "executorch.backends.samsung.serialization": {},
                                      "executorch.backends.samsung.quantizer": {}, "executorch.backends.samsung.test.utils": {},
                                      "executorch.backends.samsung.test.tester": {"SamsungTester": Entry(s.take)}}))
    s.run_package("samsung", "backends/samsung/test/ops")


def openvino(s):
    sys.meta_path.insert(0, StandIns({"openvino": {}, "nncf": {}}))
    from executorch.backends.openvino.tests.ops import base_openvino_op_test as base

    base.BaseOpenvinoOpTest.execute_layer_test = lambda self, module, sample_inputs, *_, **__: s.take(module, sample_inputs)
    s.run_package("openvino", "backends/openvino/tests/ops")


def vulkan(s):
    from executorch.backends.vulkan.test import test_vulkan_delegate as suite

    def lower(self, model, sample_inputs, *_, dynamic_shapes=None, test_inputs=None, **__):
        s.take(model, sample_inputs, dynamic_shapes, test_inputs or () if dynamic_shapes else ())

    suite.TestVulkanBackend.lower_module_and_test_output = lower
    suite.lower_module = lambda model, sample_inputs, dynamic_shapes=None: s.take(model, sample_inputs, dynamic_shapes) and Chain()
    suite.quantize_and_lower_module = lambda model, sample_inputs, *_, dynamic_shapes=None: suite.lower_module(model, sample_inputs, dynamic_shapes)
    s.run_module("vulkan", suite)


def vulkan_table(s):
    """backends/vulkan/test/op_tests/cases.py: an ATen op and rows of its arguments, where a shape stands for a tensor."""
    from executorch.backends.vulkan.test.op_tests.cases import test_suites

    dtypes = {"at::kFloat": torch.float32, "at::kHalf": torch.float16, "at::kInt": torch.int32, "at::kLong": torch.int64,
              "at::kBool": torch.bool, "at::kChar": torch.int8, "at::kByte": torch.uint8}

    def tensor(suite, arg, shape, dtype, listed=False):
        if arg in ("index", "indices") and arg not in suite.arg_data_gen_fn and not listed:
            return torch.tensor(shape, dtype=torch.int64)  # the row has the indices themselves
        shape = (shape,) if isinstance(shape, int) else shape
        dtype = dtypes[suite.arg_dtype[arg]] if arg in suite.arg_dtype else dtype
        make = suite.arg_data_gen_fn.get(arg, suite.data_gen)
        low, high = suite.arg_data_range.get(arg, suite.data_range)
        if make == "make_seq_tensor":
            return (torch.arange(torch.Size(shape).numel()) + 1).reshape(shape).to(dtype)
        if make == "make_casted_randint_tensor" or dtype in (torch.int32, torch.int64, torch.int8):
            return torch.randint(1, 20, shape).to(dtype)
        return torch.rand(shape) > 0.5 if dtype is torch.bool else (torch.rand(shape) * (high - low) + low).to(dtype)

    def row(op, suite, values, dtype):
        given = {}
        for arg, value in zip(op._schema.arguments, values):
            kind = str(arg.type)
            if kind in ("Tensor", "Optional[Tensor]") and value is not None:
                value = tensor(suite, arg.name, value, dtype)
            elif kind in ("List[Tensor]", "List[Optional[Tensor]]"):
                value = [None if v is None else tensor(suite, arg.name, v, dtype, listed=True) for v in value]
            elif re.search(r"List\[int\]", kind) and isinstance(value, int):
                value = [value]
            elif re.search(r"Layout|Device|layout|device|dtype|memory_format|pin_memory", f"{kind} {arg.name}") or isinstance(value, str):
                continue  # the generator leaves these to their defaults
            given[arg.name] = (arg.kwarg_only, value)
        call = OpCall(op, *(v for k, v in given.values() if not k), **{n: v for n, (k, v) in given.items() if k})
        s.take(call, call.inputs)

    for name, table in test_suites.items():
        op = torch.ops
        for part in name.split("."):
            op = getattr(op, part)
        for suite in table if isinstance(table, list) else [table]:
            for dtype in suite.dtypes:
                for values in suite.input_cases:
                    s.run("vulkan_table", f"{name}.{dtype[5:].lower()}", lambda: row(op, suite, values, dtypes[dtype]))


def webgpu(s):
    """backends/webgpu/test/op_tests: a module factory and rows of its arguments and inputs."""
    from executorch.backends.webgpu.test.op_tests import generate_op_tests as made

    def row(suite, case):
        build = lambda specs: (torch.manual_seed(0), tuple(made._materialize(x) for x in specs))[1]
        module = suite.module_factory(**case.construct)
        inputs = build(case.inputs)
        if case.export_inputs is None:
            s.take(module, inputs, case.dynamic_shapes)
        else:
            s.take(module, build(case.export_inputs), case.dynamic_shapes, [inputs])

    for name, suite in made.op_test_registry.items():
        for i, case in enumerate(suite.cases):
            if not case.heavy:
                s.run("webgpu", f"{name}.{case.name or i}", lambda: row(suite, case))


def mlx(s):
    sys.meta_path.insert(0, StandIns({"executorch.backends.mlx.serialization": {}, "executorch.backends.mlx.partitioner": {},
                                      "executorch.backends.mlx.preprocess": {}, "executorch.backends.mlx.ops": {},
                                      "executorch.backends.mlx.builder": {}, "executorch.backends.mlx._generated": {}, "torchtune": {}}))
    from executorch.backends.mlx.test import test_ops, test_utils

    def row(case):
        case._set_seed()
        module, inputs, shapes = case.create_model(), case.create_inputs(), case.get_dynamic_shapes()
        s.take(module, inputs, shapes, [case.create_test_inputs()] if shapes else ())

    for name in list(test_utils._TEST_REGISTRY):
        try:
            cls = test_utils._TEST_REGISTRY[name]
            configs = cls.get_test_configs() if hasattr(cls, "get_test_configs") else [cls()]
        except Exception as error:
            s.errors.append(f"mlx/{name}: {error}")
            continue
        for case in configs:
            s.run("mlx", case.name, lambda: row(case))


def nxp(s):
    sys.meta_path.insert(0, StandIns({"eiq_neutron_sdk": {}, "pytest_mock": {}, "polars": {}, "model_explorer": {}, "executorch.backends.nxp.backend.neutron_target_spec": {},
                                      "executorch.backends.nxp.tests.config_importer": {},
                                      "executorch.backends.nxp.tests.outputs_dir_importer": {}}))
    from executorch.backends.nxp.tests import executorch_pipeline as pipeline, nsys_testing

    def take(model, input_spec, *_, **__):
        rows = [x if hasattr(x, "shape") else pipeline.ModelInputSpec(x) for x in pipeline.to_model_input_spec(input_spec)]
        inputs = tuple((torch.rand(x.shape) * 4 - 2).to(x.dtype if isinstance(x.dtype, torch.dtype) else torch.float32) for x in rows)
        s.take(model, inputs)
        return Chain()

    for name in ("to_quantized_edge_program", "to_quantized_executorch_program", "to_edge_program"):
        setattr(pipeline, name, take)
    nsys_testing.lower_run_compare = nsys_testing.lower_run_compare_ptq_qat = take
    s.run_package("nxp", "backends/nxp/tests/ir/converter/node_converter", given=lambda name: False if name == "use_qat" else unittest.mock.MagicMock())


def qnn_rework(s):
    """The newer of Qualcomm's own suites: each module class carries its tests as static methods."""
    from executorch.backends.qualcomm.tests.rework import conftest

    conftest.export_and_verify = lambda module, inputs, **_: s.take(module, inputs)
    for part in ("op", "pattern"):
        try:
            file = importlib.import_module(f"executorch.backends.qualcomm.tests.rework.src.{part}")
        except Exception as error:
            s.errors.append(f"qnn_rework/{part}: {type(error).__name__}: {error}")
            continue
        for cls in [c for c in vars(file).values() if isinstance(c, type) and c.__module__ == file.__name__]:
            for name in [n for n in vars(cls) if n.startswith("test")]:
                s.run("qnn_rework", f"{part}.{cls.__name__}.{name}", lambda: getattr(cls, name)(unittest.mock.MagicMock(), {}))


SUITES = (portable, xnnpack, vulkan, vulkan_table, webgpu, mlx, openvino, samsung, qnn_rework, arm, cortex_m, nxp)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    s = Suites(args.out, args.only)
    for suite in SUITES:
        try:
            suite(s)
        except Exception as error:
            s.errors.append(f"{suite.__name__}: {type(error).__name__}: {str(error)[:160]}")
        counts = s.cases.close()  # after each suite, in case a later one takes the process down
        (args.out / "raised.txt").write_text("\n".join(s.errors) + "\n")
    print(f"{counts}; {len(s.errors)} tests or files raised outside a case (raised.txt)")


if __name__ == "__main__":
    main()
