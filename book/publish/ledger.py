"""The book's ledger: the claims of five documents, and the verdicts that pages' cells emit.

``book/claims.yml`` lists the claims; the cells of a page judge them (:mod:`book.publish.judge`), it emits their
verdicts, and the build and the command line collect what the pages emitted with :func:`collect`. What a ledger is, and
what a verdict can be, is the kit's (``claims/claims_kit``).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from book.publish.phrases import as_math, breakable
from claims_kit import judging, ledger
from claims_kit.ledger import MEANINGS, MIME, ORDER, OUTCOMES, BadLedger

__all__ = ["MEANINGS", "MIME", "ORDER", "OUTCOMES", "BadLedger"]
ROOT = Path(__file__).parents[2]
FILE = ROOT / "book" / "claims.yml"
ABOUT = {  # of each document: its name, its key of book/references.bib, what a bare number and an element are called
    "K": ("GPT-2's attention biases", "kamoda-posenc", "section", "the page's"),
    "M": ("Attention as a weighted mean", "llmsbook-attention", "section", "the chapter's"),
    "I": ("Induction-head slides", "umd-induction", "slide", "the slides'"),
    "P": ("Patterns and messages", "mccormick2025patterns", "step", "the post's"),
    "B": ("The geometry of BERT", "bonino2025geometry", "section", "the paper's"),
}
DOCUMENTS = {letter: name for letter, (name, *_) in ABOUT.items()}
SOURCES = {letter: key for letter, (_, key, *_) in ABOUT.items()}


@dataclass(frozen=True, kw_only=True)
class Claim(ledger.Claim):
    """One statement of a document.

    ``chapter`` is the page that judges it. ``shown`` names the labels of that page, separated by blanks, that show what
    decides it. ``headline`` is the claim in a sentence, where the first page names it.
    """

    document: str
    chapter: str
    shown: str = ""
    headline: str = ""


@dataclass(frozen=True)
class Verdict(ledger.Verdict):
    """A verdict as a page emits it; ``where`` is the page, ``words`` are those of the claim (:func:`words_of`)."""

    words: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        claim = claim_of(self.id)
        said = judging.explain(claim, self, place=place(claim), formulas=breakable, numbers=as_math)
        return judging.bundle(self, said)


def place(claim: Claim) -> str:
    """Say where a document makes a claim, so that its own numbers cannot be taken for ours.

    >>> places = {"B-72": "5.1, Fig.8", "B-18": "(3.4)"}
    >>> [place(Claim(id=id, place=where, claim="", document="", chapter="")) for id, where in places.items()]
    ["section 5.1, the paper's Fig. 8", "the paper's (3.4)"]
    """
    _, _, section, theirs = ABOUT[claim.id[0]]
    words = re.sub(r"^(\d(?:\.\d+)*)(?=,|$)", rf"{section} \1", re.sub(r"Fig\.(?=\d)", "Fig. ", claim.place))
    return re.sub(r"([Ff]ig\. \d|Table \d|\(\d\.\d|Thm|Prop|Rem|eq \d|line \d)", rf"{theirs} \1", words, count=1)


def claim_of(claim_id: str) -> Claim:
    """Return the claim with this id; refuse an id that the ledger lacks."""
    return ledger.find(claims(), claim_id)


def words_of(claim: Claim) -> str:
    """Return a digest of what a claim says, in letters alone: the record of a page compares digits as numbers.

    It is recorded with the verdict, so that words that change afterwards are judged again.
    """
    said = json.dumps([claim.claim, claim.headline, claim.setting, claim.quote])
    return "".join(chr(ord("a") + byte % 16) for byte in hashlib.sha256(said.encode()).digest()[:16])


@cache
def claims(path: Path = FILE) -> tuple[Claim, ...]:
    """Read the claims, in order; refuse a file with a repeated id, an unknown field or document."""
    if not path.is_file():
        raise BadLedger(f"there is no {path}: run this in a checkout of the book, the package alone has no claims")
    _, rows = ledger.load(path, Claim)
    if unknown := [claim.id for claim in rows if claim.id[:1] not in DOCUMENTS]:
        raise BadLedger(
            f"{path}: {unknown[0]} belongs to no known document ({', '.join(DOCUMENTS)}); a new one needs "
            "its letter in ABOUT of book/publish/ledger.py"
        )
    return rows


def testable() -> list[Claim]:
    """Return the claims that say something which could be otherwise: all but definitions, identities and arithmetic."""
    return [claim for claim in claims() if not claim.is_definition]


def collect(folder: Path = ROOT / "book" / "recorded") -> dict[str, Verdict]:
    """Gather the verdicts among the chapters' text outputs (one JSON file a chapter)."""
    given = (verdict for path in sorted(folder.rglob("*.json")) for verdict in _emitted(path, folder))
    return ledger.gather(claims(), given)


def _emitted(path: Path, folder: Path) -> list[Verdict]:
    page = path.relative_to(folder).with_suffix("").as_posix()
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        cells = body["cells"] if isinstance(body, dict) else body
        data = [out.get("data", {}) for cell in cells for out in cell["outputs"]]
        return [Verdict(**each[MIME], where=page) for each in data if MIME in each]
    except (ValueError, KeyError, TypeError) as error:
        raise BadLedger(f"{path} is not a whole file of recorded outputs: {error!r}") from None


def publish(verdicts: Mapping[str, Verdict]) -> dict:
    """Return the ledger as plain data: every claim, with its verdict where it has one."""
    rows = []
    for claim in claims():
        judged = verdicts.get(claim.id)
        cell = judged and f"book/{judged.where or claim.chapter}.html#verdict-{claim.id.lower()}"
        rows.append({**ledger.row(claim, judged), "document": claim.id[0], "cell": cell})
    return {"documents": dict(DOCUMENTS), "outcomes": dict(MEANINGS), "claims": rows}


def count(verdicts: Mapping[str, Verdict]) -> dict[str, dict[str, int]]:
    """Count the verdicts: document's letter to outcome to number; a claim without one counts as ``open``.

    Definitions are not counted.
    """
    return {letter: ledger.count([c for c in claims() if c.id[0] == letter], verdicts) for letter in DOCUMENTS}
