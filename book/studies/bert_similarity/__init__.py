"""The study behind the page on what Q and K measure: how a trained BERT stretches and compares its rows."""

from book.studies.bert_similarity import claims, tables
from book.studies.bert_similarity.measure import measure
from book.studies.bert_similarity.networks import observe_models

__all__ = ["claims", "measure", "observe_models", "tables"]
