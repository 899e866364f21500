"""The documents at a glance: which element a claim is about, in which order, and where the row leads."""

import re

import pytest

from book._ext import at_a_glance
from book.publish import ledger
from tests.book.pages.test_claims_page import build, verdicts  # noqa: F401 (a fixture)


@pytest.mark.parametrize(("claim", "names"), [
    ("B-14", ["Fig. 2"]), ("B-77", ["Table 1"]), ("B-03", ["(2.1)", "(2.2)"]), ("B-13", []),
    ("B-29", ["statement 3.2.1", "(3.6)", "(3.7)"]), ("K-20", ["Fig. 1"]), ("K-07", ["line 3"])])
def test_elements_are_read_from_the_place(claim, names):
    assert at_a_glance.elements(ledger.claim_of(claim)) == names


def test_figures_come_first_and_numbers_count():
    assert at_a_glance.in_order(["(3.10)", "Fig. 10", "line 3", "(3.9)", "Table 1", "Fig. 9"]) == [
        "Fig. 9", "Fig. 10", "Table 1", "(3.9)", "(3.10)", "line 3"]


def test_every_figure_of_the_paper_that_is_judged_has_a_row(html):
    page = (html / "book" / "at-a-glance.html").read_text(encoding="utf-8")
    for claim in ledger.claims():
        if claim.id[0] == "B" and "Fig" in claim.place:
            assert f"#verdict-{claim.id.lower()}" in page


@pytest.mark.parametrize(("claim", "words"), [
    ("B-13", "section 3.1"), ("B-72", "section 5.1, the paper's Fig. 8"), ("B-03", "the paper's (2.1),(2.2)"),
    ("K-07", "the page's line 3"), ("P-09", "step 3"), ("B-77", "the paper's Table 1"), ("M-15", "tech 2")])
def test_a_place_cannot_be_taken_for_ours(claim, words):
    assert ledger.place(ledger.claim_of(claim)) == words


def test_a_row_leads_to_the_verdict(build):  # noqa: F811
    build.extra = "# At a glance\n\n```{at-a-glance} K\n```\n"
    build(verdicts())
    row = re.search(r"<tr[^>]*>(?:(?!</tr>).)*line 3.*?</tr>", build.pages["glance"], re.DOTALL)[0]
    assert 'href="semi-bias.html#verdict-k-07"' in row
    assert "corrected" in row
