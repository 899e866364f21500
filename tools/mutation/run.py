"""Run the tests that reach each mutant, and keep which mutants none of them noticed: ``make mutants``.

torch is imported once. Every mutant gets a process of its own, forked from here before anything of `analysis` is
imported, in which the module's source is replaced as it is read. A first run of each test file, traced, tells which
test enters which function. Both are kept in ``.mutants``: what was interrupted goes on, and a test file that changed
is traced anew and asked again about the mutants that had survived. The scores and the survivors go to
``tests/mutation/scores.json``, by seed; ``at_first`` is what the tests noticed that stood when it was first tried.
``equivalent.json`` beside it says which survivors no test could notice, and why.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import math
import os
import re
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
PACKAGE = f"{ROOT / 'analysis'}/"
OPTIONS = ["-q", "-x", "--confcutdir=tests", "-p", "no:cacheprovider", "-p", "no:nbval", "-p", "no:xdist", "--tb=no",
           "--doctest-modules", "--assert=plain"]  # pytest's own loader, which rewrites asserts, would read the file


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


def run_tests(groups: list[list[str]], path: str = "", source: str = "", plugins=()) -> int:
    """Run groups of tests in this process until one fails, with another source in place of the one at ``path``."""
    read = SourceFileLoader.get_data
    place, served = ROOT / path, []

    def get_data(loader, asked):
        if Path(asked) == place:
            served.append(asked)
            return source.encode()
        if Path(asked).parent == place.parent / "__pycache__" and Path(asked).name.startswith(f"{place.stem}.cpython"):
            raise OSError("compile anew")
        return read(loader, asked)

    if path:
        sys.dont_write_bytecode = True
        SourceFileLoader.get_data = get_data
    jaxtyping.install_import_hook("analysis", "beartype.beartype")  # doctests alone load no conftest
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
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
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == -signal.SIGXCPU else code
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
            code = run_tests([[path.relative_to(ROOT).as_posix()]], plugins=[tracer])
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
    total = sum(w * n for w, n in zip(weights, trials))
    effective = total ** 2 / sum(w * w * n for w, n in zip(weights, trials))
    right = effective * sum(w * m[noticed] for w, m in zip(weights, modules.values())) / total
    low = stats.beta.ppf(0.025, right, effective - right + 1) if right > 0 else 0
    high = stats.beta.ppf(0.975, right + 1, effective - right) if right < effective else 1
    return [round(float(v), 3) for v in (right / effective, low, high)]


def report(plan: dict, done: dict) -> dict:
    """Return what became of the mutants, at first and now: by module, and those that survived, equivalents apart."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    modules, survivors = {}, []
    for path, drawn in plan.items():
        asked = [(m, done[name_of(m)]) for m in drawn["drawn"] if name_of(m) in done]
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        left = [{"place": f"{path}:{m['line']}", "line": lines[m["line"] - 1].strip(),
                 "before": m["before"], "after": m["after"], "outcome": found["outcome"]}
                for m, found in asked if found["first"] in MISSED]
        for one in left:
            one["equivalent"] = equivalent.get(f"{path}: {one['line']}: {one['before']} -> {one['after']}")
        same = sum(one["equivalent"] is not None for one in left)
        missed = sum(one["outcome"] in MISSED for one in left)
        modules[path] = {"mutants": drawn["mutants"], "drawn": len(asked), "equivalent": same,
                         "noticed_at_first": len(asked) - len(left), "noticed": len(asked) - missed}
        survivors += left
    asked = {path: m for path, m in modules.items() if m["drawn"] > m["equivalent"]}
    sizes = [m["mutants"] / (m["drawn"] - m["equivalent"]) for m in asked.values()]
    scores = {}
    for how, weights in (("", [1.0] * len(asked)), ("_by_size_of_module", sizes)) if asked else ():
        scores[f"score_at_first{how}"] = interval(asked, weights, "noticed_at_first")
        scores[f"score{how}"] = interval(asked, weights, "noticed")[0]  # once tests were written for it, no sample
    return {"drawn": sum(m["drawn"] for m in modules.values()),
            "equivalent": sum(m["equivalent"] for m in modules.values()),
            **scores, "modules": modules, "survivors": survivors}


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
    asked, surveys, done = json.loads(args.plan.read_text()), load("survey.json"), load("done.json")
    plan, seed = asked["modules"], asked["seed"]
    files = files_of(plan)
    for file in files:
        start = time.perf_counter()
        surveys[str(file)] = survey(file, surveys.get(str(file), {}))
        print(f"{time.perf_counter() - start:6.1f} s  {file.relative_to(ROOT)}", flush=True)
        (FOLDER / "survey.json").write_text(json.dumps(surveys))
    tests = {name: found for file in files for name, found in surveys[str(file)]["tests"].items()}
    state = hashlib.sha256("".join(surveys[str(file)]["digest"] for file in files).encode()).hexdigest()
    jobs = [(turn, path, mutant) for path, drawn in plan.items() for turn, mutant in enumerate(drawn["drawn"])
            if not args.only or path in args.only]
    for _, path, mutant in sorted(jobs, key=lambda job: job[0]):  # in turns: an early end leaves some of each module
        name = name_of(mutant)
        known = done.get(name, {})
        if known.get("outcome") in ("killed", "timeout") or known.get("state") == state:
            continue
        found = outcome(path, mutant, tests)
        done[name] = {"outcome": found, "state": state, "first": known.get("first", found)}
        (FOLDER / "done.json").write_text(json.dumps(done))
        print(f"{found:9}{path}:{mutant['line']}  {mutant['before']}  ->  {mutant['after']}", flush=True)
        samples = json.loads(SCORES.read_text(encoding="utf-8")) | {f"seed {seed}": report(plan, done)}
        SCORES.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
