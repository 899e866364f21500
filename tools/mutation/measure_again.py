"""Measure each study anew and hold what its page shows to the recorded outputs, in this process, so that it can mutate.

``run.py`` runs this in place of the comparison of the executed pages, whose kernels are processes of their own. Of the
outputs in ``tests/recorded`` it compares the numbers that the text shows and the verdicts with their evidence.
"""

from importlib import import_module

import pytest

from book.publish import execution
from book.publish.numbers import named_numbers
from tests.book.studies import test_claims

NUMBER, VERDICT = "application/papermill.record/text/plain", "application/vnd.analysis.verdict+json"


def recorded(name: str, kind: str) -> list:
    """Return a page's recorded outputs of one kind, in their order."""
    cells = execution.read_cells(execution.RECORDED / f"{name.replace('_', '-')}.json")
    outputs = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    return [data[kind] for data in outputs if kind in data]


def assert_shown(name: str, measured) -> None:
    """Compare what the page would show of this measurement with what is recorded."""
    outcomes = [(claim_id, function(measured)) for claim_id, function in test_claims.functions(name).items()]
    assert [{"id": claim_id, "outcome": outcome.verdict, "evidence": outcome.evidence}
            for claim_id, outcome in outcomes] == recorded(name, VERDICT)
    assert [repr(value) for _, value in named_numbers(measured)] == recorded(name, NUMBER)


@pytest.mark.parametrize("name", test_claims.NAMES)
def test_what_is_shown_of_the_stored_measurement(name):
    assert_shown(name, test_claims.measurement(name))


@pytest.mark.parametrize("name", test_claims.NAMES)
def test_what_is_shown_of_a_new_measurement(name):
    assert_shown(name, import_module(f"book.studies.{name}").measure())
