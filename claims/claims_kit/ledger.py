"""The ledger: what a paper claims, what the verdicts on it can be, and both as data with a schema."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from importlib import resources
from pathlib import Path

import yaml

NAME = "claims.yml"
MIME = "application/vnd.analysis.verdict+json"
MEANINGS = {
    "reproduced": "The computation agrees with the claim as stated.",
    "corrected": "The claim is true after a correction, which is stated and tested.",
    "conditional": "The claim is true under a condition, which is stated, and a case is shown where it fails.",
    "holds on a stand-in": "The claim holds on the nearest model, which is named; the document's own cannot be had.",
    "fails on a stand-in": "The claim fails on the nearest model, which is named; the document's own cannot be had.",
    "not reproduced": "The computation contradicts the claim in the document's own setting.",
    "not testable": "What the test needs cannot be had; the nearest test is shown.",
}
OUTCOMES = tuple(MEANINGS)
OPEN = "open"  # the outcome of a claim that has no verdict
ORDER = (
    "not reproduced",
    "fails on a stand-in",
    "corrected",
    "conditional",
    "not testable",
    "holds on a stand-in",
    "reproduced",
)
"""What may surprise comes first: what fails, what is misprinted, what holds in some cases only."""
TURNED = "# turned by "  # begins the line of a condition that names a counterfeit


class BadLedger(ValueError):
    """The claims or the verdicts are inconsistent; the message says which id and where."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper, or of another document.

    ``claim`` says it in our words, ``quote`` in the document's own, which stand at ``place``. ``setting`` is what it
    says so of: models, data, numbers. ``kind`` is ``definition`` for definitions, identities and arithmetic, which are
    judged and not counted. ``matters`` says what depends on it, where the verdict may surprise.
    """

    id: str
    place: str
    claim: str
    quote: str = ""
    setting: str = ""
    kind: str = ""
    matters: str = ""

    @property
    def is_definition(self) -> bool:
        """Say whether it is a definition, an identity or arithmetic."""
        return self.kind == "definition"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim (one of :data:`OUTCOMES`) with the sentence of evidence.

    ``more`` is what else was computed; ``condition`` is the code without whose truth there would be no verdict, with a
    line for each counterfeit that turns it; ``where`` is the page, or the file and line, that judges.
    """

    id: str
    outcome: str
    evidence: str
    more: str = ""
    condition: str = ""
    where: str = ""

    @property
    def counterfeits(self) -> list[str]:
        """Return the forged measurements that the condition refused."""
        return [line.removeprefix(TURNED) for line in self.condition.splitlines() if line.startswith(TURNED)]


def load(path: Path, make: type[Claim] = Claim) -> tuple[dict, tuple[Claim, ...]]:
    """Read what a file says of the paper, and its claims in order; refuse one that is not whole.

    The file is a list of claims, or has such a list under ``claims`` and the rest under ``paper``.
    """
    try:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        paper, rows = (body.get("paper") or {}, body["claims"]) if isinstance(body, dict) else ({}, body)
        paper = {key: str(said) for key, said in paper.items() if said}
        claims = tuple(_claim(row, f"entry {n}", make) for n, row in enumerate(rows, 1))
    except (OSError, AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise BadLedger(f"{path} cannot be read as a list of claims: {error}") from None
    ids = [c.id for c in claims]
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise BadLedger(f"{path} lists {', '.join(twice)} more than once")
    return paper, claims


def _claim(row: dict, entry: str, make: type[Claim]) -> Claim:
    """Make a claim of an entry; say which field is unknown, missing or no text."""
    entry, known = f"{entry} ({row['id']})" if "id" in row else entry, {each.name: each for each in fields(make)}
    if unknown := [str(name) for name in row if name not in known]:
        raise ValueError(f"{entry} has the field {unknown[0]}; the fields are {', '.join(known)}")
    if missing := [name for name, each in known.items() if each.default is MISSING and name not in row]:
        raise ValueError(f"{entry} lacks {', '.join(missing)}")
    if strange := [name for name, said in row.items() if not isinstance(said, str)]:
        raise ValueError(f"{entry}: {strange[0]} must be text, in quotes where it looks like a number")
    return make(**row)


def find(claims: Iterable[Claim], claim_id: str, outcome: str = OUTCOMES[0]) -> Claim:
    """Return the claim with this id; refuse an id that the ledger lacks, and what is no outcome."""
    if outcome not in OUTCOMES:
        raise BadLedger(f"{claim_id}: there is no outcome {outcome!r}; the outcomes are {', '.join(OUTCOMES)}")
    for claim in claims:
        if claim.id == claim_id:
            return claim
    raise BadLedger(f"{claim_id} is not in the ledger")


def gather(claims: Iterable[Claim], given: Iterable[Verdict]) -> dict[str, Verdict]:
    """Return verdicts by id; refuse a second verdict on a claim, and one on what is no claim or with no outcome."""
    known, verdicts = {claim.id for claim in claims}, {}
    for new in given:
        if new.outcome not in OUTCOMES or new.id not in known:
            raise BadLedger(f"{new.where} judges {new.id} {new.outcome!r}, which is no claim or no outcome")
        if new.id in verdicts:
            raise BadLedger(f"{new.id} has two verdicts: in {verdicts[new.id].where} and in {new.where}")
        verdicts[new.id] = new
    return verdicts


def outcome_of(claim: Claim, verdicts: Mapping[str, Verdict]) -> str:
    """Return the outcome of a claim, ``open`` where it has none."""
    return verdicts[claim.id].outcome if claim.id in verdicts else OPEN


def surprising_first(claims: Iterable[Claim], verdicts: Mapping[str, Verdict]) -> list[Claim]:
    """Put claims in the order of :data:`ORDER`, open ones last; what is equal stays as it was."""
    return sorted(claims, key=lambda claim: (*ORDER, OPEN).index(outcome_of(claim, verdicts)))


def count(claims: Iterable[Claim], verdicts: Mapping[str, Verdict]) -> dict[str, int]:
    """Count the outcomes of claims, all that there are and ``open``; definitions are not counted."""
    counts = dict.fromkeys((*OUTCOMES, OPEN), 0)
    for claim in claims:
        counts[outcome_of(claim, verdicts)] += not claim.is_definition
    return counts


def counted(counts: Mapping[str, int]) -> str:
    """Write counts of outcomes in words.

    >>> counted({"reproduced": 2, "corrected": 1, "conditional": 0})
    '3 claims: 2 reproduced, 1 corrected'
    """
    total, each = sum(counts.values()), (f"{n} {outcome}" for outcome, n in counts.items() if n)
    return f"{total} claim{'s' * (total != 1)}: {', '.join(each)}"


def row(claim: Claim, verdict: Verdict | None, where: str | None = None) -> dict:
    """Return a claim with its verdict as plain data that fits :func:`schema`."""
    return {
        **{each.name: getattr(claim, each.name) for each in fields(Claim)},
        "kind": claim.kind or "claim",
        **{name: verdict and getattr(verdict, name) for name in ("outcome", "evidence", "more")},
        "condition": verdict and verdict.condition.partition(f"\n{TURNED}")[0],
        "counterfeits": verdict.counterfeits if verdict else [],
        "cell": where or (verdict and verdict.where),
    }


def schema() -> dict:
    """Return the JSON schema of a judged paper, with rows under ``claims``."""
    return json.loads(resources.files("claims_kit").joinpath("schema.json").read_text(encoding="utf-8"))
