"""The text of "The geometry of BERT" and its code: what the paper says, what the released code computes."""

from book.studies.text_and_code import findings, tables
from book.studies.text_and_code.measure import measure

__all__ = ["findings", "measure", "tables"]
