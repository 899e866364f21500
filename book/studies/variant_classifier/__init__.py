"""The classifier of virus variants, taken apart: its weights and maps, its rows and their sums, training and seeds."""

from book.studies.variant_classifier import claims
from book.studies.variant_classifier.measure import measure

__all__ = ["claims", "measure"]
