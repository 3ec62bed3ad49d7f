#!/usr/bin/env python3
"""Turn the operator suites that ship inside the `executorch` wheel, other than Qualcomm's own, into case folders.

    pip install torch==2.13.0 executorch==1.5.1 pytest parameterized
    python capture_suite_cases.py OUT [--only REGEX]

The suites are imported and run with their entry point (tester, pipeline, lower-and-compare helper) replaced by one that keeps
the module and its inputs; nothing is lowered. Packages that a suite needs for lowering alone, and that are not installed, are
stood in for. REGEX is searched in "<kind>/<test>". case_folder.py says what a folder holds and when a case is left out.
"""
import argparse, importlib, importlib.abc, importlib.machinery, inspect, itertools, pathlib, re, sys, types, unittest, unittest.mock

from case_folder import Cases, torch




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

    def __init__(self, take):
        self.take = take

    def __getitem__(self, _):  # Pipeline[input_type](...)
        return self

    def __call__(self, *args, **kwargs):
        args = list(args)
        pick = lambda *names: next((kwargs[n] for n in names if n in kwargs), None) if any(n in kwargs for n in names) else args.pop(0)
        module = pick("module", "model")
        inputs = pick("example_inputs", "test_data", "inputs", "sample_inputs")
        shapes = kwargs.get("dynamic_shapes") or (args[0] if args and isinstance(args[0], (dict, tuple)) and args[0] else None)
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
        except unittest.SkipTest:
            pass
        except Exception as error:
            self.errors.append(f"{kind}/{test}: {type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}")
        except BaseException as error:  # pytest.skip and pytest.fail
            if type(error).__module__ not in ("_pytest.outcomes", "pytest"):
                raise

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
                for ids, arguments in self.parameters(value, given):
                    self.run(kind, ".".join([short, name.removeprefix("test_"), *ids]), lambda: value(**arguments))

    @staticmethod
    def unit(case, test):
        case.setUp()
        getattr(case, test)()

    @staticmethod
    def parameters(function, given):
        """The product of a function's pytest parametrize marks; other arguments are fixtures."""
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

    tester.Tester = Entry(s.take)
    s.run_package("xnnpack", "backends/xnnpack/test/ops")


SUITES = (portable, xnnpack)


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
    s.cases.close()
    (args.out / "raised.txt").write_text("\n".join(s.errors) + "\n")
    print(f"tests and files that raised outside a case: {len(s.errors)} (raised.txt)")


if __name__ == "__main__":
    main()
