"""The table of what the paper's figures measure: in three models, beside their controls."""

import re

import pytest

from analysis.maps.gates import GATES
from analysis.statistics import normality
from book.publish import experiments, ledger
from book.viewers import side_by_side


def test_every_figure_of_the_paper_that_is_judged_has_a_row(html):
    page = (html / "book" / "claims.html").read_text(encoding="utf-8")
    for claim in ledger.claims():
        if claim.id[0] == "B" and "Fig" in claim.place:
            row = re.search(rf'<tr[^>]*id="claim-{claim.id.lower()}".*?</tr>', page, re.DOTALL)[0]
            assert "Fig." in row
            assert f"#verdict-{claim.id.lower()}" in row


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("B-13", "section 3.1, at the paper's Fig. 2"),
        ("B-84", "section 5.2"),
        ("B-72", "section 5.1, the paper's Fig. 8"),
        ("B-03", "the paper's (2.1), (2.2)"),
        ("K-07", "the page's line 3 of ATTN, and again lines 4 to 6"),
        ("P-09", "step 3, first paragraph"),
        ("B-77", "the paper's Table 1"),
        ("M-15", "Technical Details, 2"),
    ],
)
def test_a_place_cannot_be_taken_for_ours(claim, words):
    assert ledger.place(ledger.claim_of(claim)) == words


def test_models_and_networks_have_names(html):
    page = (html / "book" / "claims.html").read_text(encoding="utf-8")
    for words in (*side_by_side.MODELS.values(), *side_by_side.NETWORKS, "The paper\u2019s Fig. 13"):
        assert words in page


def test_three_models_stand_beside_their_controls():
    by_measure = {measure.array: cells for measure, cells in side_by_side.compare()}
    text = experiments.load("bert-normality-ladder")
    tuned, scratch = experiments.load("variant-fine-tuned"), experiments.load("variant-measures")
    cosine = text.array("cosine").mean(0)
    assert by_measure["cosine"]["text"][0] == f"{cosine[0]:.2f} to {cosine[-1]:.2f}"
    permuted = text.array("first_failing of controls")[3].mean()  # behind two random levels and the large one
    assert by_measure["first_failing"]["text"][3] == f"{100 * permuted:.0f} %"
    large = tuned.array("ladder_entropy")[1].mean((0, 1, 3))
    assert by_measure["entropy"]["fine-tuned"][2] == f"{large[0]:.2f} to {large[-1]:.2f}"
    total = scratch.array("control_D_total").mean() / normality.critical_value(192)
    assert by_measure["D_total"]["scratch"][1:] == [f"{total:.1f}", "\u2013", "\u2013"]
    gates = tuned.array("gates")[..., GATES.index("directional") : GATES.index("closed")].sum(-1).mean()
    assert by_measure["gates"]["fine-tuned"][0] == f"{100 * gates:.0f} %"
