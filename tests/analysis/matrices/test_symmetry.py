"""What Q and K measure: factors against dense matrices, laws of the form, refusals."""

import doctest
import math
from dataclasses import replace

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis.maps import distance
from analysis.matrices import spectra, stretching, symmetry
from analysis.transformer import positional_encodings
from analysis.transformer.attention import softmax
from analysis.transformer.encoder import random_layers


def factors(seed=0, head=3, model=12, channel=4):
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(head, model, channel, generator=g, dtype=torch.float64) for _ in range(2))


@pytest.mark.parametrize("module", [symmetry, stretching, positional_encodings])
def test_examples(module):
    assert doctest.testmod(module, extraglobs={"torch": torch}).failed == 0


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


def test_opposite_factors_give_a_negative_form():
    W, _ = factors()
    form = symmetry.symmetric_signature(W, -W)
    assert form.positive.tolist() == [0, 0, 0]
    assert form.negative.tolist() == [4, 4, 4]


def test_no_row_is_amplified_beyond_the_largest_singular_value_and_one_reaches_it():
    W, _ = factors()
    x = torch.randn(200, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    top = spectra.singular_values(W)[:, :1]
    assert (stretching.amplification(x, W) <= top * (1 + 1e-12)).all()
    best = torch.linalg.svd(W[0]).U[:, 0]
    torch.testing.assert_close(stretching.amplification(best[None], W)[0, 0], top[0, 0])


def test_amplification_with_bias_is_that_of_the_whole_affine_map():
    W, _ = factors()
    x, b = torch.ones(2, 12, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64)
    due = (x[1] @ W[2] + b[2]).norm() / x[1].norm()
    torch.testing.assert_close(stretching.amplification(x, W, b)[2, 1], due)


def test_mean_amplification_is_the_mean_over_directions():
    W, _ = factors()
    x = torch.randn(20_000, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    measured = stretching.amplification(x, W).square().mean(-1).sqrt()
    torch.testing.assert_close(measured, stretching.mean_amplification(W), rtol=0.02, atol=0)


def test_isotropic_positions_have_the_law_of_isotropic_rows():
    W, _ = factors()
    x = torch.randn(20_000, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    rows = stretching.cone_position(x, W)
    drawn = stretching.isotropic_cone_positions(W, 20_000, np.random.default_rng(4))
    level = torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)
    torch.testing.assert_close(rows.quantile(level, dim=1), drawn.quantile(level, dim=1), atol=0.01, rtol=0)


def test_isotropic_positions_of_a_square_map():
    W = torch.eye(2, dtype=torch.float64)[None]
    drawn = stretching.isotropic_cone_positions(W, 10, np.random.default_rng(0))
    torch.testing.assert_close(drawn, torch.ones_like(drawn))


def test_the_position_in_the_cone_is_a_share_and_ignores_length():
    W, _ = factors()
    x = torch.randn(50, 12, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    position = stretching.cone_position(x, W)
    assert 0 <= position.min() < position.max() <= 1
    torch.testing.assert_close(stretching.cone_position(7 * x, W), position)


def test_asymmetry_and_total_variation_bounds():
    skew = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    assert symmetry.asymmetry(skew) == 1
    assert distance.total_variation(torch.eye(2), torch.eye(2).flip(0)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="square"):
        symmetry.asymmetry(torch.ones(2, 3))


def test_form_refuses_factors_of_different_shapes(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    with pytest.raises(ValueError, match="W_K"):
        symmetry.symmetric_signature(torch.ones(1, 4, 2), torch.ones(1, 4, 3))
    with pytest.raises(ValueError, match=r"W_Q must be \(head, model, channel\)"):
        symmetry.symmetric_signature(torch.ones(4, 2), torch.ones(4, 2))


def test_sines_have_one_norm_and_know_distance_only():
    table = positional_encodings.sinusoidal_positions(64, 16)
    torch.testing.assert_close(table.norm(dim=1), torch.full((64,), math.sqrt(8), dtype=torch.float64))
    assert positional_encodings.toeplitz_defect(table @ table.T) < 1e-12
    assert table[3, 2].item() == pytest.approx(math.sin(3 / 10000 ** (2 / 16)))
    assert table[3, 5].item() == pytest.approx(math.cos(3 / 10000 ** (4 / 16)))
    assert positional_encodings.toeplitz_defect(torch.diag(torch.arange(4.0))) > 0.4
    with pytest.raises(ValueError, match="even"):
        positional_encodings.sinusoidal_positions(4, 5)


def test_tables_over_maps_layers_and_heads_hold_the_single_measures():
    g = torch.Generator().manual_seed(6)
    layers = [layer.attention for layer in random_layers(2, 3, 12, generator=g)]
    states = torch.randn(3, 5, 12, generator=g, dtype=torch.float64)
    biased = replace(layers[1], b_K=torch.ones(3, 4, dtype=torch.float64))
    table = stretching.amplifications(states, [layers[0], biased])
    assert table.shape == (3, 2, 3, 5)
    torch.testing.assert_close(table[1, 1], stretching.amplification(states[1], biased.W_K, biased.b_K))
    linear = stretching.amplifications(states, [layers[0], biased], biased=False)
    torch.testing.assert_close(linear[1, 1], stretching.amplification(states[1], biased.W_K))
    top = stretching.over_heads(lambda W: spectra.singular_values(W)[:, 0], layers)
    torch.testing.assert_close(top[2, 0], spectra.singular_values(layers[0].W_V)[:, 0])
    torch.testing.assert_close(top, stretching.over_heads(spectra.spectral_norm, layers))
    torch.testing.assert_close(
        stretching.cone_positions(states, layers)[2, 1], stretching.cone_position(states[1], layers[1].W_V)
    )
    torch.testing.assert_close(stretching.amplifications(states[:1], [layers[0]]), table[:, :1])
    norms = stretching.row_norms(states[1], biased, head=2)
    torch.testing.assert_close(norms[0], states[1].norm(dim=1))
    torch.testing.assert_close(norms[2] / norms[0], table[1, 1, 2])


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
MAP = torch.ones(3, 4, 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda v: symmetry.symmetric_signature(v, v),
        symmetry.equalise_norms,
        lambda v: distance.total_variation(v, v),
        symmetry.asymmetry,
        spectra.singular_values,
        spectra.spectral_norm,
        stretching.mean_amplification,
        lambda v: stretching.amplification(v, MAP),
        lambda v: stretching.cone_position(v, MAP),
        lambda v: stretching.cone_position(torch.ones(3, 4), v),
        lambda v: stretching.isotropic_cone_positions(v, 5, np.random.default_rng(0)),
        lambda v: stretching.row_norms(v, random_layers(1, 2, 4, dtype=torch.float32, generator=G)[0].attention, 0),
        lambda v: symmetry.score_variants(v, random_layers(1, 2, 4, dtype=torch.float32, generator=G)[0].attention),
        lambda v: distance.attention_moved(v, random_layers(1, 2, 4, dtype=torch.float32, generator=G)[0].attention),
    ],
)
@pytest.mark.parametrize("odd", ODD)
def test_odd_input_is_refused_by_name(function, odd, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    with pytest.raises((TypeError, ValueError), match=r"^\w+ (must|holds)"):
        function(ODD[odd])


G = torch.Generator().manual_seed(0)


def test_arguments_that_do_not_fit_are_refused(layer, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    weights, x = layer
    with pytest.raises(ValueError, match="biases must be among"):
        symmetry.without(weights, "W_Q")
    with pytest.raises(ValueError, match="row of zeros"):
        symmetry.equalise_norms(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="one shape"):
        distance.total_variation(torch.ones(2, 3), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"W must be .* to fit x"):
        stretching.amplification(x[:, :5], weights.W_Q)
    with pytest.raises(ValueError, match=r"W must be .* to fit x"):
        stretching.amplification(x.float(), weights.W_Q)
    for shape in ((0, 4, 2), (4, 2), (1, 1, 4, 2)):
        with pytest.raises(ValueError, match=r"W must be .*head, model, channel"):
            spectra.singular_values(torch.ones(shape))
    for head in (-1, 3):
        with pytest.raises(ValueError, match=r"head must be in 0\.\.2"):
            stretching.row_norms(x, weights, head)
    for states in (torch.ones(1, 5, 12).double(), torch.ones(4, 5, 12).double()):
        with pytest.raises(ValueError, match="states must be one for each of 2 layers"):
            stretching.amplifications(states, [weights, weights])
    nothing = weights.W_Q.clone()
    nothing[1] = 0
    for call in (
        lambda: stretching.cone_position(x, nothing),
        lambda: stretching.isotropic_cone_positions(nothing, 5, np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match="W is zero in head 1"):
            call()
    with pytest.raises(ValueError, match="samples"):
        stretching.isotropic_cone_positions(weights.W_Q, 0, np.random.default_rng(0))


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(np.float64, (3, 3), elements=st.floats(-1e300, 1e300, allow_subnormal=False)))
def test_asymmetry_of_any_matrix_is_a_share(matrix):
    share = symmetry.asymmetry(torch.from_numpy(matrix))
    assert 0 <= share <= 1 + 1e-12
    half = torch.from_numpy(matrix) / 4
    assert symmetry.asymmetry(half + half.T) <= 1e-15
    assert symmetry.asymmetry(torch.zeros(3, 3)) == 0


def test_a_head_without_weights_has_a_symmetric_form_without_directions():
    form = symmetry.symmetric_signature(torch.zeros(1, 4, 2), torch.ones(1, 4, 2))
    assert form.antisymmetric.tolist() == [0] == form.positive.tolist() == form.negative.tolist()


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


@pytest.mark.usefixtures("unchecked")
def test_asymmetry_of_a_batch_needs_square_matrices():
    with pytest.raises(ValueError, match="matrix must be square"):
        symmetry.asymmetry(torch.ones(3, 4, 5))


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
