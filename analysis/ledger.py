"""The claims ledger: what the documents say, and the verdicts that chapters' cells emit.

``book/claims.yml`` lists the claims. A cell calls :func:`verdict`; the build and the command line collect what the
cells emitted with :func:`collect`. A verdict whose computed condition is false does not come about: the cell fails.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

_CHECKOUT = Path(__file__).parents[1]
# The checkout; for a package installed without it, the folder one stands in.
ROOT = _CHECKOUT if (_CHECKOUT / "book" / "claims.yml").is_file() else Path()
MIME = "application/vnd.analysis.verdict+json"
OUTCOMES = ("reproduced", "corrected", "conditional", "not reproduced", "not testable")
DOCUMENTS = {"K": "GPT-2's attention biases", "M": "Attention as a weighted mean", "I": "Induction-head slides",
             "P": "Patterns and messages", "B": "The geometry of BERT"}


class BadLedger(ValueError):
    """The claims file or the emitted verdicts are inconsistent; the message says which id and where."""


@dataclass(frozen=True)
class Claim:
    """One statement of a document, in our words; ``chapter`` is the page that judges it, ``test`` how."""

    id: str
    document: str
    place: str
    claim: str
    chapter: str
    test: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim (one of :data:`OUTCOMES`) with the sentence of evidence, emitted by ``chapter``."""

    id: str
    outcome: str
    evidence: str
    chapter: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        text = f"{self.id} {self.outcome}: {self.evidence}"
        return {"text/plain": text, "text/markdown": f"**{self.id} · {self.outcome}.** {self.evidence}",
                MIME: {k: v for k, v in asdict(self).items() if k != "chapter"}}


@cache
def claims(path: Path = ROOT / "book" / "claims.yml") -> tuple[Claim, ...]:
    """Read the claims, in order; refuse a file with a repeated id or an unknown field."""
    import yaml
    if not path.is_file():
        raise BadLedger(f"there is no {path}: run this in a checkout of the book, the package alone has no claims")
    try:
        rows = yaml.safe_load(path.read_text())
        found = tuple(Claim(**row) for row in rows)
    except (OSError, TypeError, yaml.YAMLError) as error:
        raise BadLedger(f"{path} cannot be read as a list of claims: {error}") from None
    ids = [c.id for c in found]
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise BadLedger(f"{path} lists {', '.join(twice)} more than once")
    return found


def verdict(id: str, outcome: str, evidence: str, *, holds: bool) -> None:
    """Emit the verdict on a claim as an output of the running cell.

    Parameters
    ----------
    id
        The claim, such as ``K-15``.
    outcome
        One of :data:`OUTCOMES`.
    evidence
        A sentence with the computed numbers.
    holds
        The computed condition on which the outcome rests.

    Raises
    ------
    BadLedger
        If the id is in no ledger, the outcome is none of the five, or ``holds`` is nan.
    AssertionError
        If ``holds`` is false: then the verdict is wrong and the chapter must not build.
    """
    if outcome not in OUTCOMES:
        raise BadLedger(f"outcome must be one of {', '.join(OUTCOMES)}, got {outcome!r}")
    if id not in {c.id for c in claims()}:
        raise BadLedger(f"{id} is not in the ledger")
    if isinstance(holds, float) and math.isnan(holds):
        raise BadLedger(f"{id}: holds must be a computed truth value, got {holds}")
    if not bool(holds):
        raise AssertionError(f"{id}: the verdict {outcome!r} does not follow from the computation: {evidence}")
    from IPython.display import display
    display(Verdict(id, outcome, evidence))


def collect(folder: Path = ROOT / "tests" / "recorded") -> dict[str, Verdict]:
    """Gather the verdicts among the chapters' text outputs (one JSON file a chapter).

    Raises
    ------
    BadLedger
        If two cells judge the same claim, or a file is not whole.
    """
    found: dict[str, Verdict] = {}
    for path in sorted(folder.glob("*.json")):
        for emitted in _emitted(path):
            new = Verdict(**emitted, chapter=path.stem)
            if new.id in found:
                raise BadLedger(f"{new.id} has two verdicts: in {found[new.id].chapter} and in {path.stem}")
            found[new.id] = new
    return found


def _emitted(path: Path) -> Iterable[dict]:
    try:
        cells = json.loads(path.read_text())
        return [out["data"][MIME] for cell in cells for out in cell["outputs"] if MIME in out.get("data", {})]
    except (ValueError, KeyError, TypeError) as error:
        raise BadLedger(f"{path} is not a whole file of recorded outputs: {error!r}") from None
