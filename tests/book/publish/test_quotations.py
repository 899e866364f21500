"""What stands in quotation marks and is said to be a document's occurs in it, where the sources lie by the checkout."""

import re
from functools import cache

import pytest

from book.publish import ledger

SOURCES = ledger.ROOT.parent / "shared" / "sources"
NO_FORMULAS = "attention-as-weighted-mean"  # its text has lost them
CELL = re.compile(r"^```+\{code-cell\}.*?^```+$", re.DOTALL | re.MULTILINE)
PAGES = sorted({claim.chapter for claim in ledger.claims()} | {"claims", "evidence/text-and-code"})
by_the_checkout = pytest.mark.skipif(not SOURCES.is_dir(), reason="the documents are not beside the checkout")


def plain(text: str) -> str:
    """Return the words of a text in one line, without markup and in lower case."""
    text = text.replace("’", "'").replace("“", '"').replace("”", '"')
    return " ".join(re.sub(r"[$*_\\{}]", "", re.sub(r"\\text\w*", "", text)).split()).lower()


def quotations(text: str) -> list[str]:
    """Return what stands in quotation marks."""
    return [straight or curled for straight, curled in re.findall(r'"([^"]{3,}?)"|“([^”]+)”', text)]


def missing(text: str, source: str) -> list[str]:
    """Return the quotations of a text of which a part between formulas is not in the source."""

    def parts(quotation):
        return [plain(part).strip(" .,;:") for part in re.split(r"\$[^$]*\$", quotation)]

    return [quotation for quotation in quotations(text) if any(part not in source for part in parts(quotation))]


def bare(text: str) -> str:
    """Return the letters and signs of a text, without spaces, weight of type, column marks and sizes of brackets."""
    return re.sub(r"\s|&", "", plain(re.sub(r"\\(bm|mathbf|left|right)(?![a-z])", "", text)))


@cache
def source(document: str = "*") -> str:
    """Return the words of a document, or of all of them."""
    return plain("\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob(f"{document}.txt"))))


def test_a_quotation_that_drops_a_word_is_found():
    text = 'It says "nothing can be seen from the figure" and "row $i$ has gone" of “a cone”.'
    assert missing(text, "nothing can be seen from the figure itself; row i has gone; a cone") == []
    assert missing(text, "nothing can be seen from figure 2; row i is gone; a Cone") == [*quotations(text)]


@by_the_checkout
def test_the_sources_are_those_of_the_ledger():
    assert {path.stem for path in SOURCES.glob("*.txt")} >= {claim.document for claim in ledger.claims()}


@by_the_checkout
def test_quotations_of_the_claims_are_the_documents_words():
    said = {c: f"{c.claim} {c.headline} {c.matters} “{c.quote}”" for c in ledger.claims()}
    wrong = {c.id: missing(text, source(c.document)) for c, text in said.items()}
    assert {claim_id: quoted for claim_id, quoted in wrong.items() if quoted} == {}


def numbers(text: str) -> set[str]:
    """Return the digits of the numbers of two or more, without the points and commas that documents set otherwise."""
    found = re.findall(r"\d*[.,]?\d{2,}", re.sub(r"\\frac\d\d", "", text))
    return {re.sub(r"[.,]", "", number).lstrip("0") for number in found}


@by_the_checkout
def test_numbers_in_the_words_of_a_claim_are_in_its_document():
    assert numbers(r"49,403, $\frac13(1,2,0)$, .019 and 7") == {"49403", "19"}
    lost = {c.id: numbers(f"{c.claim} {c.headline}") - numbers(source(c.document)) for c in ledger.claims()}
    assert {claim_id: absent for claim_id, absent in lost.items() if absent} == {}


@by_the_checkout
def test_formulas_of_the_quotations_are_the_documents():
    documents = {path.stem: bare(path.read_text(encoding="utf-8")) for path in SOURCES.glob("*.txt")}
    claims = [claim for claim in ledger.claims() if claim.document != NO_FORMULAS]
    formulas = [(claim, formula) for claim in claims for formula in re.findall(r"\$([^$]*)\$", claim.quote)]
    assert [(c.id, formula) for c, formula in formulas if bare(formula) not in documents[c.document]] == []


def test_every_claim_has_a_quotation():
    assert [claim.id for claim in ledger.claims() if claim.kind != "definition" and not claim.quote] == []


@by_the_checkout
def test_quotations_of_the_verdicts_are_a_documents_words():
    wrong = {v.id: missing(f"{v.evidence} {v.more}", source()) for v in ledger.collect().values()}
    assert {claim_id: quoted for claim_id, quoted in wrong.items() if quoted} == {}


@by_the_checkout
@pytest.mark.parametrize("page", PAGES)
def test_quotations_of_more_than_a_word_on_the_documents_pages_are_their_words(page):
    text = CELL.sub("", (ledger.ROOT / "book" / f"{page}.md").read_text(encoding="utf-8"))
    text = re.sub(r"`[^`]*`", "", text)
    assert [quoted for quoted in missing(text, source()) if len(quoted.split()) > 1] == []
