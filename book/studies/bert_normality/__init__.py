"""Normality, cone index, singular values and entropy: what they tell of a trained BERT and of an untrained one."""

from book.studies.bert_normality import claims, tables
from book.studies.bert_normality.measure import measure

__all__ = ["claims", "measure", "tables"]
