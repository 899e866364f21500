"""The cards of the first page: one a document, with its source, its chapters, what held and what did not."""

import re
from collections import Counter

import pytest
from pybtex.database import parse_file

from book._ext import claims as cards
from book.publish import ledger


def test_every_document_has_a_source_and_headlines():
    entries = parse_file(str(cards.REFERENCES)).entries
    assert list(ledger.SOURCES) == list(ledger.DOCUMENTS)
    assert set(ledger.SOURCES.values()) <= set(entries)
    counts = {letter: sum(bool(c.headline) for c in ledger.claims() if c.id[0] == letter) for letter in ledger.SOURCES}
    assert set(counts.values()) == {2}


def test_one_headline_of_each_document_held_and_one_did_not():
    verdicts = ledger.collect(ledger.ROOT / "book" / "recorded")
    headlines = [claim.id for claim in ledger.claims() if claim.headline]
    for letter in ledger.SOURCES:
        held = {verdicts[claim].outcome == "reproduced" for claim in headlines if claim[0] == letter}
        assert held == {True, False}, letter


@pytest.mark.parametrize("letter", list(ledger.SOURCES))
def test_the_built_page_has_a_card_with_the_counts(html, letter):
    text = (html / "book" / "claims.html").read_text(encoding="utf-8")
    card = re.search(rf'\?document={letter}">(.*?)</a>', text, re.DOTALL)
    verdicts = ledger.collect()
    due = Counter(verdicts[claim.id].outcome for claim in ledger.testable() if claim.id[0] == letter)
    assert card[1] == f"{due.total()} claims: " + ", ".join(f"{due[o]} {o}" for o in ledger.OUTCOMES if due[o])
