"""The cards of the first page: one a document, with its source, its chapters, what held and what did not."""

import re
from collections import Counter

import pytest
from pybtex.database import parse_file

from book._ext import cards
from book.publish import execution, ledger


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


def test_names_and_years_have_no_braces():
    for key in ledger.SOURCES.values():
        entry = parse_file(str(cards.REFERENCES)).entries[key]
        assert not re.search(r"[{}]", cards.authors(entry) + cards.year(entry))


@pytest.mark.parametrize("letter", list(ledger.SOURCES))
def test_the_built_page_has_a_card_with_the_counts(html, letter):
    text = (html / "book" / "claims.html").read_text(encoding="utf-8")
    card = re.search(rf'\?document={letter}">(.*?)</a>', text, re.DOTALL)
    verdicts = ledger.collect()
    due = Counter(verdicts[claim.id].outcome for claim in ledger.testable() if claim.id[0] == letter)
    assert card[1] == f"{due.total()} claims: " + ", ".join(f"{due[o]} {o}" for o in ledger.OUTCOMES if due[o])


def test_chapters_stand_in_the_order_of_the_book(html):
    text = (html / "book" / "claims.html").read_text(encoding="utf-8")
    card = re.findall(r"Here: (.*?)</p>", text, re.DOTALL)[-1]  # of the paper
    chapters = re.findall(r'href="([\w/-]+)\.html"', card)
    pages = [page.removeprefix("book/") for page in execution.listed(ledger.ROOT)]
    assert chapters == sorted(chapters, key=pages.index)
    assert len(chapters) > 2


@pytest.mark.parametrize("width", [1250, 900, 390])
def test_no_place_beside_the_cards_is_empty(browser, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_content(f'<div class="bd-article"><ul class="document-cards">{"<li>one</li>" * 5}</ul></div>')
    page.add_style_tag(path=ledger.ROOT / "book/assets/book.css")
    cards_end, list_end = page.evaluate("""() => ['li:last-child', 'ul'].map(
        one => document.querySelector(one).getBoundingClientRect().right)""")
    page.close()
    assert abs(cards_end - list_end) < 1
