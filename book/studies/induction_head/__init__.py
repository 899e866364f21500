"""The induction head by hand: the slides' six matrices, their tables and readings, and transformers that learn it."""

from book.studies.induction_head import claims, tables
from book.studies.induction_head.measure import measure

__all__ = ["claims", "measure", "tables"]
