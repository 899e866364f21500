"""What the page on rank collapse states without judging a claim; the condition can fail."""

from analysis.models.controls import LARGE, PERMUTED
from book.studies.bert_rank.measure import Measured

UNMOVED = 0.01  # of the residual, as the first page says


def rows_stay_apart_without_mlps(m: Measured) -> bool:
    """Taking MiniLM's MLPs out leaves its residual, on every document above that of controls without theirs."""
    without = m.rungs["without the MLP"]
    highest = max(without.controls[rung][:, -1].max() for rung in (LARGE, PERMUTED))
    moved = abs(m.ladder_numbers.mlp - m.ladder_numbers.whole)
    return bool(moved < UNMOVED and without.documents[:, -1].min() > highest)
