"""What Q and K measure: factors against dense matrices, laws of the form, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis.maps import distance
from analysis.matrices import symmetry
from analysis.transformer import positional_encodings
from analysis.transformer.attention import softmax
from analysis.transformer.encoder import random_layers


def factors(seed=0, head=3, model=12, channel=4):
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(head, model, channel, generator=g, dtype=torch.float64) for _ in range(2))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9))
def test_form_equals_dense_eigenvalues(seed, channel, model):
    W_Q, W_K = factors(seed, 2, model, channel)
    form = symmetry.symmetric_signature(W_Q, W_K)
    M = W_Q @ W_K.mT
    dense = torch.linalg.eigvalsh((M + M.mT) / 2)
    small = torch.cat([form.eigenvalues, torch.zeros(2, model - form.eigenvalues.shape[1])], dim=1).sort().values
    torch.testing.assert_close(small, dense, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(form.antisymmetric, symmetry.asymmetry(M))


def test_generic_factors_give_as_many_positive_as_negative_directions():
    form = symmetry.symmetric_signature(*factors())
    assert form.positive.tolist() == [4, 4, 4]
    assert form.negative.tolist() == [4, 4, 4]


def test_equal_factors_give_a_positive_form():
    W, _ = factors()
    form = symmetry.symmetric_signature(W, W)
    assert form.positive.tolist() == [4, 4, 4]
    assert form.negative.tolist() == [0, 0, 0]
    assert form.antisymmetric.max() < 1e-15
    opposite = symmetry.symmetric_signature(W, -W)
    assert opposite.positive.tolist() == [0, 0, 0]
    assert opposite.negative.tolist() == [4, 4, 4]


def test_asymmetry_and_total_variation_bounds():
    skew = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    assert symmetry.asymmetry(skew) == 1
    assert distance.total_variation(torch.eye(2), torch.eye(2).flip(0)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="square"):
        symmetry.asymmetry(torch.ones(2, 3))
    with pytest.raises(ValueError, match="p must have rows that sum to 1"):
        distance.total_variation(torch.tensor([2.0, 0.0]), torch.tensor([0.5, 0.5]))


def test_sines_have_one_norm_and_know_distance_only():
    table = positional_encodings.sinusoidal_positions(64, 16)
    torch.testing.assert_close(table.norm(dim=1), torch.full((64,), math.sqrt(8), dtype=torch.float64))
    assert positional_encodings.toeplitz_defect(table @ table.T) < 1e-12
    assert table[3, 2].item() == pytest.approx(math.sin(3 / 10000 ** (2 / 16)))
    assert table[3, 5].item() == pytest.approx(math.cos(3 / 10000 ** (4 / 16)))
    assert positional_encodings.toeplitz_defect(torch.diag(torch.arange(4.0))) > 0.4
    with pytest.raises(ValueError, match="even"):
        positional_encodings.sinusoidal_positions(4, 5)


@pytest.fixture
def layer():
    g = torch.Generator().manual_seed(7)
    weights = random_layers(1, 3, 12, generator=g)[0].attention
    biases = {f"b_{m}": torch.randn(3, 4, generator=g, dtype=torch.float64) for m in "QK"}
    return replace(weights, **biases), torch.randn(6, 12, generator=g, dtype=torch.float64)


def test_variants_differ_in_what_they_should(layer):
    weights, x = layer
    found = symmetry.score_variants(x, weights)
    M = weights.W_Q @ weights.W_K.mT
    torch.testing.assert_close(found["symmetric part of M"], x @ ((M + M.mT) / 2) @ x.T / 2)
    torch.testing.assert_close(found["positive form"], x @ (weights.W_K @ weights.W_K.mT) @ x.T / 2)
    torch.testing.assert_close(found["content alone"], x @ M @ x.T / 2)
    assert torch.linalg.eigvalsh(found["positive form"]).min() > -1e-9
    assert symmetry.asymmetry(found["symmetric part of M"]).max() < 1e-25
    assert symmetry.asymmetry(softmax(found["symmetric part of M"])).min() > 1e-3
    assert (found["as trained"] - found["content alone"]).abs().max() > 0.1


def test_attention_with_symmetric_scores_is_balanced_and_has_real_eigenvalues(layer):
    scores = symmetry.score_variants(layer[1], layer[0])["symmetric part of M"]
    flow = scores.exp().sum(-1, keepdim=True) * softmax(scores)
    torch.testing.assert_close(flow, flow.mT)
    assert torch.linalg.eigvals(softmax(scores)).imag.abs().max() < 1e-9


def test_key_bias_moves_no_attention_and_query_bias_does(layer):
    weights, x = layer
    assert distance.attention_moved(x, weights).max() == 0
    assert distance.attention_moved(x, weights, instead=symmetry.without(weights, "b_K")).max() < 1e-14
    assert distance.attention_moved(x, weights, instead=symmetry.without(weights, "b_Q")).min() > 1e-6
    assert distance.attention_moved(x, weights, rows=2 * x).min() > 1e-6
    torch.testing.assert_close(symmetry.equalise_norms(x).norm(dim=1), x.norm(dim=1).mean().expand(6))


ODD = {
    "nan": torch.full((3, 4, 4), torch.nan),
    "empty": torch.zeros(3, 0, 0),
    "scalar": torch.tensor(1.0),
    "whole": torch.ones(3, 4, 4).long(),
    "half": torch.ones(3, 4, 4).half(),
    "numpy": np.ones((3, 4, 4)),
}


def test_arguments_that_do_not_fit_are_refused(layer):
    weights, _ = layer
    with pytest.raises(ValueError, match="biases must be among"):
        symmetry.without(weights, "W_Q")
    with pytest.raises(ValueError, match="row of zeros"):
        symmetry.equalise_norms(torch.zeros(2, 3))


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(np.float64, (3, 3), elements=st.floats(-1e300, 1e300, allow_subnormal=False)))
def test_asymmetry_of_any_matrix_is_a_share(matrix):
    share = symmetry.asymmetry(torch.from_numpy(matrix))
    assert 0 <= share <= 1 + 1e-12
    half = torch.from_numpy(matrix) / 4
    assert symmetry.asymmetry(half + half.T) <= 1e-15
    assert symmetry.asymmetry(torch.zeros(3, 3)) == 0


def test_asymmetry_does_not_depend_on_the_size_of_the_numbers():
    matrix = torch.randn(5, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for size in (1e-200, 1e200):
        torch.testing.assert_close(symmetry.asymmetry(size * matrix), symmetry.asymmetry(matrix))


def test_texts_of_a_batch_are_levelled_each_by_itself():
    x = (
        torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        * torch.tensor([1.0, 10.0, 100.0])[:, None, None]
    )
    torch.testing.assert_close(symmetry.equalise_norms(x), torch.stack([symmetry.equalise_norms(text) for text in x]))


def test_an_eigenvalue_counts_from_the_rounding_of_the_largest_on():
    """The larger side has 1,000 rows, so an eigenvalue counts from 1,000 roundings of the largest, which is 3, on."""
    threshold = 3 * 1000 * 2.0**-52
    for share, count in ((1.01, 2), (0.99, 1)):
        W_Q, W_K = torch.zeros(2, 1, 1000, 2, dtype=torch.float64)
        W_Q[0, 0, 0], W_Q[0, 1, 1] = 3.0, share * threshold
        W_K[0, 0, 0] = W_K[0, 1, 1] = 1.0
        for sign, (positive, negative) in ((1, (count, 0)), (-1, (0, count))):
            form = symmetry.symmetric_signature(sign * W_Q, W_K)
            assert (form.positive.item(), form.negative.item()) == (positive, negative)
