"""Smallest counterexamples: exact ranks of matrices of whole numbers, and a walk through all small ones.

A counterexample here is a proof: no rounding enters. Ranks of measured matrices are in ``rank``.
"""

import itertools
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np


def exact_rank(matrix: Sequence[Sequence[int | Fraction]] | np.ndarray) -> int:
    """Return the rank of a matrix of whole numbers or fractions, by elimination without rounding.

    >>> exact_rank([[1, 2], [2, 4]]), exact_rank([[0, 0]])
    (1, 0)
    >>> exact_rank([[Fraction(1, 3), 1], [1, 3]])
    1
    """
    rows = _fractions("matrix", matrix)
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


def _fractions(name: str, matrix: Sequence[Sequence[int | Fraction]] | np.ndarray) -> list[list[Fraction]]:
    """Take the entries as fractions; floating numbers are refused, since what they were rounded from is lost."""
    entries = np.asarray(matrix, dtype=object)
    if entries.ndim != 2:
        raise ValueError(f"{name} must be a matrix, rows of one length; got shape {entries.shape}")
    for entry in entries.flat:
        if not isinstance(entry, numbers.Rational | np.integer):
            raise ValueError(f"{name} must hold whole numbers or fractions, got {entry!r}")
    return [[Fraction(int(e) if isinstance(e, np.integer) else e) for e in row] for row in entries]


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

    >>> first_counterexample(lambda m: exact_rank(m) == 0,
    ...                      small_matrices([(1, 1)], (0, 3)))
    (array([[3]], dtype=object),)
    """
    return next((case for case in itertools.product(*walks) if not claim(*case)), None)


def solution(A: np.ndarray, x: Sequence[int]) -> list[Fraction] | None:
    """Solve ``A u = x`` in fractions: one solution, or ``None`` where ``x`` lies outside the column space.

    >>> solution(np.array([[2, 0], [0, 0]]),
    ...          [1, 0]), solution(np.array([[2, 0], [0, 0]]), [1, 1])
    ([Fraction(1, 2), Fraction(0, 1)], None)
    """
    rows, right = _fractions("A", A), _fractions("x", [list(x)])[0]
    if len(rows) != len(right):
        raise ValueError(f"x must have one entry for each of the {len(rows)} rows, got {len(right)}")
    width = np.shape(A)[1]
    rows = [[*row, last] for row, last in zip(rows, right, strict=True)]
    pivots: list[int] = []
    for column in range(width):
        pivot = next((r for r in range(len(pivots), len(rows)) if rows[r][column] != 0), None)
        if pivot is None:
            continue
        here = len(pivots)
        rows[here], rows[pivot] = rows[pivot], rows[here]
        rows[here] = [entry / rows[here][column] for entry in rows[here]]
        for r in range(len(rows)):
            if r != here:
                rows[r] = [a - rows[r][column] * b for a, b in zip(rows[r], rows[here], strict=True)]
        pivots.append(column)
    if any(row[-1] != 0 for row in rows[len(pivots) :]):
        return None
    u = [Fraction(0)] * width
    for r, column in enumerate(pivots):
        u[column] = rows[r][-1]
    return u


def rank_change(A: np.ndarray, x: Sequence[int], y: Sequence[int]) -> int:
    r"""Predict :math:`\mathrm{rank}(A + xy^T) - \mathrm{rank} A` for non-zero ``x`` and ``y``: 1, 0 or -1.

    1 if ``x`` is outside the column space and ``y`` outside the row space; -1 if both are inside and
    ``1 + y^T u = 0`` for a ``u`` with ``A u = x`` (then for every such ``u``); else 0.

    Proposition 3.2.2 of "The geometry of BERT" lacks the last condition.

    >>> one = np.array([[1]])
    >>> rank_change(one, [1], [1]), rank_change(one, [1], [-1]), rank_change(0 * one,
    ...                                                                      [1], [1])
    (0, -1, 1)
    """
    if np.shape(A) != (len(x), len(y)):
        raise ValueError(f"A must be {(len(x), len(y))} to fit x and y, got shape {np.shape(A)}")
    u = solution(A, x)
    inside = solution(np.asarray(A).T, y) is not None
    if u is None and not inside:
        return 1
    return -1 if u is not None and inside and 1 + sum(a * b for a, b in zip(y, u, strict=True)) == 0 else 0
