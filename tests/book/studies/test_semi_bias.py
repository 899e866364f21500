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
from tests.book.pages.test_sources import ROOT, code_cells
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


def run_story(name):
    """Run the cells of a story in one space, and return what they leave there."""
    space = {}
    for cell in code_cells(ROOT / "book" / f"{name}.md"):
        exec(compile(cell.source, name, "exec"), space)
    return space


def test_the_cells_of_the_stories_compute_what_the_study_measured():
    m = measurement("semi_bias")
    of_gpt2 = run_story("which-bias")["preference"]
    np.testing.assert_allclose(of_gpt2, m.tilt.raw, atol=1e-4 * np.abs(m.tilt.raw).max())
    near = run_story("neighbours")
    for part, name in enumerate(("ramp alone", "circle alone", "both")):
        mass = near["nearest_mass"](near["causal_attention"](near["scores"][name]), 50)[:, 50:].mean(1)
        np.testing.assert_allclose(mass, m.locality.mass[1, 1, part], atol=2e-3)  # it leaves the last position out
    learned = run_story("semi-bias")
    found = [learned["rank_correlation"](learned["length"], head).value for head in learned["of_words"]]
    np.testing.assert_allclose(found, m.tokens.correlations[0], atol=1e-3)
    assert (learned["own"].std(-1) > learned["drawn"].std(-1)).all(), "the figure says so of all 50 draws"
