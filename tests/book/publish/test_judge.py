"""Verdicts of a page's own variables: what is false, vacuous or unknown is refused, and another model gets a note."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from book.publish import ledger

PAGE = """
from book import publish
inputs = publish.choose_inputs({inputs})
gap, shares = {gap}, [0.5, 0.25]
"""
JUDGE = 'publish.judge("K-15", "reproduced", "It stays.", when=lambda gap, shares: {when}, turned_by={turned_by})'


def run(cell, inputs="", gap="1e-14"):
    """Execute the cell as a page does; return what it displays as text, its verdict and its error."""
    shell = InteractiveShell.instance()
    try:
        shell.run_cell(PAGE.format(inputs=inputs, gap=gap)).raise_error()
        with capture_output() as captured:
            result = shell.run_cell(cell)
    finally:
        InteractiveShell.clear_instance()
    bundles = [out.data for out in captured.outputs]
    return bundles, str(result.error_in_exec or "")


def judge(when="gap < 1e-12 and max(shares) > 0.3", turned_by='{"gap": 1e-3, "shares": [0.1]}', **options):
    return run(JUDGE.format(when=when, turned_by=turned_by), **options)


def test_a_verdict_says_what_it_rests_on_and_what_would_turn_it():
    (shown,), error = judge()
    assert not error
    assert shown["text/plain"] == "K-15 reproduced: It stays."
    assert shown["application/vnd.analysis.verdict+json"]["condition"] == (
        "gap < 1e-12 and max(shares) > 0.3\n# turned by gap = 0.001\n# turned by shares = [0.1]"
    )
    assert shown["application/vnd.analysis.verdict+json"]["words"] == ledger.words_of(ledger.claim_of("K-15"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"gap": "1e-3"}, "K-15: 'reproduced' does not follow: gap < 1e-12 and max(shares) > 0.3 is False; gap = 0"),
        ({"gap": "None", "when": "gap"}, "does not follow: gap is None"),
        ({"gap": "float('nan')", "when": "gap"}, "does not follow: gap is nan"),
        ({"turned_by": '{"gap": 1e-3, "shares": [0.4]}'}, "cannot fail by shares"),
        ({"turned_by": "{}"}, "cannot fail by anything"),
        ({"when": "True"}, "cannot fail by gap, shares"),
    ],
)
def test_a_verdict_that_is_false_unknown_or_vacuous_is_refused(options, named):
    shown, error = judge(**options)
    assert shown == []
    assert named in error


def test_an_unknown_claim_outcome_or_variable_is_refused():
    for old, new, named in (
        ("K-15", "K-99", "K-99 is not in the ledger"),
        ("reproduced", "right", "there is no outcome 'right'"),
        ("gap, shares", "gape, shares", "no variable of the page is called gape"),
    ):
        cell = JUDGE.format(when="gap < 1", turned_by='{"gap": 2}').replace(old, new)
        assert named in run(cell)[1]


def test_with_other_texts_a_condition_that_fails_is_a_note_with_the_values_and_the_books_verdict():
    own = 'texts="mine.txt"'
    (shown,), error = judge(gap="0.25", inputs=own)
    assert not error
    assert shown["text/plain"] == (
        "K-15 not here: The book's verdict is 'reproduced'. With the texts of mine.txt its condition, gap < 1e-12 and "
        "max(shares) > 0.3, does not hold: gap = 0.25, shares = [0.5 0.25]."
    )
    (shown,), _ = judge(when="None if gap else max(shares)", inputs=own)
    assert shown["text/plain"].endswith("None if gap else max(shares), cannot be told.")
    (shown,), _ = judge(inputs=own, turned_by="{}")
    assert shown["text/plain"] == "K-15 reproduced: It stays."


def test_a_finding_is_held_to_its_numbers_and_shows_nothing():
    cell = 'publish.finding("a", when=lambda gap: gap < 1e-12, turned_by={"gap": 1})'
    assert run(cell) == ([], "")
    assert "a does not follow" in run(cell, gap="1")[1]


def test_numbers_are_glued_with_six_digits_under_their_names():
    cell = 'publish.glue("sb", gap_largest=2 / 3, best={"Q": 7, "K": "2 of 3"})'
    shown, error = run(cell)
    assert not error
    glued = {out["application/papermill.record/text/plain"] for out in shown}
    assert glued == {"0.666667", "7", "'2 of 3'"}
