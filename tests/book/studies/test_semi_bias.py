"""The study of the semi-bias on another GPT-2 and other texts than the book's, and its small functions."""

import numpy as np
import pytest

from book import publish
from book.publish import ledger
from book.publish.claims import NoVerdict
from book.publish.ledger import Verdict
from book.publish.numbers import named_numbers
from book.studies import semi_bias as study
from book.studies.semi_bias.tilt import name_heads
from tests.analysis.tiny import GPT2, write_model
from tests.book.studies.measurements import measurement

HEADS, POSITIONS = GPT2["n_head"], 40


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("semi-bias")
    (folder / "own.txt").write_text("The value of the name is returned by the function.\n\n" * 200)
    model = write_model(folder / "another", {**GPT2, "n_positions": POSITIONS})
    return study.measure(str(model), str(folder / "own.txt"), "cpu")


def test_another_gpt2_is_measured(measured):
    assert measured.sources == (
        "Computed just now with the model another and the texts of own.txt; the book shows gpt2.",
    )
    assert measured.tilt.raw.shape == (HEADS, POSITIONS)
    assert max(max(errors.values()) for errors in measured.exact_errors.values()) < 1e-12
    assert len(measured.tokens.gpt2.titles) == HEADS


def test_every_number_of_another_gpt2_can_be_glued(measured):
    numbers = dict(named_numbers(measured))
    assert numbers["sb-heads"] == HEADS
    assert numbers["sb-places"] == POSITIONS
    assert all(np.isfinite(value) for value in numbers.values() if not isinstance(value, str))


def test_another_gpt2_gets_verdicts_or_notes_and_no_errors(measured, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    publish.verdicts(study, measured)
    assert {result.id: type(result) for result in shown if result.id in ("K-15", "K-19", "K-24")} == {
        "K-15": Verdict,
        "K-19": NoVerdict,
        "K-24": NoVerdict,
    }
    assert len(shown) == sum(claim.chapter == "evidence/semi-bias" for claim in ledger.claims())


@pytest.mark.parametrize(
    ("heads", "names"), [((3, 4, 7), "3, 4 and 7"), ((0, 2), "0 and 2"), ((5,), "5"), ((), "no head")]
)
def test_heads_are_named(heads, names):
    assert name_heads(heads) == names


def test_how_long_key_0_leads_hangs_on_the_width_of_the_tokens():
    """At width 2, inside the chapter's own bracket, it never leads in head 1, and up to query 33 in head 8."""
    first = measurement("semi_bias").first_key
    assert (first.until_wide[1], first.until_wide[8]) == (-1, 33)
    assert (first.first_wide_never, first.first_wide_least, first.first_wide_high) == ("1", 33, 291)
    assert first.first_low > 100
