"""Ranks: exact against numerical, the law of centring, the residual, refusals."""

import doctest

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis import rank
from analysis.axes import LayerNormWeights
from analysis.encoder import ALL_ON, PURE_ATTENTION, encode, encode_layer, random_layers
from analysis.layernorm import centre, layer_norm
from analysis.smallest import exact_rank

small_integers = hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.integers(-2, 2))


def test_examples():
    assert doctest.testmod(rank, extraglobs={"torch": torch}).failed == 0


@settings(max_examples=100, deadline=None)
@given(small_integers)
def test_exact_and_numerical_rank_agree(matrix):
    assert exact_rank(matrix) == rank.numerical_rank(torch.from_numpy(matrix).double()).rank


@settings(max_examples=100, deadline=None)
@given(small_integers)
def test_centring_costs_a_rank_exactly_where_ones_lie_in_the_row_space(matrix):
    x = torch.from_numpy(matrix).double()
    centred = matrix.shape[1] * matrix - matrix.sum(1, keepdims=True)
    with_ones = exact_rank(np.vstack([matrix, np.ones_like(matrix[:1])]))
    inside = with_ones == exact_rank(matrix)
    assert exact_rank(centred) == exact_rank(matrix) - inside
    assert rank.centred_rank(x) == exact_rank(centred)
    assert (rank.distance_of_ones(x) < 1e-9) == inside


def test_real_valued_rows_keep_their_rank_below_the_width_and_lose_one_from_it_on():
    g = torch.Generator().manual_seed(0)
    for rows, due in ((5, 5), (7, 7), (8, 7), (20, 7)):
        x = torch.randn(rows, 8, generator=g, dtype=torch.float64)
        assert rank.numerical_rank(centre(x)).rank == due == rank.centred_rank(x)


def test_rank_comes_with_its_evidence():
    x = torch.diag(torch.tensor([1.0, 1e-3, 1e-20], dtype=torch.float64))
    found = rank.numerical_rank(x)
    assert (found.rank, found.kept, found.dropped) == (2, pytest.approx(1e-3), pytest.approx(1e-20))
    assert rank.numerical_rank(x, cutoff=1e-2).rank == 1
    assert rank.numerical_rank(torch.zeros(2, 3)).rank == 0
    assert rank.numerical_rank(torch.ones(2, 3)).cutoff == pytest.approx(3 * torch.finfo(torch.float32).eps)
    with pytest.raises(ValueError, match="not finite"):
        rank.numerical_rank(torch.full((2, 2), torch.inf))


def test_residual_is_invariant_under_scale_and_order_and_bounded():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 1
    value = rank.residual(x)
    assert 0 < value < 1
    torch.testing.assert_close(rank.residual(-3 * x), value)
    torch.testing.assert_close(rank.residual(x.flip(0)), value)
    torch.testing.assert_close(rank.residual(torch.stack([x, 2 * x])), torch.stack([value, value]))


def test_rows_are_placed_at_the_distance_that_was_asked_for():
    g = torch.Generator().manual_seed(2)
    mean, noise = torch.randn(4, generator=g), torch.randn(6, 4, generator=g)
    for size in (0.9, 0.1, 0.001):
        assert rank.residual(rank.scatter_around_mean(mean, noise, size)).item() == pytest.approx(size, rel=1e-3)
    with pytest.raises(ValueError, match="size"):
        rank.scatter_around_mean(mean, noise, 1.0)


def test_one_layer_of_pure_attention_cubes_a_small_residual():
    g = torch.Generator().manual_seed(3)
    layer = random_layers(1, 2, 16, generator=g)[0]
    mean, noise = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((16,), (6, 16)))
    sizes = torch.tensor([1e-2, 3e-3, 1e-3], dtype=torch.float64)
    after = torch.stack([rank.residual(encode_layer(rank.scatter_around_mean(mean, noise, float(s)), layer,
                                                    PURE_ATTENTION)) for s in sizes])
    assert rank.cubic_rate(sizes, after) == pytest.approx(3, abs=0.1)


def test_ranks_through_norm_follow_its_steps():
    g = torch.Generator().manual_seed(4)
    norm = LayerNormWeights(*torch.randn(2, 8, generator=g, dtype=torch.float64), eps=1e-12)
    for rows, due in ((5, [5, 5, 5, 5, 5]), (20, [8, 7, 7, 7, 8])):
        x = torch.randn(rows, 8, generator=g, dtype=torch.float64)
        assert [step.rank for step in rank.ranks_through_norm(x, norm)] == due
        assert rank.numerical_rank(layer_norm(x, norm)).rank == due[-1]


def test_bias_can_take_a_rank_away():
    x = torch.tensor([[1.0, -1.0, 3.0]], dtype=torch.float64)
    norm = LayerNormWeights(torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64), eps=0.0)
    against = LayerNormWeights(norm.gain, -layer_norm(x, norm)[0], eps=0.0)
    assert [step.rank for step in rank.ranks_through_norm(x, against)] == [1, 1, 1, 1, 0]


def test_residual_is_traced_through_every_state():
    found = rank.random_collapse(16, 1.0, 0, [ALL_ON, PURE_ATTENTION], depth=3, heads=2, rows=6)
    assert found.shape == (2, 4)
    assert found[0, 0] == found[1, 0]
    assert found[1, -1] < 1e-3 < found[0, -1]
    g = torch.Generator().manual_seed(5)
    layers, x = random_layers(2, 2, 8, generator=g), torch.randn(4, 8, generator=g, dtype=torch.float64)
    traced = rank.trace_residual(x, layers, ALL_ON)
    torch.testing.assert_close(traced[-1], rank.residual(encode(x, layers)[-1]))
