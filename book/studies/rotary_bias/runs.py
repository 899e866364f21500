"""Which models were trained for the chapter on rotary positions."""

from collections.abc import Iterable

RUNS = (("neox-mini", 0), ("neox-mini", 1), ("neox-mini", 2), ("neox-mini-partial", 0), ("neox-mini-unbiased", 0),
        ("neox-mini-unbiased", 1))
"""Variant and seed."""


def seeds_of(name: str, runs: Iterable[tuple[str, int]] = RUNS) -> list[int]:
    """Return where the seeds of a variant stand among the runs.

    >>> seeds_of("b", [("a", 0), ("b", 0), ("b", 1)])
    [1, 2]
    """
    return [k for k, (variant, _) in enumerate(runs) if variant == name]
