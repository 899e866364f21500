"""What importing the library's mathematics costs beside importing torch alone."""

from functools import partial

from tests.benchmarks.machine import fresh_interpreter, take_turns

MODULES = "analysis, analysis.transformer.attention, analysis.decomposition.terms"


def seconds(names):
    """Return the processor seconds of an import in a fresh interpreter."""
    code = f"start = time.process_time()\nimport {names}\nprint(json.dumps(time.process_time() - start))"
    return fresh_interpreter(code)


def test_the_import_is_that_of_torch(say, at_most):
    """It takes less than half as much again as torch."""
    found = take_turns({"ours": partial(seconds, MODULES), "torch": partial(seconds, "torch")}, rounds=3)
    say(f"import of {MODULES}: {found.least('ours'):.2f} s; torch alone {found.least('torch'):.2f} s")
    at_most("import: the mathematics / torch alone", found.ratio("ours", "torch"))
