"""The study behind the page on rank collapse and LayerNorm: what keeps rows apart, and what costs a rank."""

from book.studies.bert_rank import claims, tables
from book.studies.bert_rank.measure import measure

__all__ = ["claims", "measure", "tables"]
