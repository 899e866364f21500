"""Which tests enter which functions: each file of tests is run once, traced, and its result is kept by its digest."""

import ast
import contextlib
import hashlib
import importlib
import json
import sys
import time
from pathlib import Path

import pytest

from tools.mutation.processes import FOLDER, fork, run_tests
from tools.rooms import ROOT

TRACED = (f"{ROOT / 'analysis'}/", f"{ROOT / 'book' / 'studies'}/")
TESTS = {"analysis": "tests/analysis", "book": "tests/book/studies"}  # by the first folder of what is mutated
MEASURE_AGAIN = Path(__file__).with_name("measure_again.py")
OWN = ("analysis", "book", "tests", "tools", "test_", "conftest")  # imported by each child, never by the parent


class Tracer:
    """pytest plugin: which functions of the project each test enters, and how long it takes."""

    def __init__(self):
        """Start with no tests."""
        self.entered, self.fixtures, self.tests = set(), set(), {}

    def _call(self, frame, event, arg):
        code = frame.f_code
        if code.co_filename.startswith(TRACED):
            path = code.co_filename.removeprefix(f"{ROOT}/")
            self.entered.add(f"{path}:{code.co_qualname.split('.<locals>')[0]}")

    @contextlib.contextmanager
    def tracing(self, names: set[str]):
        """Add to ``names`` each function that is entered meanwhile."""
        self.entered = names
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        """Trace the fixtures: a shared one serves all tests of the file."""
        with self.tracing(self.fixtures):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        """Trace and time the test itself."""
        start = time.process_time()
        with self.tracing(set()):
            result = yield
        self.tests[item.nodeid] = (self.entered, time.process_time() - start)
        return result


def digest_of(path: Path) -> str:
    """Hash a file of tests with what lies beside it and is no test, such as the counterfeits of the claims."""
    helpers = [ROOT / "tests" / "conftest.py"]
    if path.name.startswith("test_"):
        helpers += [p for p in sorted(path.parent.glob("*.py")) if not p.name.startswith("test_")]
    return hashlib.sha256(b"".join(p.read_bytes() for p in [path, *helpers])).hexdigest()


def survey(path: Path, known: dict) -> dict:
    """Return which functions each test of a file enters, and its seconds, as known or by running it."""
    digest, out = digest_of(path), FOLDER / "survey.tmp"
    if known.get("digest") != digest:

        def work():
            tracer = Tracer()
            code = run_tests([[path.relative_to(ROOT).as_posix()]], plugins=[tracer])
            tests = {
                name: [sorted(entered | tracer.fixtures), seconds] for name, (entered, seconds) in tracer.tests.items()
            }
            modules = [name for name in sys.modules if not name.startswith(OWN)]
            out.write_text(json.dumps({"digest": digest, "tests": tests, "modules": modules}), encoding="utf-8")
            return 0 if code == 5 else code

        if fork(work, 3600) != 0:
            raise SystemExit(f"{path} fails without any mutant")
        known = json.loads(out.read_text(encoding="utf-8"))
    for name in known["modules"]:  # what a child would import, each time anew
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return known


def imported(path: Path) -> set[str]:
    """Return the dotted names that a file imports, of modules and of what it takes from them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def may_reach(names: set[str], module: str) -> bool:
    """Say whether one of the imported names is a module, a part of it or a package that holds it.

    ``tools.rooms`` lists all modules, so a test that imports it may reach any of them.
    """
    return "tools.rooms" in names or any(
        f"{name}.".startswith(f"{module}.") or f"{module}.".startswith(f"{name}.") for name in names
    )


def files_of(plan) -> list[Path]:
    """Return the modules, for their doctests, and the files of tests that import any of them (or its package)."""
    modules = [".".join(Path(path).with_suffix("").parts) for path in plan]
    folders = {TESTS[module.split(".", maxsplit=1)[0]] for module in modules}
    tests = [path for folder in sorted(folders) for path in sorted((ROOT / folder).rglob("test_*.py"))]
    tests = [path for path in tests if any(may_reach(imported(path), module) for module in modules)]
    return [ROOT / path for path in plan] + tests + [MEASURE_AGAIN] * (TESTS["book"] in folders)


def store_measurements():
    """Store what the tests of claims read, unless it lies there: a mutant must find it and never write it."""
    from tests.book.studies.test_claims import NAMES, measurement

    for name in NAMES:
        measurement(name)
    return 0


def groups_of(path: str, mutant: dict, tests: dict) -> list[list[str]]:
    """Return the tests that enter the mutant's function, by file: the quickest file first, in it the quickest test.

    What stands outside functions may be read by any test of a file in which one enters the module.
    """

    def file(name):
        return name.partition("::")[0]

    within, files = mutant["within"] and f"{path}:{mutant['within']}", {}
    near = {file(name) for name, (entered, _) in tests.items() if any(entry.startswith(path) for entry in entered)}
    for name, (entered, _) in sorted(tests.items(), key=lambda item: item[1][1]):
        if within in entered or (not within and file(name) in near):
            files.setdefault(file(name), []).append(name)
    return sorted(files.values(), key=lambda names: sum(tests[name][1] for name in names))
