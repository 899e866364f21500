"""Judge a paper claim by claim, with conditions that forged measurements must turn."""

from claims_kit.judging import judge
from claims_kit.ledger import MEANINGS, OUTCOMES, BadLedger, Claim, Verdict

__all__ = ["MEANINGS", "OUTCOMES", "BadLedger", "Claim", "Verdict", "judge"]
