"""The ideal gates held to the paper's formulas."""

from book.studies.bert_gates.ideal_gates.measure import IdealGates, measure_ideal_gates

__all__ = ["IdealGates", "measure_ideal_gates"]
