"""What decides the score of ``make mutants``: which tests are run on a mutant, how a child ends, and the interval."""

import json

import pytest

from analysis.statistics.intervals import share_interval
from tools.mutation import processes, reach, scores

PATH = "analysis/maps/entropy.py"
TESTS = {
    "tests/a.py::slow": ([f"{PATH}:row_entropy"], 3.0),
    "tests/a.py::quick": ([f"{PATH}:row_entropy", f"{PATH}:other"], 1.0),
    "tests/b.py::quickest": ([f"{PATH}:row_entropy"], 0.1),
    "tests/b.py::elsewhere": (["analysis/maps/distance.py:total_variation"], 0.0),
    "tests/c.py::elsewhere": (["analysis/maps/distance.py:total_variation"], 0.0),
}


@pytest.mark.parametrize(
    ("within", "groups"),
    [
        ("row_entropy", [["tests/b.py::quickest"], ["tests/a.py::quick", "tests/a.py::slow"]]),
        ("other", [["tests/a.py::quick"]]),
        ("never_entered", []),
        (None, [["tests/b.py::elsewhere", "tests/b.py::quickest"], ["tests/a.py::quick", "tests/a.py::slow"]]),
    ],
    ids=str,
)
def test_the_tests_that_enter_the_function_are_run_the_quickest_first(within, groups):
    assert reach.groups_of(PATH, {"within": within}, TESTS) == groups


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("analysis.maps.entropy", True),
        ("analysis.maps.entropy.row_entropy", True),
        ("analysis.maps", True),
        ("tools.rooms", True),
        ("analysis.maps.entropy_of_nothing", False),
        ("analysis.matrices", False),
    ],
)
def test_a_test_reaches_what_it_imports_and_what_holds_it(name, may):
    assert reach.may_reach({name}, "analysis.maps.entropy") is may


def fail():
    raise ValueError


def never_end():
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "code"), [(lambda: 3, 3), (fail, 99), (never_end, None)], ids=["returns", "breaks", "takes too long"]
)
def test_a_child_says_how_it_ended(work, code):
    assert processes.fork(work, 1) == code


def test_the_interval_of_equal_modules_is_the_exact_one():
    modules = {name: {"drawn": 6, "equivalent": 1, "noticed": noticed} for name, noticed in (("a", 5), ("b", 3))}
    assert scores.interval(modules, [1.0, 1.0], "noticed") == [round(bound, 3) for bound in share_interval(8, 10)]


def test_a_module_of_more_weight_counts_more():
    modules = {name: {"drawn": 5, "equivalent": 0, "noticed": noticed} for name, noticed in (("a", 5), ("b", 0))}
    share, low, high = scores.interval(modules, [3.0, 1.0], "noticed")
    even = scores.interval(modules, [1.0, 1.0], "noticed")
    assert (share, even[0]) == (0.75, 0.5)
    assert high - low > share_interval(7, 10).high - share_interval(7, 10).low  # it is worth 8 of the 10 trials


def test_survivors_are_reported_and_equivalent_ones_do_not_count(monkeypatch, tmp_path):
    first = (scores.ROOT / PATH).read_text(encoding="utf-8").splitlines()[0].strip()
    known = tmp_path / "equivalent.json"
    known.write_text(json.dumps({f"{PATH}: {first}: a -> b": "It is the same."}), encoding="utf-8")
    monkeypatch.setattr(scores, "EQUIVALENT", known)
    sample = [{"source": name, "line": 1, "before": "a", "after": name} for name in "bcd"]
    outcomes = dict(
        zip(
            map(scores.name_of, sample),
            (("survived", "survived"), ("killed", "survived"), ("killed", "killed")),
            strict=True,
        )
    )
    results = {name: {"outcome": now, "first": first} for name, (now, first) in outcomes.items()}
    done = scores.report({PATH: {"mutants": 7, "sample": sample}}, results)
    counts = {name: done[name] for name in ("mutants", "planned", "drawn", "equivalent", "noticed_at_first", "noticed")}
    assert counts == {"mutants": 7, "planned": 3, "drawn": 3, "equivalent": 1, "noticed_at_first": 1, "noticed": 2}
    assert [(mutant["after"], mutant["outcome"], mutant["equivalent"]) for mutant in done["survivors"]] == [
        ("b", "survived", "It is the same."),
        ("c", "killed", None),
    ]
    assert (done["score_at_first"][0], done["score"]) == (0.5, 1.0)
    table = {"tool": "mutmut", "studies, seed 1": done, "studies, seed 2": done | {"survivors": []}}
    written = scores.to_json(table)
    assert json.loads(written) == table
    assert len(written.splitlines()) == 2 + 3 + len(done["survivors"])
