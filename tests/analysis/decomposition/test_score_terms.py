"""The bias rewritings against reference attention, on random tensors in float64."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.core.weights import AttentionWeights, LayerNormWeights
from analysis.decomposition.folding import fold_layer_norm, fold_value_bias
from analysis.decomposition.score_terms import key_direction, score_terms, semi_bias, six_terms
from analysis.transformer.attention import attend, compute_scores, project
from analysis.transformer.layernorm import layer_norm, sigma

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
shapes = st.fixed_dictionaries(
    {
        "head": st.integers(1, 4),
        "model": st.integers(2, 9),
        "channel": st.integers(1, 5),
        "position": st.integers(1, 7),
        "seed": st.integers(0, 10**6),
    }
)


def draw(*, head=3, model=8, channel=4, position=6, seed=0, batch=()):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    weights = AttentionWeights(
        *(normal(head, model, channel) for _ in range(3)),
        normal(head, channel, model),
        *(normal(head, channel) for _ in range(3)),
        normal(model),
    )
    ln = LayerNormWeights(normal(model), normal(model))
    return weights, ln, normal(*batch, position, model), normal(position, model)


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_four_terms_sum_to_the_scores(shape):
    weights, _, x, _ = draw(**shape)
    terms = score_terms(x, weights)
    torch.testing.assert_close(terms.total(), compute_scores(x, weights), **CLOSE)
    kept = terms.content + terms.semi_bias[..., None, :]
    torch.testing.assert_close(kept.softmax(-1), attend(x, weights).attention, **CLOSE)


def test_each_term_is_what_it_is_called():
    weights, _, x, _ = draw()
    none = torch.zeros_like(weights.b_Q)
    terms = score_terms(x, weights)
    torch.testing.assert_close(terms.content, compute_scores(x, replace(weights, b_Q=none, b_K=none)), **CLOSE)
    without_asking = replace(weights, W_Q=torch.zeros_like(weights.W_Q), b_K=none)
    torch.testing.assert_close(terms.semi_bias, compute_scores(x, without_asking)[:, 0], **CLOSE)
    constants = compute_scores(x, replace(weights, W_K=torch.zeros_like(weights.W_K)))
    torch.testing.assert_close(terms.query_constant + terms.constant[:, None], constants[..., 0], **CLOSE)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_semi_bias_is_b_q_times_all_keys(batch):
    weights, _, x, _ = draw(batch=batch)
    keys = project(x, weights.W_K, torch.zeros_like(weights.b_K))
    slow = torch.einsum("hc,...hkc->...hk", weights.b_Q, keys) / math.sqrt(weights.channel)
    torch.testing.assert_close(semi_bias(x, weights), slow, **CLOSE)
    assert key_direction(weights).shape == (weights.heads, weights.model)


def test_semi_bias_of_more_rows_than_a_block():
    weights, _, x, _ = draw(position=2500)
    expected = x @ torch.einsum("hc,hmc->hm", weights.b_Q, weights.W_K).T / 2
    torch.testing.assert_close(semi_bias(x, weights), expected.T, **CLOSE)


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_value_bias_folds_into_the_output_bias(shape):
    weights, _, x, _ = draw(**shape)
    folded = fold_value_bias(weights)
    assert not folded.b_V.any()
    torch.testing.assert_close(attend(x, folded, causal=True).output, attend(x, weights, causal=True).output, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_key_bias_never_matters(causal):
    weights, _, x, _ = draw()
    none = replace(weights, b_K=torch.zeros_like(weights.b_K))
    torch.testing.assert_close(attend(x, none, causal=causal).output, attend(x, weights, causal=causal).output, **CLOSE)
    no_query_bias = replace(weights, b_Q=torch.zeros_like(weights.b_Q))
    assert (attend(x, no_query_bias).attention - attend(x, weights).attention).abs().max() > 1e-3


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_layer_norm_folds_into_the_layer(shape):
    weights, ln, y, _ = draw(**shape)
    plain = attend(layer_norm(y, ln), weights)
    folded = attend(y / sigma(y)[..., None], fold_layer_norm(weights, ln))
    torch.testing.assert_close(folded.scores, plain.scores, **CLOSE)
    torch.testing.assert_close(folded.output, plain.output, **CLOSE)


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_six_terms_sum_to_the_scores(shape):
    weights, ln, e, p = draw(**shape)
    due = compute_scores(layer_norm(e + p, ln), weights)
    torch.testing.assert_close(six_terms(e, p, weights, ln).total(), due, rtol=1e-12, atol=1e-12 * due.abs().max())


def test_six_terms_keep_token_and_position_apart():
    weights, ln, e, p = draw(batch=(2,))
    terms, swapped = six_terms(e, p, weights, ln), six_terms(p.expand_as(e), e[0], weights, ln)
    assert terms.total().shape == (2, 3, 6, 6)
    torch.testing.assert_close(terms.ep[0], swapped.pe[0], **CLOSE)
    torch.testing.assert_close(terms.pp[0], swapped.ee[0], **CLOSE)
    torch.testing.assert_close(terms.p[0], swapped.e[0], **CLOSE)
    no_positions = six_terms(e, torch.zeros_like(p), weights, ln)
    for name in ("ep", "pe", "pp", "p"):
        assert not getattr(no_positions, name).any()
    due = semi_bias(e / sigma(e)[..., None], fold_layer_norm(weights, ln))
    torch.testing.assert_close(no_positions.e, due, **CLOSE)


def test_the_first_letter_is_the_query():
    """In ep a token asks and a position answers, in pe the other way round; the sum alone would not tell."""
    eye, zero = torch.eye(4, dtype=torch.float64)[None], torch.zeros(1, 4, dtype=torch.float64)
    weights = AttentionWeights(eye, eye, eye, eye, zero, zero, zero, zero[0])
    ln = LayerNormWeights(torch.ones(4).double(), torch.zeros(4).double(), eps=0.0)
    e = torch.tensor([[1.0, -1, 0, 0], [0, 0, 0, 0]]).double()  # only position 0 has a token
    p = torch.tensor([[0.0, 0, 0, 0], [2, -2, 0, 0]]).double()  # only position 1 has a position
    terms = six_terms(e, p, weights, ln)
    assert terms.ep[0, 0, 1] > 1
    assert terms.ep[0, 1, 0] == 0
    assert terms.pe[0, 1, 0] > 1
    assert terms.pe[0, 0, 1] == 0


def test_the_positional_term_by_hand():
    """T^p_j = b~ W~^T p_j / (sqrt(c) sigma_j), each factor spelled out."""
    weights, ln, e, p = draw()
    d = weights.model
    C = torch.eye(d, dtype=torch.float64) - 1 / d
    for h in range(weights.heads):
        W = C @ torch.diag(ln.gain) @ weights.W_K[h]
        b = ln.bias @ weights.W_Q[h] + weights.b_Q[h]
        for j in range(len(p)):
            width = ((e[j] + p[j]).var(correction=0) + ln.eps).sqrt()
            due = b @ W.T @ p[j] / width / 2
            torch.testing.assert_close(six_terms(e, p, weights, ln).p[h, j], due, **CLOSE)


@pytest.mark.parametrize(("function", "name"), [(score_terms, "x"), (semi_bias, "y")])
def test_refuses_what_does_not_fit(function, name):
    weights, _, x, _ = draw()
    with pytest.raises(ValueError, match=f"{name} must be"):
        function(x[:, 1:], weights)
    with pytest.raises(ValueError, match="none of them empty"):
        function(x[:0], weights)
    with pytest.raises(ValueError, match="float32"):
        function(x.float(), weights)
    for bad in (math.nan, math.inf):
        x[2, 3] = bad
        with pytest.raises(ValueError, match="not finite"):
            function(x, weights)


@pytest.mark.usefixtures("unchecked")
def test_refuses_tables_and_norms_that_do_not_fit():
    weights, ln, e, p = draw()
    with pytest.raises(ValueError, match=r"p must be .* to fit e"):
        six_terms(e, p[:-1], weights, ln)
    with pytest.raises(ValueError, match="p must be"):
        six_terms(e, p.float(), weights, ln)
    with pytest.raises(ValueError, match="ln must have width 8"):
        fold_layer_norm(weights, LayerNormWeights(ln.gain[1:], ln.bias[1:]))
    with pytest.raises(ValueError, match="b_Q holds entries that are not finite"):
        replace(weights, b_Q=weights.b_Q * math.nan)


def test_finite_weights_whose_sum_overflows_are_not_refused():
    weights, *_ = draw()
    large = torch.full_like(weights.W_Q, 1e308)
    assert torch.isinf(large.sum())
    assert replace(weights, W_Q=large).W_Q is large
    for bad in (math.inf, -math.inf, math.nan):
        one = large.clone()
        one[0, 0, 0] = bad
        with pytest.raises(ValueError, match="W_Q holds entries that are not finite"):
            replace(weights, W_Q=one)
