"""The study behind the chapter on gates: the ideal patterns of attention maps, and what a BERT shows of them."""

from book.studies.bert_gates import claims, findings, tables
from book.studies.bert_gates.measure import measure

__all__ = ["claims", "findings", "measure", "tables"]
