"""The study of the query bias: what it adds to the score of every key, above all to those of the positions of GPT-2."""

from book.studies.semi_bias import claims, tables
from book.studies.semi_bias.measure import measure

__all__ = ["claims", "measure", "tables"]
