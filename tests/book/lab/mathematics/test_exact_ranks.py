"""Exact ranks and the walk through small matrices."""

from fractions import Fraction

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis.matrices import rank
from book.lab.mathematics import exact_ranks


def test_fractions_are_exact_where_floats_are_not():
    tiny = 10**40
    assert exact_ranks.exact_rank([[tiny, tiny + 1], [tiny - 1, tiny]]) == 2
    assert exact_ranks.exact_rank(np.zeros((0, 3), dtype=int)) == 0


def test_search_finds_the_smallest_in_order_and_none_where_there_is_none():
    def walk():
        return exact_ranks.small_matrices([(1, 1), (2, 2)], (0, 1))

    (found,) = exact_ranks.first_counterexample(lambda m: exact_ranks.exact_rank(m) < 2, walk())
    assert found.tolist() == [[0, 1], [1, 0]]
    assert exact_ranks.first_counterexample(lambda m: exact_ranks.exact_rank(m) < 3, walk()) is None
    left, right = exact_ranks.small_matrices([(1, 1)], (1, 2)), exact_ranks.small_matrices([(1, 1)], (-2,))
    pair = exact_ranks.first_counterexample(lambda a, b: exact_ranks.exact_rank(a + b) > 0, left, right)
    assert [m.item() for m in pair] == [2, -2]


vectors = st.lists(st.integers(-2, 2), min_size=3, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.lists(vectors, min_size=2, max_size=2), vectors, st.lists(st.integers(-2, 2), min_size=2, max_size=2))
def test_rank_one_updates_change_the_rank_as_predicted(rows, y, x):
    A = np.array(rows, dtype=object)
    if any(x) and any(y):
        change = exact_ranks.exact_rank(A + np.outer(x, y)) - exact_ranks.exact_rank(A)
        assert change == exact_ranks.rank_change(A, x, y)


@given(st.lists(vectors, min_size=2, max_size=2), vectors)
def test_solutions_solve(rows, u):
    A = np.array(rows, dtype=object)
    found = exact_ranks.solution(A, (A @ np.array(u, dtype=object)).tolist())
    assert (A @ np.array(found, dtype=object) == A @ np.array(u, dtype=object)).all()


@pytest.mark.parametrize("bad", [[1, 2], 3, [[1.5]], [[np.nan]], [["1"]], [[[1]]], np.ones((2, 2)), [[1], [1, 2]]])
def test_what_is_no_matrix_of_whole_numbers_is_refused(bad, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    with pytest.raises(ValueError, match=r"matrix|inhomogeneous"):
        exact_ranks.exact_rank(bad)


def test_sides_must_fit():
    with pytest.raises(ValueError, match="one entry for each of the 2 rows"):
        exact_ranks.solution(np.eye(2, dtype=int), [1, 2, 3])
    with pytest.raises(ValueError, match="A must be"):
        exact_ranks.rank_change(np.eye(2, dtype=int), [1, 2], [1])


small_integers = hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.integers(-2, 2))


@settings(max_examples=100, deadline=None)
@given(small_integers)
def test_exact_and_numerical_rank_agree(matrix):
    assert exact_ranks.exact_rank(matrix) == rank.numerical_rank(torch.from_numpy(matrix).double()).rank


@settings(max_examples=100, deadline=None)
@given(small_integers)
def test_centring_costs_a_rank_exactly_where_ones_lie_in_the_row_space(matrix):
    x = torch.from_numpy(matrix).double()
    centred = matrix.shape[1] * matrix - matrix.sum(1, keepdims=True)
    with_ones = exact_ranks.exact_rank(np.vstack([matrix, np.ones_like(matrix[:1])]))
    inside = with_ones == exact_ranks.exact_rank(matrix)
    assert exact_ranks.exact_rank(centred) == exact_ranks.exact_rank(matrix) - inside
    assert (rank.distance_of_ones(x) < 1e-9) == inside


def test_fractions_keep_what_is_behind_the_point():
    rows = [[Fraction(1, 2), Fraction(1)], [Fraction(1), Fraction(2)]]
    assert exact_ranks.exact_rank(np.array(rows, dtype=object)) == 1
