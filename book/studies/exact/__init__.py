"""The study of what the adapter reads: every family of the table against the modules of transformers themselves."""

from book.studies.exact import findings, tables
from book.studies.exact.measure import measure

__all__ = ["findings", "measure", "tables"]
