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
import hashlib
import json
import os
import time
from pathlib import Path

from tools.mutation.processes import FOLDER, fork, run_tests
from tools.mutation.reach import MEASURE_AGAIN, files_of, groups_of, store_measurements, survey
from tools.mutation.scores import name_of, report, to_json
from tools.rooms import ROOT

SCORES = Path(__file__).with_name("scores.json")


def outcome(path: str, mutant: dict, tests: dict) -> str:
    """Run the tests that enter the mutant's function."""
    groups = groups_of(path, mutant, tests)
    if not groups:
        return "no test"
    limit = 30 + 5 * sum(tests[name][1] for names in groups for name in names)  # a loop that does not end
    code = fork(lambda: run_tests(groups, path, mutant["source"]), limit)
    return {0: "survived", None: "timeout", 99: "not run"}.get(code, "killed")


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
    jobs = [
        (turn, path, mutant)
        for path, module in modules.items()
        for turn, mutant in enumerate(module["sample"])
        if not args.only or path in args.only
    ]
    for _, path, mutant in sorted(jobs, key=lambda job: (job[0], name_of(job[2]))):  # in turns of one a module, mixed
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
        scores.write_text(to_json(samples), encoding="utf-8")


if __name__ == "__main__":
    main()
