"""Run the tests that reach each mutant, and keep which mutants none of them noticed: ``make mutants``.

torch is imported once. Every mutant gets a process of its own, forked from here before anything of this project is
imported, in which the module's source is replaced as it is read. A first run of each test file, traced, tells which
test enters which function. Both are kept in ``.mutants``: what was interrupted goes on, and a test file that changed
is traced anew and asked again about the mutants that had survived. The scores and the survivors go to
``tools/mutation/scores.json``, by sample and seed; ``at_first`` is what the tests noticed that stood when it was first
tried. ``equivalent.json`` beside it says which survivors no test could notice, and why.

The tests of the library are those under ``tests/analysis``; those of the studies lie under ``tests/book/studies``, and
``measure_again.py`` beside this file stands for the comparison of the pages with their recorded outputs.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import jaxtyping
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".mutants"
SCORES, EQUIVALENT = Path(__file__).with_name("scores.json"), Path(__file__).with_name("equivalent.json")
MISSED = ("survived", "no test", "not run")
TRACED = (f"{ROOT / 'analysis'}/", f"{ROOT / 'book' / 'studies'}/")
TESTS = {"analysis": "tests/analysis", "book": "tests/book/studies"}  # by the first folder of what is mutated
MEASURE_AGAIN = Path(__file__).with_name("measure_again.py")
OWN = ("analysis", "book", "tests", "tools", "test_", "conftest")  # imported by each child, never by the parent
OPTIONS = ["-q", "-x", "--confcutdir=tests", "-p", "no:cacheprovider", "-p", "no:nbval", "-p", "no:xdist", "--tb=no",
           "--doctest-modules", "--assert=plain"]  # pytest's own loader, which rewrites asserts, would read the file


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


def run_tests(groups: list[list[str]], path: str = "", source: str = "", plugins=()) -> int:
    """Run groups of tests in this process until one fails, with another source in place of the one at ``path``."""
    read = SourceFileLoader.get_data
    place, served = ROOT / path, []

    def get_data(loader, file):
        if Path(file) == place:
            served.append(file)
            return source.encode()
        if Path(file).parent == place.parent / "__pycache__" and Path(file).name.startswith(f"{place.stem}.cpython"):
            raise OSError("compile anew")
        return read(loader, file)

    if path:
        sys.dont_write_bytecode = True
        SourceFileLoader.get_data = get_data
    jaxtyping.install_import_hook("analysis", "beartype.beartype")  # doctests alone load no conftest
    with (open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere),
          contextlib.redirect_stderr(nowhere)):
        codes = (int(pytest.main([*OPTIONS, *names], plugins=list(plugins))) for names in groups)
        code = next(filter(None, codes), 0)
    return code if served or not path else 99


def fork(work, limit: float) -> int | None:
    """Do ``work`` in a child and return what it returns, 99 if it breaks, nothing if it takes too long.

    The limit is in seconds of the processor, however busy it is; a child that waits is given twenty times as long.
    """
    pid, end = os.fork(), time.monotonic() + 20 * limit
    if not pid:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 5))
        try:
            os._exit(work())
        finally:
            os._exit(99)
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return None if code == -signal.SIGXCPU else code
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


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
            tests = {name: [sorted(entered | tracer.fixtures), seconds]
                     for name, (entered, seconds) in tracer.tests.items()}
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
    return "tools.rooms" in names or any(f"{name}.".startswith(f"{module}.") or f"{module}.".startswith(f"{name}.")
                                         for name in names)


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


def outcome(path: str, mutant: dict, tests: dict) -> str:
    """Run the tests that enter the mutant's function."""
    groups = groups_of(path, mutant, tests)
    if not groups:
        return "no test"
    limit = 30 + 5 * sum(tests[name][1] for names in groups for name in names)  # a loop that does not end
    code = fork(lambda: run_tests(groups, path, mutant["source"]), limit)
    return {0: "survived", None: "timeout", 99: "not run"}.get(code, "killed")


def name_of(mutant: dict) -> str:
    """Name a mutant by its whole source."""
    return hashlib.sha256(mutant["source"].encode()).hexdigest()[:16]


def interval(modules: dict, weights: list[float], noticed: str) -> list[float]:
    """Return the weighted share noticed with its 95 % interval.

    It is exact for the effective number of trials (Kish); with equal weights that is the number drawn. To draw from
    each module apart only makes it more cautious (Hoeffding 1956).
    """
    trials = [m["drawn"] - m["equivalent"] for m in modules.values()]
    total = sum(w * n for w, n in zip(weights, trials, strict=True))
    effective = total ** 2 / sum(w * w * n for w, n in zip(weights, trials, strict=True))
    right = effective * sum(w * m[noticed] for w, m in zip(weights, modules.values(), strict=True)) / total
    low = stats.beta.ppf(0.025, right, effective - right + 1) if right > 0 else 0
    high = stats.beta.ppf(0.975, right + 1, effective - right) if right < effective else 1
    return [round(float(v), 3) for v in (right / effective, low, high)]


def report(plan: dict, results: dict) -> dict:
    """Return what became of the mutants, at first and now: by module, and those that survived, equivalents apart."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    modules, survivors = {}, []
    for path, module in plan.items():
        tried = [(m, results[name_of(m)]) for m in module["sample"] if name_of(m) in results]
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        missed = [{"place": f"{path}:{m['line']}", "line": lines[m["line"] - 1].strip(),
                   "before": m["before"], "after": m["after"], "outcome": result["outcome"]}
                  for m, result in tried if result["first"] in MISSED]
        for mutant in missed:
            mutant["equivalent"] = equivalent.get(f"{path}: {mutant['line']}: {mutant['before']} -> {mutant['after']}")
        modules[path] = {"mutants": module["mutants"], "drawn": len(tried),
                         "equivalent": sum(mutant["equivalent"] is not None for mutant in missed),
                         "noticed_at_first": len(tried) - len(missed),
                         "noticed": len(tried) - sum(mutant["outcome"] in MISSED for mutant in missed)}
        survivors += missed
    counted = {path: m for path, m in modules.items() if m["drawn"] > m["equivalent"]}
    sizes = [m["mutants"] / (m["drawn"] - m["equivalent"]) for m in counted.values()]
    scores = {}
    for suffix, weights in (("", [1.0] * len(counted)), ("_by_size_of_module", sizes)) if counted else ():
        scores[f"score_at_first{suffix}"] = interval(counted, weights, "noticed_at_first")
        scores[f"score{suffix}"] = interval(counted, weights, "noticed")[0]  # once tests were written for it, no sample
    return {"drawn": sum(m["drawn"] for m in modules.values()),
            "equivalent": sum(m["equivalent"] for m in modules.values()),
            **scores, "modules": modules, "survivors": survivors}


def load(name: str) -> dict:
    """Read one of the files of ``.mutants``."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8")) if (FOLDER / name).exists() else {}


def main():
    """Run what is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path, help="what plan.py wrote")
    parser.add_argument("--only", nargs="*", help="modules")
    parser.add_argument("--scores", type=Path, default=SCORES, help="where to write the scores")
    args = parser.parse_args()
    plan = json.loads(args.plan.read_text(encoding="utf-8"))
    sample, modules, scores = plan["name"], plan["modules"], args.scores.resolve()
    os.chdir(ROOT)
    FOLDER.mkdir(exist_ok=True)
    os.environ["MUTANTS"] = "1"  # tests/conftest.py: the same examples every time
    surveys, results = load("survey.json"), load("results.json")
    files = files_of(modules)
    if MEASURE_AGAIN in files and fork(store_measurements, 3600) != 0:
        raise SystemExit("the studies cannot be measured without any mutant")
    for file in files:
        start = time.perf_counter()
        surveys[str(file)] = survey(file, surveys.get(str(file), {}))
        print(f"{time.perf_counter() - start:6.1f} s  {file.relative_to(ROOT)}", flush=True)
        (FOLDER / "survey.json").write_text(json.dumps(surveys), encoding="utf-8")
    tests = {name: test for file in files for name, test in surveys[str(file)]["tests"].items()}
    state = hashlib.sha256("".join(surveys[str(file)]["digest"] for file in files).encode()).hexdigest()
    jobs = [(turn, path, mutant) for path, module in modules.items() for turn, mutant in enumerate(module["sample"])
            if not args.only or path in args.only]
    for _, path, mutant in sorted(jobs, key=lambda job: job[0]):  # in turns: an early end leaves some of each module
        name = name_of(mutant)
        known = results.get(name, {})
        if known.get("outcome") in ("killed", "timeout") or known.get("state") == state:
            continue
        result = outcome(path, mutant, tests)
        results[name] = {"outcome": result, "state": state, "first": known.get("first", result)}
        (FOLDER / "results.json").write_text(json.dumps(results), encoding="utf-8")
        print(f"{result:9}{path}:{mutant['line']}  {mutant['before']}  ->  {mutant['after']}", flush=True)
        samples = json.loads(scores.read_text(encoding="utf-8")) if scores.exists() else {}
        samples[sample] = report(modules, results)
        scores.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
