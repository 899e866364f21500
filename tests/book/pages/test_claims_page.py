"""The claims page: what it shows of a verdict, what it counts, and that a claim left open fails the build."""

import itertools
import json
import re

import pytest
from sphinx.application import Sphinx

from analysis.core.files import write_json
from book._ext import claims as claims_page
from book._ext import verdicts as shown_verdicts
from book.publish import execution, ledger

PAGE = "# The claims\n\n```{claims-filter}\n```\n\n```{claims-table}\n```\n\n```{definitions-table}\n```\n"
OTHERS = sorted({claim.chapter for claim in ledger.claims()} - {"evidence/semi-bias"})
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


def emitted(verdict: ledger.Verdict) -> dict:
    return {"output_type": "display_data", "metadata": {}, "data": verdict._repr_mimebundle_()}


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return a function that builds a book of a chapter with the given verdicts, and gives page and warnings."""

    def build(
        verdicts: list[ledger.Verdict],
        chapters: tuple[str, ...] = ("evidence/semi-bias",),
        awaited: tuple[str, ...] = (),
        finding: str = "K-15",
    ) -> tuple[str, str]:
        folder = tmp_path / "executed"
        cells = [
            {
                "cell_type": "code",
                "metadata": {},
                "execution_count": 1,
                "source": "x",
                "outputs": [emitted(v) for v in verdicts],
            }
        ]
        write_json(folder / "evidence" / "semi-bias.json", {"digest": "one", "cells": cells})
        monkeypatch.setattr(execution, "executed_path", lambda: folder)
        source = tmp_path / "source"
        (source / "book" / "evidence").mkdir(parents=True, exist_ok=True)
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 4,
            "metadata": {},
            "cells": [{"cell_type": "markdown", "metadata": {}, "source": "# Semi-bias"}, *cells],
        }
        (source / "book" / "claims.md").write_text(PAGE)
        (source / "book" / "findings.md").write_text("# Findings\n\nWe found: {evidence}`" + finding + "`\n")
        (source / "book" / "glance.md").write_text(build.extra)
        for name in chapters:
            (source / "book" / f"{name}.ipynb").write_text(json.dumps(notebook))
        warnings = tmp_path / "warnings"
        with warnings.open("w") as stream:
            app = Sphinx(
                str(source),
                None,
                str(tmp_path / "html"),
                str(tmp_path / "doctrees"),
                "html",
                confoverrides={**CONFIG, "claims_awaited": [*OTHERS, *awaited]},
                status=None,
                warning=stream,
                freshenv=True,
            )
            app.build()
        pages = {p.stem: p.read_text() for p in (tmp_path / "html" / "book").rglob("*.html")}
        build.findings, build.pages = pages["findings"], pages
        return pages["claims"], pages.get("semi-bias", ""), warnings.read_text()

    build.extra = "# Nothing\n"
    return build


def verdicts(letter: str = "K") -> list[ledger.Verdict]:
    return [ledger.Verdict(c.id, "corrected", "The $n$ differ by 1.") for c in ledger.claims() if c.id[0] == letter]


def turned() -> list[ledger.Verdict]:
    """Return verdicts of all outcomes, one after the other."""
    kinds = itertools.cycle(ledger.OUTCOMES)
    return [ledger.Verdict(v.id, outcome, v.evidence) for v, outcome in zip(verdicts(), kinds, strict=False)]


def test_evidence_is_quoted_on_another_page_with_a_link_to_its_cell(build):
    _, _, warnings = build(verdicts())
    said = re.search(r"We found: (.*?)</p>", build.findings, re.DOTALL)[1]
    assert "differ by 1." in said
    assert "math" in said
    assert 'href="evidence/semi-bias.html#verdict-k-15"' in said
    assert "verdict-k-15" not in warnings


def test_the_number_of_claims_is_computed_where_a_page_names_it(build):
    build.extra = "# Numbers\n\n{claims-number}`all` in all, {claims-number}`K` of K, {claims-number}`Z` of none.\n"
    _, _, warnings = build(verdicts())
    said = re.search(r"<p>(.*?in all.*?)</p>", build.pages["glance"], re.DOTALL)[1]
    of_k = sum(claim.id[0] == "K" for claim in ledger.testable())
    assert said.startswith(f"{len(ledger.testable())} in all, {of_k} of K")
    assert "claims-number takes 'all', 'definitions' or a document's letter" in warnings


def test_evidence_without_a_verdict_is_a_link_and_without_a_claim_an_error(build):
    build([v for v in verdicts() if v.id != "K-15"], awaited=("evidence/semi-bias",))
    assert "differ by 1." not in build.findings
    assert "Cell in “Evidence: the bias that does not cancel”" in build.findings
    assert "K-99 is not in the ledger" in build(verdicts(), finding="K-99")[2]


def test_a_verdict_is_shown_with_its_evidence_and_a_link_to_its_cell(build):
    claims, chapter, warnings = build(verdicts())
    row = re.search(r'<tr[^>]*id="claim-k-15".*?</tr>', claims, re.DOTALL)[0]
    assert "corrected" in row
    assert "differ by 1." in row
    assert r"\(n\)" in row
    assert 'href="evidence/semi-bias.html#verdict-k-15"' in row
    assert 'id="verdict-k-15"' in chapter
    assert "no verdict" not in warnings


def test_what_may_surprise_comes_first_in_the_table(build):
    claims, *_ = build(turned())
    table = claims.split('class="definitions"')[0]
    rows = re.findall(r'<tr class="[^"]*claim-row ([^"]*)" id="claim-([a-z]-\d+)"', table)
    assert len(rows) == len(ledger.testable())
    outcomes = [re.search(r"outcome-([a-z-]+)", classes)[1] for classes, _ in rows]
    assert list(dict.fromkeys(outcomes)) == [*map(shown_verdicts.slug, shown_verdicts.ORDER), "open"]
    corrected = [ledger.claim_of(name.upper()) for classes, name in rows if "outcome-corrected" in classes]
    led = [not claim.headline for claim in corrected]
    assert led == sorted(led), "a claim that stands on its document's card leads those of its outcome"
    assert [name for classes, name in rows if "outcome-open" in classes][-1] == ledger.testable()[-1].id.lower()


def test_definitions_stand_in_a_folded_table_a_document_with_how_many_hold(build):
    claims, *_ = build(turned())
    own = [v for v in turned() if ledger.claim_of(v.id).is_definition]
    hold = sum(v.outcome == "reproduced" for v in own)
    assert 0 < hold < len(own)
    summary = rf"K · [^<]*: {len(own)}, of which {hold} hold as printed"
    (table,) = re.findall(rf"<summary>{summary}</summary>.*?</details>", claims, re.DOTALL)
    assert {v.id.lower() for v in own} == set(re.findall(r'id="claim-([a-z]-\d+)"', table))


def test_a_claim_that_its_chapter_leaves_open_is_a_warning(build):
    _, _, warnings = build(verdicts()[:-2])
    assert "WARNING" in warnings
    assert "semi-bias is in the book and gives no verdict on K-27, K-28" in warnings


def test_a_claim_whose_chapter_is_not_in_the_book_is_open_and_a_warning(build):
    claims, _, warnings = build([], chapters=())
    assert "semi-bias is not in the book and gives no verdict on K-01" in warnings
    assert claims.count(">open<") >= len(verdicts())


def test_two_verdicts_on_one_claim_fail(build):
    _, _, warnings = build([*verdicts(), verdicts()[0]])
    assert "K-01 has two verdicts" in warnings


def test_what_is_shown_is_a_label_of_a_page():
    pages = [page.read_text(encoding="utf-8") for page in execution.pages().values()]
    labels = {next(filter(None, match)) for page in pages for match in LABEL.findall(page)}
    assert {c.id: c.shown for c in ledger.claims() if not set(c.shown.split()) <= labels} == {}


def test_every_claim_says_where_it_is_shown():
    assert [c.id for c in ledger.claims() if not c.shown] == []


def test_every_verdict_that_may_surprise_says_why_it_matters():
    surprising = [v.id for v in ledger.collect().values() if v.outcome != "reproduced"]
    assert [i for i in surprising if not ledger.claim_of(i).matters] == []


def test_a_verdict_says_what_the_document_says_and_what_we_found(build):
    _, chapter, _ = build(verdicts())
    box = re.search(r'<div class="[^"]*verdict[^>]*id="verdict-k-15".*?</div>', chapter, re.DOTALL)[0]
    assert re.search(r"<em>The document says:</em>.*<em>We found:</em> The .* differ by 1", box, re.DOTALL)
    assert "the key bias never changes the attention" in box
    assert "is a constant and have no effect on" in box


def test_the_surprising_comes_first_and_what_holds_is_folded(build):
    _, chapter, _ = build(turned())
    order = re.findall(r'<div class="[^"]*verdict ([a-z-]+)', chapter)
    assert list(dict.fromkeys(order)) == [shown_verdicts.slug(outcome) for outcome in shown_verdicts.ORDER]
    assert set(shown_verdicts.ORDER) == set(ledger.OUTCOMES)
    assert shown_verdicts.ORDER[-1] == "reproduced"
    folded = re.findall(r'<details class="verdicts-expected">.*?</details>', chapter, re.DOTALL)
    assert ["claim" in fold.split("</summary>")[0] for fold in folded] == [True, False]
    held = [v.id.lower() for v in turned() if v.outcome == "reproduced"]
    assert sorted(re.findall(r'id="verdict-(k-\d+)"', "".join(folded))) == sorted(held)


def test_the_rest_of_the_evidence_and_the_condition_unfold_below_a_verdict(build):
    folded = ledger.Verdict("K-15", "corrected", "It is 3.", "In other models it is $n$.", "a, b = m.both\na < b")
    _, chapter, _ = build([folded if v.id == "K-15" else v for v in verdicts()])
    box = re.search(r'<div class="[^"]*verdict[^>]*id="verdict-k-15".*?</details>', chapter, re.DOTALL)[0]
    shown, detail = box.split("<details", 1)
    assert "It is 3." in shown
    assert "In other models" not in shown
    assert detail.startswith(' class="verdict-detail"><summary>Detail and condition</summary>')
    assert "In other models it is" in detail
    assert r"\(n\)" in detail
    assert "a, b = m.both\na < b" in re.sub("<[^>]*>", "", detail).replace("&lt;", "<")
    assert chapter.count('class="verdict-detail"') == 1


def test_only_chapters_that_are_awaited_may_leave_claims_open(build):
    _, _, warnings = build([], chapters=(), awaited=("evidence/semi-bias",))
    assert "no verdict" not in warnings


def test_the_published_copy_has_every_claim_and_names_every_cell(build, tmp_path):
    build(verdicts())
    copy = json.loads((tmp_path / "html" / "ledger.json").read_text())
    assert len(copy["claims"]) == len(ledger.claims())
    row = next(c for c in copy["claims"] if c["id"] == "K-15")
    assert row["outcome"] == "corrected"
    assert row["cell"] == "book/evidence/semi-bias.html#verdict-k-15"
    assert next(c for c in copy["claims"] if c["id"] == "B-01")["outcome"] is None


def test_the_figure_counts_what_the_cells_said_of_claims_that_could_be_otherwise():
    own = [v for v in verdicts() if not ledger.claim_of(v.id).is_definition]
    counts = ledger.count({v.id: v for v in verdicts() if v not in own[-2:]})
    assert counts["K"]["corrected"] == len(own) - 2
    assert counts["K"]["open"] == 2
    assert sum(n for its in counts.values() for n in its.values()) == len(ledger.testable())
    assert f"GPT-2's attention biases: {len(own) - 2} corrected, 2 open;" in claims_page.alt(counts)
