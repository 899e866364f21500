"""The ledger: the claims of the documents, and how the verdicts on them are gathered from executed pages."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from book.publish import execution, ledger
from book.publish.ledger import MIME, BadLedger


def recorded(folder, chapter, *rows):
    said = [dict(zip(("id", "outcome", "evidence"), row)) for row in rows]
    outputs = [{"output_type": "display_data", "data": {MIME: each}} for each in said]
    (folder / f"{chapter}.json").write_text(json.dumps([{"source": "", "outputs": outputs}]))


COUNTED = r"(\w+) (?:of the |of their |of its )?(claims|statements|verdicts|documents)\b"
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
FIRST = ("README.md", "CITATION.cff", "book/intro.md")
"""What is read first."""


def counts(text: str) -> set[tuple[int, str]]:
    """Return what a text counts of the ledger: numbers before claims, statements, verdicts and documents."""
    found = re.findall(COUNTED, text.lower())
    return {(WORDS.index(n) + 1 if n in WORDS else int(n), what) for n, what in found if n in WORDS or n.isdigit()}


@pytest.mark.parametrize("name", FIRST)
def test_what_is_read_first_counts_as_the_ledger_does(name):
    """Pages compute the number of claims (``claims-number``); README and CITATION cannot."""
    counted = counts((ledger.ROOT / name).read_text(encoding="utf-8"))
    due = {(len(ledger.testable()), "claims"), (len(ledger.DOCUMENTS), "documents")}
    assert counted <= due
    assert ((len(ledger.testable()), "claims") in counted) == (not name.endswith("intro.md"))


def test_the_readme_counts_outcomes_as_the_ledger_does():
    text = (ledger.ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("hold on a", "holds on a").replace("fail on a", "fails on a")
    verdicts = ledger.collect()
    found = Counter(verdicts[claim.id].outcome for claim in ledger.testable())
    said = {outcome: int(n) for n, outcome in re.findall(rf"(\d+) ({'|'.join(ledger.OUTCOMES)})\b", text)}
    assert said == dict(found)
    definitions = [verdicts[claim.id].outcome for claim in ledger.claims() if claim.is_definition]
    assert f"Their {len(definitions)} definitions" in text
    assert f"; {definitions.count('corrected')} are misprinted" in text


def test_every_document_has_claims_and_no_page_types_their_number():
    assert {claim.id[0] for claim in ledger.claims()} == set(ledger.DOCUMENTS)
    pages = {name: page.read_text(encoding="utf-8") for name, page in execution.pages().items()}
    assert [name for name, text in pages.items() if re.search(r"\b\d{3} (claims|statements)\b", text)] == []


def test_evidence_is_one_sentence_of_at_most_25_words():
    verdicts = ledger.collect().values()
    long = {v.id for v in verdicts if len(v.evidence.split()) > 25 or re.search(r"[.!?] (?=[A-Z$(`])", v.evidence)}
    assert not long
    assert [v.id for v in verdicts if not v.evidence.endswith(".")] == []


def test_every_verdict_is_recorded_with_the_condition_that_it_rests_on():
    assert [v.id for v in ledger.collect().values() if not v.condition] == []


def test_the_words_of_a_claim_are_those_that_were_judged():
    """Otherwise: hold the page's condition to the new words, then record the page."""
    verdicts, claims = ledger.collect(), ledger.claims()
    assert [c.id for c in claims if c.id in verdicts and verdicts[c.id].words != ledger.words_of(c)] == []
    assert len({ledger.words_of(claim) for claim in claims}) == len(claims)


@pytest.mark.parametrize("field", ["claim", "headline", "setting", "quote"])
def test_a_claim_with_other_words_is_another(field):
    claim = next(claim for claim in ledger.claims() if claim.headline)
    words = ledger.words_of(replace(claim, **{field: "Most heads."}))
    assert words != ledger.words_of(claim)
    assert words.isalpha(), "digits would be compared as numbers"


def test_a_missing_claims_file_says_where_to_run(tmp_path):
    with pytest.raises(BadLedger, match="run this in a checkout"):
        ledger.claims(tmp_path / "claims.yml")


def test_collect(tmp_path):
    recorded(tmp_path, "one", ("K-01", "reproduced", "e"), ("K-02", "corrected", "f"))
    recorded(tmp_path, "two", ("M-01", "conditional", "g"))
    found = ledger.collect(tmp_path)
    assert list(found) == ["K-01", "K-02", "M-01"]
    assert found["M-01"].where == "two"
    recorded(tmp_path, "three", ("K-01", "reproduced", "e"))
    with pytest.raises(BadLedger, match="K-01 has two verdicts"):
        ledger.collect(tmp_path)
    (tmp_path / "three.json").unlink()
    executed = json.loads((tmp_path / "two.json").read_text())
    (tmp_path / "two.json").write_text(json.dumps({"digest": "1", "cells": executed}))
    assert ledger.collect(tmp_path)["M-01"].where == "two", "an executed page has a digest beside its cells"
    (tmp_path / "three.json").write_text("[{")
    with pytest.raises(BadLedger, match="not a whole file"):
        ledger.collect(tmp_path)


@pytest.mark.parametrize(
    ("emitted", "message"),
    [
        ([1], "not a whole file"),
        ({"outcome": "reproduced"}, "not a whole file"),
        (None, "not a whole file"),
        ({"id": "Z-9", "outcome": "reproduced", "evidence": "e"}, "Z-9 'reproduced', which is no claim"),
        ({"id": "K-01", "outcome": "splendid", "evidence": "e"}, "K-01 'splendid', which is no claim or no outcome"),
    ],
)
def test_what_is_no_verdict_is_refused(tmp_path, emitted, message):
    (tmp_path / "one.json").write_text(json.dumps([{"outputs": [{"data": {ledger.MIME: emitted}}]}]))
    with pytest.raises(BadLedger, match=message):
        ledger.collect(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"- {id: 5, document: d, place: p, claim: c, chapter: x}", b"", b"- null", b"- [", b"a: 1"],
)
def test_what_is_no_list_of_claims_is_refused(tmp_path, content):
    (tmp_path / "claims.yml").write_bytes(content)
    with pytest.raises(BadLedger, match=r"claims\.yml"):
        ledger.claims(tmp_path / "claims.yml")


def test_claims_file_is_checked(tmp_path):
    row = "{id: K-01, document: d, place: p, claim: c, chapter: x}"
    (tmp_path / "claims.yml").write_text(f"- {row}\n- {row}\n")
    with pytest.raises(BadLedger, match="K-01 more than once"):
        ledger.claims(tmp_path / "claims.yml")
    (tmp_path / "new.yml").write_text(f"- {row.replace('K-01', 'X-01')}\n")
    with pytest.raises(BadLedger, match="X-01 belongs to no known document"):
        ledger.claims(tmp_path / "new.yml")
    (tmp_path / "bad.yml").write_text("- {id: K-01, colour: red}\n")
    with pytest.raises(BadLedger, match="cannot be read"):
        ledger.claims(tmp_path / "bad.yml")
