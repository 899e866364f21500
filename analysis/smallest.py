"""Smallest counterexamples: exact ranks of matrices of whole numbers, and a walk through all small ones.

What is found here is a proof: no rounding enters. Ranks of measured matrices are in ``rank``.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np


def exact_rank(matrix: Sequence[Sequence[int]] | np.ndarray) -> int:
    """Return the rank of a matrix of whole numbers or fractions, by elimination without rounding.

    >>> exact_rank([[1, 2], [2, 4]]), exact_rank([[0, 0]])
    (1, 0)
    """
    rows = [[Fraction(entry) for entry in row] for row in np.asarray(matrix).tolist()]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in range(rank, len(rows)) if rows[r][column] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for r in range(rank + 1, len(rows)):
            factor = rows[r][column] / rows[rank][column]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[rank], strict=True)]
        rank += 1
    return rank


def small_matrices(shapes: Iterable[tuple[int, int]], entries: Sequence[int]) -> Iterator[np.ndarray]:
    """Walk through every matrix of the given shapes with entries from ``entries``, smallest shape first as given.

    >>> [m.tolist() for m in small_matrices([(1, 2)], (0, 1))]
    [[[0, 0]], [[0, 1]], [[1, 0]], [[1, 1]]]
    """
    for rows, columns in shapes:
        for flat in itertools.product(entries, repeat=rows * columns):
            yield np.array(flat, dtype=object).reshape(rows, columns)


def first_counterexample(claim: Callable[..., bool], *walks: Iterable[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """Return the first matrix (or tuple of matrices, the last walk fastest) for which ``claim`` is false, else None.

    >>> first_counterexample(lambda m: exact_rank(m) == 0, small_matrices([(1, 1)], (0, 3)))
    (array([[3]], dtype=object),)
    """
    return next((case for case in itertools.product(*walks) if not claim(*case)), None)
