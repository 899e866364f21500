"""Ranks: exact against numerical, the law of centring, the residual, refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis.core.attention_layer import Norm
from analysis.matrices import rank
from analysis.representations import rank_collapse
from analysis.transformer.encoder import PURE_ATTENTION, encode_layer, random_layers
from analysis.transformer.layernorm import apply_norm, centre

small_integers = hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.integers(-2, 2))


def test_real_valued_rows_keep_their_rank_below_the_width_and_lose_one_from_it_on():
    g = torch.Generator().manual_seed(0)
    for rows, due in ((5, 5), (7, 7), (8, 7), (20, 7)):
        x = torch.randn(rows, 8, generator=g, dtype=torch.float64)
        assert rank.numerical_rank(centre(x)).rank == due
        costs = rank.distance_of_ones(x) < 1e-7  # the row of ones lies in the row space
        assert rank.numerical_rank(x).rank - costs == due


def test_rank_comes_with_its_evidence():
    x = torch.diag(torch.tensor([1.0, 1e-3, 1e-20], dtype=torch.float64))
    found = rank.numerical_rank(x)
    assert (found.rank, found.kept, found.dropped) == (2, pytest.approx(1e-3), pytest.approx(1e-20))
    assert rank.numerical_rank(x, cutoff=1e-2).rank == 1
    assert rank.numerical_rank(torch.zeros(2, 3)).rank == 0
    assert rank.numerical_rank(torch.ones(2, 3)).cutoff == pytest.approx(3 * torch.finfo(torch.float32).eps)
    with pytest.raises(ValueError, match="not finite"):
        rank.numerical_rank(torch.full((2, 2), torch.inf))


def test_one_layer_of_pure_attention_cubes_a_small_residual():
    g = torch.Generator().manual_seed(3)
    layer = random_layers(1, 2, 16, generator=g)[0]
    mean, noise = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((16,), (6, 16)))
    sizes = torch.tensor([1e-2, 3e-3, 1e-3], dtype=torch.float64)
    scattered = [rank_collapse.scatter_around_mean(mean, noise, float(size)) for size in sizes]
    after = torch.stack([rank_collapse.residual(encode_layer(x, layer, PURE_ATTENTION)) for x in scattered])
    assert rank_collapse.cubic_rate(sizes, after) == pytest.approx(3, abs=0.1)


def test_ranks_through_norm_follow_its_steps():
    g = torch.Generator().manual_seed(4)
    norm = Norm(*torch.randn(2, 8, generator=g, dtype=torch.float64), eps=1e-12)
    for rows, due in ((5, [5, 5, 5, 5, 5]), (20, [8, 7, 7, 7, 8])):
        x = torch.randn(rows, 8, generator=g, dtype=torch.float64)
        assert [step.rank for step in rank.ranks_through_norm(x, norm)] == due
        assert rank.numerical_rank(apply_norm(x, norm)).rank == due[-1]


def test_bias_can_take_a_rank_away():
    x = torch.tensor([[1.0, -1.0, 3.0]], dtype=torch.float64)
    norm = Norm(torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64), eps=0.0)
    against = Norm(norm.gain, -apply_norm(x, norm)[0], eps=0.0)
    assert [step.rank for step in rank.ranks_through_norm(x, against)] == [1, 1, 1, 1, 0]


@pytest.mark.usefixtures("unchecked")
def test_odd_arguments_are_refused():
    three = torch.eye(3)
    for cutoff in (-1.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="cutoff"):
            rank.numerical_rank(three, cutoff)
    with pytest.raises(ValueError, match="constant row"):
        rank.ranks_through_norm(torch.ones(2, 3), Norm(torch.ones(3), torch.zeros(3), eps=0.0))
    for mean, noise in ((torch.zeros(3), three), (torch.ones(3), torch.ones(2, 3)), (torch.ones(3), three[:1])):
        with pytest.raises(ValueError, match=r"(mean|noise) must"):
            rank_collapse.scatter_around_mean(mean, noise, 0.5)
    with pytest.raises(ValueError, match="size"):
        rank_collapse.scatter_around_mean(torch.ones(3), three, float("nan"))
    sizes = torch.tensor([0.1, 0.01])
    with pytest.raises(ValueError, match="residuals must be positive"):
        rank_collapse.cubic_rate(sizes, torch.tensor([0.1, 0.0]))
    with pytest.raises(ValueError, match="two different"):
        rank_collapse.cubic_rate(torch.tensor([0.1, 0.1]), sizes)


shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=5)
any_matrix = hnp.arrays(np.float64, shapes, elements=st.floats(-1e300, 1e300, allow_subnormal=False))


@settings(max_examples=100, deadline=None)
@given(any_matrix)
def test_residual_and_rank_of_any_matrix(matrix):
    """Whatever the size of the entries: a residual from 0 to 1, and a rank that is 1 at most where it is 0."""
    x = torch.from_numpy(matrix)
    value, found = rank_collapse.residual(x), rank.numerical_rank(x)
    assert 0 <= value <= 1 + 1e-12
    assert 0 <= found.rank <= min(x.shape)
    assert found.dropped <= found.cutoff < max(found.kept, 1.0)
    assert (found.rank == 0) == (matrix == 0).all()
    same = rank_collapse.residual(x[:1].expand(3, -1))
    assert same <= 1e-15


@pytest.mark.parametrize("gain", [0.55, 1.0, 2.0])
def test_a_skip_connection_leaves_the_distances_and_lets_the_mean_row_grow(gain):
    g = torch.Generator().manual_seed(6)
    layer = random_layers(1, 2, 32, gain=gain, generator=g)[0]
    mean, noise = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((32,), (8, 32)))
    with_skip = replace(PURE_ATTENTION, skip=True)
    x = rank_collapse.scatter_around_mean(mean, noise, 1e-4)
    y = encode_layer(x, layer, with_skip)
    torch.testing.assert_close(y - y.mean(0), x - x.mean(0), rtol=1e-5, atol=1e-9)
    W = torch.einsum("hmc,hcn->mn", layer.attention.W_V, layer.attention.W_O)
    factor = mean.norm() / (mean + mean @ W).norm()
    assert rank_collapse.residual(y) / rank_collapse.residual(x) == pytest.approx(factor.item(), rel=1e-3)
    tilt = encode_layer(x, layer, PURE_ATTENTION)
    assert rank_collapse.residual(tilt) < 1e-9


def test_the_cutoff_decides_what_the_rows_span():
    x = torch.tensor([[1.0, 0.0], [0.0, 1e-3]], dtype=torch.float64)
    assert rank.distance_of_ones(x) < 1e-12
    assert rank.distance_of_ones(x, cutoff=0.1) == pytest.approx(0.5**0.5)


def test_a_gain_of_zero_costs_rank():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gain = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    steps = rank.ranks_through_norm(x, Norm(gain, torch.ones(4, dtype=torch.float64)))
    assert [step.rank for step in steps] == [4, 3, 3, 1, 2]


@pytest.mark.parametrize("of", [rank.effective_rank, rank.stable_rank])
def test_ranks_of_spectra_do_not_depend_on_the_scale_and_are_zero_for_nothing(of):
    values = torch.tensor([3.0, 2.0, 1.0])
    for scale in (1e-20, 1e20):
        torch.testing.assert_close(of(scale * values), of(values))
    assert of(torch.zeros(2, 3)).tolist() == [0, 0]
    torch.testing.assert_close(of(torch.ones(4)), torch.tensor(4.0))
    with pytest.raises(ValueError, match=r"svdvals\(matrix\)"):
        of(torch.tensor([[1.0, -2.0], [0.5, 1.0]]))


def test_the_stable_rank_is_that_of_two_norms_and_at_most_the_rank():
    matrix = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = rank.stable_rank(torch.linalg.svdvals(matrix))
    due = torch.linalg.matrix_norm(matrix) ** 2 / torch.linalg.matrix_norm(matrix, 2) ** 2
    torch.testing.assert_close(found, due)
    assert 1 < found < rank.effective_rank(torch.linalg.svdvals(matrix)) < 4
