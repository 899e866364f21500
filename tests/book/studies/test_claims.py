"""Every claim function of every study: it holds for the book's own measurement and refuses a counterfeit one."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from book import studies
from book.publish.claims import claim_functions
from book.publish.numbers import named_numbers
from tests.book.studies import counterfeits
from tests.book.studies.measurements import measurement

FOLDER = Path(studies.__file__).parent
NAMES = sorted(path.name for path in FOLDER.iterdir() if [*path.glob("claims.py"), *path.glob("claims/__init__.py")])


def functions(name: str) -> dict:
    return {function.claim_id: function for function in claim_functions(import_module(f"book.studies.{name}.claims"))}


CASES = [(name, claim_id) for name in NAMES for claim_id in functions(name)]


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_has_a_counterfeit_and_every_counterfeit_a_claim(name):
    assert set(counterfeits.of_study(name)) == set(functions(name))


@pytest.mark.parametrize(("name", "claim_id"), CASES)
def test_the_verdict_holds_for_the_book_and_not_for_a_counterfeit(name, claim_id):
    measured, function = measurement(name), functions(name)[claim_id]
    assert function(measured).holds, "the condition fails for the book's own measurement"
    forged = counterfeits.forge(measured, counterfeits.of_study(name)[claim_id])
    assert not function(forged).holds, "the verdict cannot fail: a counterfeit measurement passes"


LIMITS = [
    (name, claim_id, place)
    for name in NAMES
    for claim_id in functions(name)
    for place in range(len(counterfeits.limits_of_study(name).get(claim_id, [])))
]


@pytest.mark.parametrize(("name", "claim_id", "place"), LIMITS)
def test_the_verdict_turns_at_each_of_its_limits(name, claim_id, place):
    """One entry of the measurement decides, however good the others are: on one side it holds, on the other not."""
    function, limit = functions(name)[claim_id], counterfeits.limits_of_study(name)[claim_id][place]
    sides = [bool(function(each).holds) for each in counterfeits.on_either_side(measurement(name), *limit)]
    assert sorted(sides) == [False, True], limit


@pytest.mark.parametrize("kind", ["short_columns", "short_verticals"])
def test_neither_columns_nor_verticals_may_be_mostly_short_on_text(kind):
    """MiniLM's own maps are judged by both ratios, not by the smaller one."""
    measured, function = measurement("bert_gates"), functions("bert_gates")["B-41"]
    forged = counterfeits.forge(measured, {f"census.trained.ratios.{kind}": lambda ratio: replace(ratio, high=0.51)})
    assert not function(forged).holds


@pytest.mark.parametrize("name", NAMES)
def test_glued_names_are_unique(name):
    names = [glued for glued, _ in named_numbers(measurement(name))]
    assert len(names) == len(set(names))
