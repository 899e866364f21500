"""The printed statements on ranks, and ours, for matrices of whole numbers: each says whether it is true of its case.

A case that a statement does not speak of, such as a constant row under LayerNorm, counts as true. Means are multiplied
by the width, so that all numbers stay whole and no rank is rounded.
"""

import numpy as np

from analysis.matrices.exact_ranks import exact_rank, rank_change


def rows_vary(X: np.ndarray) -> bool:
    """Say whether no row is constant, so that LayerNorm is defined."""
    return all(len(set(row)) > 1 for row in X.tolist())


def centred(X: np.ndarray) -> np.ndarray:
    """Return the rows less their means, times their width."""
    return X.shape[1] * X - X.sum(1)[:, None]


def centred_as_printed(X: np.ndarray) -> np.ndarray:
    """Return what (3.9) subtracts, one times the transposed means, for a square matrix, times its width."""
    return X.shape[1] * X - X.sum(1)[None, :]


def layer_norm_keeps_rank(X: np.ndarray) -> bool:
    """LayerNorm plays no role in the rank."""
    return not rows_vary(X) or exact_rank(centred(X)) == exact_rank(X)


def rank_grows_by_less_than_one(X: np.ndarray) -> bool:
    """(3.9) as printed, for a square matrix."""
    return not rows_vary(X) or exact_rank(centred_as_printed(X)) < exact_rank(X) + 1


def printed_rule_for_updates(A: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    """Proposition 3.2.2: the rank falls by one exactly if x lies in the column space and y in the row space."""
    if not x.any() or not y.any():
        return True
    inside = exact_rank(np.hstack([A, x])) == exact_rank(A) == exact_rank(np.vstack([A, y]))
    return (exact_rank(A + x @ y) == exact_rank(A) - 1) == inside


def rule_for_updates(A: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    """Our theorem on updates of rank one."""
    if not x.any() or not y.any():
        return True
    change = exact_rank(A + x @ y) - exact_rank(A)
    return change == rank_change(A, x.ravel().tolist(), y.ravel().tolist())


def rule_for_sums(A: np.ndarray, B: np.ndarray) -> bool:
    """Theorem 3.2.1: ranks of sums, with the condition of equality."""
    total, of_sum = exact_rank(A) + exact_rank(B), exact_rank(A + B)
    apart = exact_rank(np.hstack([A, B])) == exact_rank(np.vstack([A, B])) == total
    return of_sum <= total and (of_sum == total) == apart
