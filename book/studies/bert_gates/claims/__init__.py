"""The claims of section 4 of "The geometry of BERT" about the patterns of attention maps."""

from book.studies.bert_gates.claims import formulas, maps

__all__ = ["formulas", "maps"]
