"""The information stream: what a layer of BERT mixes, and what can be read back from its output."""

from book.studies.bert_stream import claims, tables
from book.studies.bert_stream.measure import measure

__all__ = ["claims", "measure", "tables"]
