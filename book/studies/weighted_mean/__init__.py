"""Attention as a weighted mean: when a layer returns the mean of its inputs, and how far trained heads are from it."""

from book.studies.weighted_mean import claims, tables
from book.studies.weighted_mean.measure import measure

__all__ = ["claims", "measure", "tables"]
