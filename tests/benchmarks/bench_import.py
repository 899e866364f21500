"""What importing the library's mathematics costs beside importing torch alone."""

from tests.benchmarks.machine import fresh_interpreter

MODULES = "analysis, analysis.transformer.attention, analysis.decomposition.terms"


def test_the_import_is_that_of_torch(say):
    """At most half as much again as torch."""

    def seconds(names):
        code = f"start = time.process_time()\nimport {names}\nprint(json.dumps(time.process_time() - start))"
        return min(fresh_interpreter(code) for _ in range(4))

    ours, torch_alone = seconds(MODULES), seconds("torch")
    say(f"import of {MODULES}: {ours:.2f} s; torch alone {torch_alone:.2f} s; ratio {ours / torch_alone:.2f}")
    assert ours / torch_alone <= 1.5
