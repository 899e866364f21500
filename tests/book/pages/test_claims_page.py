"""The claims as the built pages show them, what is counted of them, and that a claim left open fails the build.

The cards of the first page: one a document, with its source, its chapters, what held and what did not.
"""

import json
import re
from collections import Counter

import pytest
from pybtex.database import parse_file
from sphinx.application import Sphinx

from analysis.core.files import write_json
from book._ext import claims as cards
from book._ext import claims as claims_page
from book.publish import execution, ledger

LABEL = re.compile(r"^\((\S+)\)=$|^:label: (\S+)$|^ *name: (\S+)$|^\$\$ \((\S+)\)$", re.MULTILINE)
CONFIG = {
    "source_suffix": {".md": "myst-nb"},  # Sphinx keeps in its defaults what other tests have set
    "extensions": ["myst_nb", "book._ext.verdicts", "book._ext.claims"],
    "nb_execution_mode": "off",
    "myst_enable_extensions": ["dollarmath"],
    "root_doc": "book/claims",
    "html_theme": "basic",
    "nb_render_markdown_format": "myst",
    "suppress_warnings": ["mystnb.unknown_mime_type"],
}


@pytest.fixture
def warnings(tmp_path, monkeypatch):
    """Return a function that builds a book of a chapter with the given verdicts, and gives its warnings."""

    def build(verdicts, *, chapters=("evidence/semi-bias",), text="") -> str:
        outputs = [
            {"output_type": "display_data", "metadata": {}, "data": verdict._repr_mimebundle_()} for verdict in verdicts
        ]
        cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "x", "outputs": outputs}
        write_json(tmp_path / "executed" / "evidence" / "semi-bias.json", {"digest": "one", "cells": [cell]})
        monkeypatch.setattr(execution, "executed_path", lambda: tmp_path / "executed")
        head = {"cell_type": "markdown", "metadata": {}, "source": "# Semi-bias"}
        notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [head, cell]}
        book = tmp_path / "source" / "book"
        (book / "evidence").mkdir(parents=True)
        (book / "claims.md").write_text(f"# The claims\n\n```{{claims-table}}\n```\n\n{text}\n")
        for name in chapters:
            (book / f"{name}.ipynb").write_text(json.dumps(notebook))
        folders = str(book.parent), None, str(tmp_path / "html"), str(tmp_path / "doctrees"), "html"
        with (tmp_path / "warnings").open("w") as stream:
            Sphinx(*folders, confoverrides=CONFIG, status=None, warning=stream, freshenv=True).build()
        return (tmp_path / "warnings").read_text()

    return build


def verdicts(letter: str = "K") -> list[ledger.Verdict]:
    return [ledger.Verdict(c.id, "corrected", "The $n$ differ by 1.") for c in ledger.claims() if c.id[0] == letter]


def test_what_a_page_leaves_open_or_asks_for_in_vain_is_a_warning(warnings):
    said = warnings(verdicts()[:-2], text="{evidence}`K-99` {claims-number}`Z`")
    assert "evidence/semi-bias gives no verdict on K-27, K-28" in said
    assert "K-99 is not in the ledger" in said
    assert "claims-number takes 'all', 'definitions' or a document's letter" in said


def test_two_verdicts_are_a_warning(warnings):
    assert "K-01 has two verdicts" in warnings([*verdicts(), verdicts()[0]])


def test_a_chapter_that_is_left_out_is_a_warning(warnings):
    assert "evidence/semi-bias gives no verdict on K-01" in warnings([], chapters=())


@pytest.fixture(scope="module")
def claims(html) -> str:
    return (html / "book" / "claims.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def chapters(html) -> dict[str, str]:
    """Return the built pages that judge claims."""
    names = {claim.chapter for claim in ledger.claims()}
    return {name: (html / "book" / f"{name}.html").read_text(encoding="utf-8") for name in names}


def slug(outcome: str) -> str:
    return outcome.replace(" ", "-")


def test_a_row_has_the_outcome_and_the_evidence_of_the_verdict_and_a_link_to_its_cell(claims):
    rows = dict(re.findall(r'<tr[^>]*id="claim-([a-z]-\d+)"(.*?)</tr>', claims, re.DOTALL))
    assert rows.keys() == {claim.id.lower() for claim in ledger.claims()}
    for verdict in ledger.collect().values():
        claim, row = ledger.claim_of(verdict.id), rows[verdict.id.lower()]
        assert f'<span class="verdict-badge {slug(verdict.outcome)}">{verdict.outcome}</span>' in row
        assert f'href="{claim.chapter}.html#verdict-{verdict.id.lower()}"' in row
        words = re.findall(r"[A-Za-z]{6,}", re.sub(r"\$.*?\$|\{.*?\}`.*?`|`.*?`", "", verdict.evidence))
        assert all(word in row for word in words), verdict.id


def test_what_may_surprise_comes_first_in_the_table(claims):
    table = claims.split('class="definitions"')[0]
    rows = re.findall(r'<tr class="[^"]*claim-row[^"]*outcome-([a-z-]+)[^"]*" id="claim-([a-z]-\d+)"', table)
    assert {name.upper() for _, name in rows} == {claim.id for claim in ledger.testable()}
    assert list(dict.fromkeys(outcome for outcome, _ in rows)) == [
        slug(outcome) for outcome in ledger.ORDER if slug(outcome) in dict(rows)
    ]
    for outcome in dict(rows):
        led = [not ledger.claim_of(name.upper()).headline for of, name in rows if of == outcome]
        assert led == sorted(led), "a claim that stands on its document's card leads those of its outcome"


def test_definitions_stand_in_a_folded_table_a_document_with_how_many_hold(claims):
    found = ledger.collect()
    for letter in ledger.DOCUMENTS:
        own = [claim.id for claim in ledger.claims() if claim.id[0] == letter and claim.is_definition]
        hold = sum(found[name].outcome == "reproduced" for name in own)
        summary = rf"{letter} · [^<]*: {len(own)}, of which {hold} holds? as printed"
        (table,) = re.findall(rf"<summary>{summary}</summary>.*?</details>", claims, re.DOTALL) if own else [""]
        assert {name.lower() for name in own} == set(re.findall(r'id="claim-([a-z]-\d+)"', table))


def test_a_verdict_says_what_the_document_says_and_what_we_found_and_folds_the_rest(chapters):
    for verdict in ledger.collect().values():
        page = chapters[ledger.claim_of(verdict.id).chapter]
        box = page.split(f'id="verdict-{verdict.id.lower()}"')[1].split('<div class="verdict ')[0]
        shown, detail = box.split('<details class="verdict-detail"><summary>Detail and condition</summary>')[:2]
        assert re.search(r"<em>The document says:</em>.*<em>We found:</em>", shown, re.DOTALL)
        assert "<em>In detail:</em>" not in shown
        assert bool(verdict.more) == ("<em>In detail:</em>" in detail)
        code = re.search(r"<pre>(.*?)</pre>", detail, re.DOTALL)[1]
        assert (
            re.sub(r"<.*?>|\s", "", code)[:20]
            == re.sub(r"\s", "", verdict.condition.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))[:20]
        )


def test_the_surprising_comes_first_in_a_chapter_and_what_holds_is_folded(chapters):
    for name, page in chapters.items():
        for cell in page.split('<div class="cell ')[1:]:
            order = re.findall(r'<div class="verdict ([a-z-]+)', cell)
            assert order == sorted(order, key=[slug(outcome) for outcome in ledger.ORDER].index), name
            folded = "".join(re.findall(r'<details class="verdicts-expected">.*', cell, re.DOTALL))
            assert folded.count('<div class="verdict ') == order.count("reproduced")


def test_the_published_copy_has_every_claim_and_names_every_cell(html):
    copy = json.loads((html / "ledger.json").read_text())
    found = ledger.collect()
    assert {row["id"]: row["outcome"] for row in copy["claims"]} == {
        claim.id: found[claim.id].outcome for claim in ledger.claims()
    }
    for row in copy["claims"]:
        assert row["cell"] == f"book/{ledger.claim_of(row['id']).chapter}.html#verdict-{row['id'].lower()}"


def test_what_is_shown_is_a_label_of_a_page():
    pages = [page.read_text(encoding="utf-8") for page in execution.pages().values()]
    labels = {next(filter(None, match)) for page in pages for match in LABEL.findall(page)}
    assert {c.id: c.shown for c in ledger.claims() if not c.shown or not set(c.shown.split()) <= labels} == {}


def test_every_verdict_that_may_surprise_says_why_it_matters():
    surprising = [v.id for v in ledger.collect().values() if v.outcome != "reproduced"]
    assert [i for i in surprising if not ledger.claim_of(i).matters] == []


def test_the_figure_counts_what_the_cells_said_of_claims_that_could_be_otherwise():
    own = [v for v in verdicts() if not ledger.claim_of(v.id).is_definition]
    counts = ledger.count({v.id: v for v in verdicts() if v not in own[-2:]})
    assert counts["K"]["corrected"] == len(own) - 2
    assert counts["K"]["open"] == 2
    assert sum(n for its in counts.values() for n in its.values()) == len(ledger.testable())
    assert f"GPT-2's attention biases: {len(own) - 2} corrected, 2 open;" in claims_page.alt(counts)


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
