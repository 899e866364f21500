"""The study of what the adapter reads: every family of the table against the modules of transformers themselves."""

from book.studies.what_it_reads import findings, tables
from book.studies.what_it_reads.measure import measure

__all__ = ["findings", "measure", "tables"]
