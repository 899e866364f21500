"""The claims ledger: what the documents say, and the verdicts that chapters' cells emit.

``book/claims.yml`` lists the claims; the cells of a page judge them (:mod:`book.publish.judge`), it emits their
verdicts, and the build and the command line collect what the pages emitted with :func:`collect`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from book.publish.phrases import as_math, breakable

ROOT = Path(__file__).parents[2]
FILE = ROOT / "book" / "claims.yml"
MIME = "application/vnd.analysis.verdict+json"
MEANINGS = {
    "reproduced": "The computation agrees with the claim as stated.",
    "corrected": "The claim is true after a correction that the chapter states and tests.",
    "conditional": "The claim is true under a condition that the chapter states, and a case is shown where it fails.",
    "holds on a stand-in": "The claim holds on the nearest model, which is named; the document's own cannot be had.",
    "fails on a stand-in": "The claim fails on the nearest model, which is named; the document's own cannot be had.",
    "not reproduced": "The computation contradicts the claim in the document's own setting.",
    "not testable": "What the test needs cannot be had; the nearest test is shown.",
}
OUTCOMES = tuple(MEANINGS)
DETAIL = "In detail:"  # what these words begin is folded
CONDITION = "The verdict rests on:"
DOCUMENTS = {
    "K": "GPT-2's attention biases",
    "M": "Attention as a weighted mean",
    "I": "Induction-head slides",
    "P": "Patterns and messages",
    "B": "The geometry of BERT",
}
SOURCES = {
    "K": "kamoda-posenc",
    "M": "llmsbook-attention",
    "I": "umd-induction",
    "P": "mccormick2025patterns",
    "B": "bonino2025geometry",
}  # keys of book/references.bib
PLACES = {
    "K": ("section", "the page's"),
    "M": ("section", "the chapter's"),
    "I": ("slide", "the slides'"),
    "P": ("step", "the post's"),
    "B": ("section", "the paper's"),
}  # what a bare number and an element are called


_TEXT, _OR_NONE = {"type": "string", "minLength": 1}, {"type": ["string", "null"]}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "The claims of five documents about attention, with the verdicts of the book Attention, Taken Apart",
    "type": "object",
    "additionalProperties": False,
    "required": ["documents", "outcomes", "claims"],
    "properties": {
        "documents": {
            "type": "object",
            "description": "A document's letter and its short name.",
            "additionalProperties": _TEXT,
        },
        "outcomes": {
            "type": "object",
            "description": "What a verdict can be, and what that means.",
            "additionalProperties": _TEXT,
        },
        "claims": {
            "type": "array",
            "description": "One entry a claim, in the order of the documents.",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": [
                    *("id", "kind", "document", "place", "claim", "quote"),
                    *("outcome", "evidence", "more", "condition", "cell"),
                ],
                "properties": {
                    "id": {"type": "string", "pattern": "^[A-Z]-[0-9]+$", "description": "Letter and number."},
                    "kind": {
                        "enum": ["claim", "definition"],
                        "description": "Definitions, identities and arithmetic are judged too, and not counted.",
                    },
                    "document": {"type": "string", "description": "The document's letter."},
                    "place": {**_TEXT, "description": "Where the document says it."},
                    "claim": {**_TEXT, "description": "What it says, in the book's words (MyST, with TeX in dollars)."},
                    "quote": {"type": "string", "description": "What it says, verbatim; empty where it is a formula."},
                    "outcome": {**_OR_NONE, "description": "One of the outcomes; null where no cell has judged it."},
                    "evidence": {**_OR_NONE, "description": "The computed reason, in one sentence (MyST)."},
                    "more": {**_OR_NONE, "description": "What else was computed (MyST); empty where that is all."},
                    "condition": {
                        **_OR_NONE,
                        "description": "The condition without which the cell gives no verdict, as the code writes it.",
                    },
                    "cell": {**_OR_NONE, "description": "Page and anchor of the cell's output, relative to the book."},
                },
            },
        },
    },
}
"""JSON schema of what :func:`publish` returns; it lies beside the published copy.

:meta hide-value:
"""


class BadLedger(ValueError):
    """The claims file or the emitted verdicts are inconsistent; the message says which id and where."""


@dataclass(frozen=True)
class Claim:
    """One statement of a document, in our words.

    ``quote`` is what the document says, verbatim. ``kind`` is ``definition`` for definitions, identities and
    arithmetic, which are listed apart and not counted. ``chapter`` is the page that judges it. ``shown`` names the
    labels of that page, separated by blanks, that show what decides it. ``matters`` says what depends on it, where the
    verdict may surprise. ``headline`` is the claim in a sentence, where the first page names it.
    """

    id: str
    document: str
    place: str
    claim: str
    chapter: str
    quote: str = ""
    kind: str = ""
    shown: str = ""
    matters: str = ""
    headline: str = ""

    @property
    def is_definition(self) -> bool:
        """Say whether it is a definition, an identity or arithmetic."""
        return self.kind == "definition"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim (one of :data:`OUTCOMES`) with the sentence of evidence, emitted by ``chapter``.

    ``more`` is what else was computed; ``condition`` is the code without whose truth there would be no verdict.
    """

    id: str
    outcome: str
    evidence: str
    more: str = ""
    condition: str = ""
    chapter: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {
            "text/plain": f"{self.id} {self.outcome}: {self.evidence}",
            "text/markdown": self._explained(claim_of(self.id)),
            MIME: {k: v for k, v in asdict(self).items() if k != "chapter"},
        }

    def _explained(self, claim: Claim) -> str:
        parts = [
            f"**{self.id} · {self.outcome}** · {place(claim)}",
            f"*The document says:* {breakable(claim.claim)}" + (f" “{claim.quote}”" if claim.quote else ""),
            f"*We found:* {as_math(self.evidence)}",
        ]
        if claim.matters:
            parts.append(f"*Why it matters:* {claim.matters}")
        if self.more:
            parts.append(f"*{DETAIL}* {as_math(self.more)}")
        if self.condition:
            parts.append(f"*{CONDITION}*\n\n```python\n{self.condition}\n```")
        return "\n\n".join(parts)


def place(claim: Claim) -> str:
    """Say where a document makes a claim, so that its own numbers cannot be taken for ours.

    Examples
    --------
    >>> place(Claim("B-72", "", "5.1, Fig.8", "", "")), place(Claim("B-18", "", "(3.4)", "", ""))
    ("section 5.1, the paper's Fig. 8", "the paper's (3.4)")
    """
    section, theirs = PLACES[claim.id[0]]
    words = re.sub(r"^(\d(?:\.\d+)*)(?=,|$)", rf"{section} \1", re.sub(r"Fig\.(?=\d)", "Fig. ", claim.place))
    return re.sub(r"([Ff]ig\. \d|Table \d|\(\d\.\d|Thm|Prop|Rem|eq \d|line \d)", rf"{theirs} \1", words, count=1)


def claim_of(claim_id: str) -> Claim:
    """Return the claim with this id; refuse an id that the ledger lacks."""
    try:
        return {claim.id: claim for claim in claims()}[claim_id]
    except KeyError:
        raise BadLedger(f"{claim_id} is not in the ledger") from None


@cache
def claims(path: Path = FILE) -> tuple[Claim, ...]:
    """Read the claims, in order; refuse a file with a repeated id, an unknown field or document."""
    import yaml

    if not path.is_file():
        raise BadLedger(f"there is no {path}: run this in a checkout of the book, the package alone has no claims")
    try:
        rows = yaml.safe_load(path.read_text(encoding="utf-8"))
        ledger = tuple(Claim(**row) for row in rows)
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        raise BadLedger(f"{path} cannot be read as a list of claims: {error}") from None
    if strange := [c.id for c in ledger if not all(isinstance(said, str) for said in asdict(c).values())]:
        raise BadLedger(f"{path}: the fields of {strange[0]} must be text, in quotes where they look like numbers")
    ids = [c.id for c in ledger]
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise BadLedger(f"{path} lists {', '.join(twice)} more than once")
    if unknown := [i for i in ids if i[:1] not in DOCUMENTS]:
        raise BadLedger(
            f"{path}: {unknown[0]} belongs to no known document ({', '.join(DOCUMENTS)}); a new one needs "
            "its letter in DOCUMENTS, SOURCES and PLACES of book/publish/ledger.py"
        )
    return ledger


def testable() -> list[Claim]:
    """Return the claims that say something which could be otherwise: all but definitions, identities and arithmetic."""
    return [claim for claim in claims() if not claim.is_definition]


def collect(folder: Path = ROOT / "book" / "recorded") -> dict[str, Verdict]:
    """Gather the verdicts among the chapters' text outputs (one JSON file a chapter).

    Raises
    ------
    BadLedger
        If two cells judge the same claim, one judges what is no claim, or a file is not whole.
    """
    known, verdicts = {c.id for c in claims()}, {}
    for path in sorted(folder.rglob("*.json")):
        for new in _emitted(path, path.relative_to(folder).with_suffix("").as_posix()):
            if new.outcome not in OUTCOMES or new.id not in known:
                raise BadLedger(f"{path} judges {new.id} {new.outcome!r}, which is no claim or no outcome")
            if new.id in verdicts:
                raise BadLedger(f"{new.id} has two verdicts: in {verdicts[new.id].chapter} and in {new.chapter}")
            verdicts[new.id] = new
    return verdicts


def _emitted(path: Path, page: str) -> list[Verdict]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        cells = body["cells"] if isinstance(body, dict) else body
        return [
            Verdict(**out["data"][MIME], chapter=page)
            for cell in cells
            for out in cell["outputs"]
            if MIME in out.get("data", {})
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadLedger(f"{path} is not a whole file of recorded outputs: {error!r}") from None


def publish(verdicts: Mapping[str, Verdict]) -> dict:
    """Return the ledger as plain data that fits :data:`SCHEMA`: every claim, with its verdict where it has one."""
    rows = []
    for claim in claims():
        judged = verdicts.get(claim.id)
        page = judged and f"book/{judged.chapter or claim.chapter}.html#verdict-{claim.id.lower()}"
        rows.append(
            {
                "id": claim.id,
                "kind": claim.kind or "claim",
                "document": claim.id[0],
                "place": claim.place,
                "claim": claim.claim,
                "quote": claim.quote,
                "outcome": judged and judged.outcome,
                "evidence": judged and judged.evidence,
                "more": judged and judged.more,
                "condition": judged and judged.condition,
                "cell": page,
            }
        )
    return {"documents": dict(DOCUMENTS), "outcomes": dict(MEANINGS), "claims": rows}


def count(verdicts: Mapping[str, Verdict]) -> dict[str, dict[str, int]]:
    """Count the verdicts: document's letter to outcome to number; a claim without one counts as ``open``.

    Definitions are not counted.
    """
    counts = {letter: dict.fromkeys((*OUTCOMES, "open"), 0) for letter in DOCUMENTS}
    for claim in testable():
        counts[claim.id[0]][verdicts[claim.id].outcome if claim.id in verdicts else "open"] += 1
    return counts
