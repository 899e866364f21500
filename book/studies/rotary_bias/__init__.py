"""The study of rotary positions: what the biases of query and key say of distance once nothing cancels."""

from book.studies.rotary_bias import findings, tables
from book.studies.rotary_bias.measure import Measured, measure

__all__ = ["Measured", "findings", "measure", "tables"]
