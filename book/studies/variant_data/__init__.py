"""The case study's data: how far simple classifiers get, and what the trained one reads."""

from book.studies.variant_data import claims
from book.studies.variant_data.measure import measure

__all__ = ["claims", "measure"]
