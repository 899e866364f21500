"""The printed statements on ranks, and the corrected ones, tried on every small matrix of whole numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from analysis.matrices.exact_ranks import exact_rank, first_counterexample, small_matrices
from book.studies.bert_rank import statements

Matrix = list[list[int]]
SHAPES = ((2, 2), (2, 3), (3, 2), (3, 3))
"""Fewer rows than columns, as many, and more; the paper's matrices have 512 rows and 768 columns."""


@dataclass(frozen=True)
class Examples:
    """The smallest counterexamples to printed statements, and how many cases there are of the true ones."""

    lost: Matrix  # loses a rank when it is centred
    lost_ranks: tuple[int, int]  # before and after
    gained: Matrix  # gains one when 1 E^T is subtracted
    gained_ranks: tuple[int, int]
    update: tuple[Matrix, Matrix, Matrix]  # A, x, y
    update_change: int  # of the rank, where the printed rule says -1
    pairs: int
    pairs_failing: int
    triples: int
    triples_failing: int  # of our rule
    printed_failing: int  # of the rule as printed
    drops_outside: int  # the rank falls although a vector lies outside: the printed rule's other direction
    falls_by_more: int  # by more than one, against (3.10)


@dataclass(frozen=True)
class CentredCases:
    """What centring does to the rank of every small matrix without a constant row.

    ``inside`` counts the matrices whose row space holds the all-one row, ``outside`` the others; ``wide`` are those
    ``inside`` that have fewer rows than columns, as the paper's have. ``losing`` counts those of ``inside`` that lose
    exactly one rank, ``keeping`` those of ``outside`` that keep theirs, ``gaining`` all that gain any.
    """

    inside: int
    outside: int
    wide: int
    losing: int
    keeping: int
    gaining: int

    @property
    def decided(self) -> bool:
        """Whether the row space decides in all of them, and both cases occur."""
        return self.losing == self.inside > 0 and self.keeping == self.outside > 0 and self.wide > 0


def find_examples() -> Examples:
    """Walk through small matrices, smallest shapes first."""
    (lost,) = first_counterexample(statements.layer_norm_keeps_rank, small_matrices([(1, 2), (2, 2), (3, 3)], (0, 1)))
    (gained,) = first_counterexample(
        statements.rank_grows_by_less_than_one, small_matrices([(2, 2), (3, 3)], (0, 1, 2))
    )
    A, x, y = first_counterexample(
        statements.printed_rule_for_updates, *(small_matrices([(1, 1)], (0, 1)) for _ in range(3))
    )
    pairs = [
        case
        for shape, entries in (((2, 2), (-1, 0, 1)), ((2, 3), (0, 1)))
        for case in product(*(small_matrices([shape], entries) for _ in range(2)))
    ]
    return Examples(
        lost=lost.tolist(),
        lost_ranks=(exact_rank(lost), exact_rank(statements.centred(lost))),
        gained=gained.tolist(),
        gained_ranks=(exact_rank(gained), exact_rank(statements.centred_as_printed(gained))),
        update=(A.tolist(), x.tolist(), y.tolist()),
        update_change=exact_rank(A + x @ y) - exact_rank(A),
        pairs=len(pairs),
        pairs_failing=sum(not statements.rule_for_sums(*pair) for pair in pairs),
        **try_updates(),
    )


def try_updates() -> dict[str, int]:
    """Try the printed and the corrected rule for updates of rank one on all small triples."""
    triples = list(product(*(small_matrices([shape], (-1, 0, 1)) for shape in ((2, 2), (2, 1), (1, 2)))))
    wrong = [triple for triple in triples if not statements.printed_rule_for_updates(*triple)]
    changes = [exact_rank(A + x @ y) - exact_rank(A) for A, x, y in triples]
    return {
        "triples": len(triples),
        "triples_failing": sum(not statements.rule_for_updates(*t) for t in triples),
        "printed_failing": len(wrong),
        "falls_by_more": sum(change < -1 for change in changes),
        "drops_outside": sum(exact_rank(A + x @ y) < exact_rank(A) for A, x, y in wrong),
    }


def try_centring(shapes: Sequence[tuple[int, int]] = SHAPES, entries: Sequence[int] = (0, 1)) -> CentredCases:
    """Centre every small matrix and count.

    >>> cases = try_centring([(2, 2)])
    >>> cases.inside, cases.losing, cases.outside, cases.keeping
    (2, 2, 2, 2)
    """
    cases = []
    for X in small_matrices(shapes, entries):
        if statements.rows_vary(X):
            before, after = exact_rank(X), exact_rank(statements.centred(X))
            ones = np.ones((1, X.shape[1]), dtype=object)
            cases.append((exact_rank(np.vstack([X, ones])) == before, X.shape[0] < X.shape[1], after - before))
    inside, wide, change = np.array(cases).T
    held = inside.astype(bool)
    return CentredCases(
        inside=int(held.sum()),
        outside=int((~held).sum()),
        wide=int((held & wide.astype(bool)).sum()),
        losing=int((change[held] == -1).sum()),
        keeping=int((change[~held] == 0).sum()),
        gaining=int((change > 0).sum()),
    )
