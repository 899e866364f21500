"""Every finding of every study, a condition that its page prints or holds itself to: it holds and can fail.

A function of a study's ``findings.py`` whose only parameter is the measurement needs a counterfeit in ``FINDINGS``.
"""

from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from book import studies
from book.publish.numbers import named_numbers
from tests.book.studies import counterfeits
from tests.book.studies.measurements import measurement

FOLDER = Path(studies.__file__).parent
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/findings.py"))


def findings(name: str) -> dict:
    module = import_module(f"book.studies.{name}.findings")
    return {
        key: value
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and list(signature(value).parameters) == ["m"]
    }


def counterfeit(name: str) -> dict:
    return import_module(f"tests.book.studies.{name}_counterfeits").FINDINGS


CASES = [(name, finding) for name in NAMES for finding in findings(name)]


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_has_a_counterfeit_and_every_counterfeit_a_finding(name):
    assert set(counterfeit(name)) == set(findings(name))


@pytest.mark.parametrize(("name", "finding"), CASES)
def test_the_finding_holds_for_the_book_and_not_for_a_counterfeit(name, finding):
    measured, condition = measurement(name), findings(name)[finding]
    assert condition(measured) is True
    assert condition(counterfeits.forge(measured, counterfeit(name)[finding])) is False


LIMITS = [
    (name, finding, place)
    for name in NAMES
    for finding in findings(name)
    for place in range(len(counterfeits.limits_of_study(name).get(finding, [])))
]


@pytest.mark.parametrize(("name", "finding", "place"), LIMITS)
def test_the_finding_turns_at_each_of_its_limits(name, finding, place):
    """One entry of the measurement decides, however good the others are: on one side it holds, on the other not."""
    condition, limit = findings(name)[finding], counterfeits.limits_of_study(name)[finding][place]
    sides = [bool(condition(each)) for each in counterfeits.on_either_side(measurement(name), *limit)]
    assert sorted(sides) == [False, True], limit


@pytest.mark.parametrize("name", NAMES)
def test_glued_names_are_unique(name):
    names = [glued for glued, _ in named_numbers(measurement(name))]
    assert len(names) == len(set(names))
