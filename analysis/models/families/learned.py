"""Positions that are parameters of the attention: T5's buckets, BEiT's tables, DeBERTa's rows.

What belongs here: reading them. What does not: positions that options describe
(:mod:`analysis.models.families.positions`).
"""

from collections.abc import Callable

from analysis.core.positions import Positions

READERS: dict[str, Callable[..., Positions]] = {}
"""By the name that a row's ``positions`` returns."""
