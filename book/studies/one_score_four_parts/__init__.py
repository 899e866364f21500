"""The study of the chapter on the whole score: heads from formulas, and what each part of the score explains."""

from book.studies.one_score_four_parts import findings, tables
from book.studies.one_score_four_parts.measure import Measured, measure
from book.studies.one_score_four_parts.parts import SIX, VOCABULARY, gate_shares
from book.studies.one_score_four_parts.shares import PARTS

__all__ = ["PARTS", "SIX", "VOCABULARY", "Measured", "findings", "gate_shares", "measure", "tables"]
