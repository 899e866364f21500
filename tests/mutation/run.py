"""Run the tests that reach each mutant, and keep which mutants none of them noticed: ``make mutants``.

torch is imported once. Every mutant gets a process of its own, forked from here before anything of `analysis` is
imported, in which the module's source is replaced as it is read. A first run of each test file, traced, tells which
test enters which function. Both are kept in ``.mutants``: what was interrupted goes on, and a test file that changed
is traced anew and asked again about the mutants that had survived. The scores and the survivors go to
``tests/mutation/scores.json``; ``equivalent.json`` beside it says which survivors no test could notice, and why.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import re
import signal
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".mutants"
SCORES, EQUIVALENT = Path(__file__).with_name("scores.json"), Path(__file__).with_name("equivalent.json")
PACKAGE = f"{ROOT / 'analysis'}/"
OPTIONS = ["-q", "-x", "--confcutdir=tests", "-p", "no:cacheprovider", "-p", "no:nbval", "-p", "no:xdist", "--tb=no",
           "--doctest-modules"]


class Tracer:
    """pytest plugin: which functions of the package each test enters, and how long it takes."""

    def __init__(self):
        self.entered, self.fixtures, self.tests = set(), set(), {}

    def _call(self, frame, event, arg):
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            self.entered.add(f"{code.co_filename[len(PACKAGE) - 9:]}:{code.co_qualname.split('.<locals>')[0]}")

    @contextlib.contextmanager
    def tracing(self, into):
        self.entered = into
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        with self.tracing(self.fixtures):  # a shared fixture serves all tests of the file
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        start = time.process_time()
        with self.tracing(set()):
            result = yield
        self.tests[item.nodeid] = (self.entered, time.process_time() - start)
        return result


def run_tests(names: list[str], path: str = "", source: str = "", plugins=()) -> int:
    """Run tests in this process, with another source in place of the one at ``path``."""
    read = SourceFileLoader.get_data
    place = ROOT / path

    def get_data(loader, asked):
        if Path(asked) == place:
            return source.encode()
        if Path(asked).parent == place.parent / "__pycache__" and Path(asked).name.startswith(f"{place.stem}.cpython"):
            raise OSError("compile anew")
        return read(loader, asked)

    if path:
        sys.dont_write_bytecode = True
        SourceFileLoader.get_data = get_data
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        return int(pytest.main([*OPTIONS, *names], plugins=list(plugins)))


def fork(work, limit: float) -> int | None:
    """Do ``work`` in a child and return what it returns, 99 if it breaks, nothing if it takes longer than the limit."""
    pid, end = os.fork(), time.monotonic() + limit
    if not pid:
        os.setsid()
        try:
            os._exit(work())
        finally:
            os._exit(99)
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def survey(path: Path, known: dict) -> dict:
    """Return which functions each test of a file enters, and its seconds, as known or by running it."""
    digest, out = hashlib.sha256(path.read_bytes()).hexdigest(), FOLDER / "survey.tmp"
    if known.get("digest") != digest:
        def work():
            tracer = Tracer()
            code = run_tests([path.relative_to(ROOT).as_posix()], plugins=[tracer])
            tests = {name: [sorted(entered | tracer.fixtures), seconds]
                     for name, (entered, seconds) in tracer.tests.items()}
            modules = [name for name in sys.modules if not name.startswith(("analysis", "tests", "test_", "conftest"))]
            out.write_text(json.dumps({"digest": digest, "tests": tests, "modules": modules}))
            return 0 if code == 5 else code
        if fork(work, 1800) != 0:
            raise SystemExit(f"{path} fails without any mutant")
        known = json.loads(out.read_text())
    for name in known["modules"]:  # what a child would import, each time anew
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return known


def files_of(plan) -> list[Path]:
    """Return the modules, for their doctests, and the unit tests that import any of them (or its package)."""
    stems = {part for path in plan for part in Path(path).with_suffix("").parts[1:]}
    imports = re.compile(r"^(?:from|import) analysis\b.*$", re.MULTILINE)
    return [ROOT / path for path in plan] + [
        file for file in sorted((ROOT / "tests/unit").glob("test_*.py"))
        if any(stems & set(re.split(r"\W+", line)) for line in imports.findall(file.read_text(encoding="utf-8")))]


def outcome(path: str, mutant: dict, tests: dict) -> str:
    """Run the tests that enter the mutant's function, the quickest first."""
    within = mutant["within"] and f"{path}:{mutant['within']}"
    names = [name for name, (entered, _) in sorted(tests.items(), key=lambda item: item[1][1])
             if within in entered or (not within and any(entry.startswith(path) for entry in entered))]
    if not names:
        return "no test"
    limit = 120 + 50 * sum(tests[name][1] for name in names)  # a loop that does not end; other work beside
    code = fork(lambda: run_tests(names, path, mutant["source"]), limit)
    return {0: "survived", None: "timeout"}.get(code, "killed")


def name_of(mutant: dict) -> str:
    """Name a mutant by its whole source."""
    return hashlib.sha256(mutant["source"].encode()).hexdigest()[:16]


def report(plan: dict, done: dict) -> dict:
    """Return what became of the mutants: by module, and those that survived, equivalents apart."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    modules, survivors = {}, []
    for path, drawn in plan.items():
        asked = [(m, done[name_of(m)]["outcome"]) for m in drawn["drawn"] if name_of(m) in done]
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        left = [{"place": f"{path}:{m['line']}", "line": lines[m["line"] - 1].strip(),
                 "before": m["before"], "after": m["after"], "outcome": o}
                for m, o in asked if o in ("survived", "no test")]
        for one in left:
            one["equivalent"] = equivalent.get(f"{path}: {one['line']}: {one['before']} -> {one['after']}")
        same = sum(one["equivalent"] is not None for one in left)
        modules[path] = {"mutants": drawn["mutants"], "drawn": len(asked), "equivalent": same,
                         "noticed": len(asked) - len(left)}
        survivors += left
    asked = sum(m["drawn"] - m["equivalent"] for m in modules.values())
    noticed = sum(m["noticed"] for m in modules.values())
    return {"tool": "operators of mutmut 3.8.1, see plan.py", "score": round(noticed / asked, 3) if asked else None,
            "modules": modules, "survivors": survivors}


def load(name: str) -> dict:
    """Read one of the files kept."""
    return json.loads((FOLDER / name).read_text()) if (FOLDER / name).exists() else {}


def main():
    """Run what is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path, help="what plan.py wrote")
    parser.add_argument("--only", nargs="*", help="modules")
    args = parser.parse_args()
    os.chdir(ROOT)
    FOLDER.mkdir(exist_ok=True)
    os.environ["MUTANTS"] = "1"  # tests/conftest.py: the same examples every time
    plan, surveys, done = json.loads(args.plan.read_text()), load("survey.json"), load("done.json")
    files = files_of(plan)
    for file in files:
        start = time.perf_counter()
        surveys[str(file)] = survey(file, surveys.get(str(file), {}))
        print(f"{time.perf_counter() - start:6.1f} s  {file.relative_to(ROOT)}", flush=True)
        (FOLDER / "survey.json").write_text(json.dumps(surveys))
    tests = {name: found for file in files for name, found in surveys[str(file)]["tests"].items()}
    state = hashlib.sha256("".join(surveys[str(file)]["digest"] for file in files).encode()).hexdigest()
    for path, drawn in plan.items():
        for mutant in drawn["drawn"] if not args.only or path in args.only else ():
            name = name_of(mutant)
            known = done.get(name, {})
            if known.get("outcome") in ("killed", "timeout") or known.get("state") == state:
                continue
            done[name] = {"outcome": outcome(path, mutant, tests), "state": state}
            (FOLDER / "done.json").write_text(json.dumps(done))
            print(f"{done[name]['outcome']:9}{path}:{mutant['line']}  {mutant['before']}  ->  {mutant['after']}",
                  flush=True)
            SCORES.write_text(json.dumps(report(plan, done), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
