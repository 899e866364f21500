"""Which models were trained for the chapter on rotary positions."""

from collections.abc import Iterable

from book.lab.training import neox_mini

SEEDS = 3
RUNS = tuple((name, seed) for name in neox_mini.VARIANTS for seed in range(SEEDS))
"""Variant and seed."""


def seeds_of(name: str, runs: Iterable[tuple[str, int]] = RUNS) -> list[int]:
    """Return where the seeds of a variant stand among the runs.

    >>> seeds_of("b", [("a", 0), ("b", 0), ("b", 1)])
    [1, 2]
    """
    return [k for k, (variant, _) in enumerate(runs) if variant == name]
