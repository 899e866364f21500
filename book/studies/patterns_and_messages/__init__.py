"""Attention as patterns and messages: the rewriting, what belongs to a head, its spectra, and where the form stops."""

from book.studies.patterns_and_messages import claims, tables
from book.studies.patterns_and_messages.measure import measure

__all__ = ["claims", "measure", "tables"]
