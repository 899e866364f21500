"""What the chapter on the whole score holds its models and its formulas to; each condition can fail."""

from collections.abc import Mapping, Sequence

from book.studies.one_score_four_parts.measure import EXACT, Measured

ROUNDING = 1e-6  # nats


def identity_is_exact(m: Measured) -> bool:
    """The attention of the product with a border is that of every model's own modules."""
    return max(m.exactness.errors.values()) < EXACT


def parts_sum_to_divergence(m: Measured) -> bool:
    """The shares of the parts sum to the divergence of every row, in every model."""
    return max(m.exactness.gaps.values()) < ROUNDING


def gates_are(shares: Sequence[Mapping[str, float]], expected: Sequence[set[str]]) -> bool:
    """The gates of a formula's maps, without a mask and with one, are those that must be there, and no other."""
    return [set(of_map) for of_map in shares] == list(expected)
