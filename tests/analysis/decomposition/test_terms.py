"""The bias rewritings against reference attention, on random tensors in float64."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.core.attention_layer import AttentionLayer, Mask, Norm, QueryKeyNorm
from analysis.core.positions import Alibi, Disentangled, RelativeBuckets, Rotary, ScoreTable, StreamPositions
from analysis.decomposition.folding import fold_norm, fold_value_bias
from analysis.decomposition.terms import key_direction, score_terms, semi_bias, six_terms
from analysis.transformer.attention import attend, compute_scores, project
from analysis.transformer.layernorm import apply_norm, divide_by_size, sigma
from tests.analysis.tiny import draw as draw_rows
from tests.analysis.tiny import random_layer

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

    weights = AttentionLayer(
        *(normal(head, model, channel) for _ in range(3)),
        normal(head, channel, model),
        *(normal(head, channel) for _ in range(3)),
        normal(model),
    )
    ln = Norm(normal(model), normal(model))
    return weights, ln, normal(*batch, position, model), normal(position, model)


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_four_terms_sum_to_the_scores(shape):
    weights, _, x, _ = draw(**shape)
    terms = score_terms(x, weights)
    torch.testing.assert_close(terms.total(), compute_scores(x, weights), **CLOSE)
    kept = terms.content + terms.semi_bias
    torch.testing.assert_close(kept.softmax(-1), attend(x, weights).attention, **CLOSE)


def test_each_term_is_what_it_is_called():
    weights, _, x, _ = draw()
    none = torch.zeros_like(weights.b_Q)
    terms = score_terms(x, weights)
    torch.testing.assert_close(terms.content, compute_scores(x, replace(weights, b_Q=none, b_K=none)), **CLOSE)
    without_asking = replace(weights, W_Q=torch.zeros_like(weights.W_Q), b_K=none)
    torch.testing.assert_close(terms.semi_bias, compute_scores(x, without_asking)[:, :1], **CLOSE)
    constants = compute_scores(x, replace(weights, W_K=torch.zeros_like(weights.W_K)))
    torch.testing.assert_close(terms.query_side + terms.kernel, constants[..., :1], **CLOSE)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_semi_bias_is_b_q_times_all_keys(batch):
    weights, _, x, _ = draw(batch=batch)
    keys = project(x, weights.W_K, torch.zeros_like(weights.b_K))
    slow = torch.einsum("hc,...hkc->...hk", weights.b_Q, keys) / math.sqrt(weights.channel)
    torch.testing.assert_close(semi_bias(x, weights), slow, **CLOSE)
    assert key_direction(weights).shape == (weights.heads, weights.model)


@pytest.mark.parametrize("causal", [False, True])
def test_key_bias_never_matters(causal):
    weights, _, x, _ = draw()
    weights = replace(weights, mask=Mask(causal=causal))
    none = replace(weights, b_K=torch.zeros_like(weights.b_K))
    torch.testing.assert_close(attend(x, none).output, attend(x, weights).output, **CLOSE)
    no_query_bias = replace(weights, b_Q=torch.zeros_like(weights.b_Q))
    assert (attend(x, no_query_bias).attention - attend(x, weights).attention).abs().max() > 1e-3


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_six_terms_sum_to_the_scores(shape):
    weights, ln, e, p = draw(**shape)
    terms, due = six_terms(e, p, weights, ln), compute_scores(apply_norm(e + p, ln), weights)
    # Terms may be far larger than their sum, and it is they that round.
    largest = max(getattr(terms, name).abs().max() for name in ("ee", "ep", "pe", "pp", "e", "p"))
    torch.testing.assert_close(terms.total(), due, rtol=1e-12, atol=1e-12 * largest)


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
    due = semi_bias(e / sigma(e)[..., None], fold_norm(weights, ln))
    torch.testing.assert_close(no_positions.e, due, **CLOSE)


def test_the_first_letter_is_the_query():
    """In ep a token asks and a position answers, in pe the other way round; the sum alone would not tell."""
    eye, zero = torch.eye(4, dtype=torch.float64)[None], torch.zeros(1, 4, dtype=torch.float64)
    weights = AttentionLayer(eye, eye, eye, eye, zero, zero, zero, zero[0])
    ln = Norm(torch.ones(4).double(), torch.zeros(4).double(), eps=0.0)
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


def plain():
    """Return a layer of width 7 whose queries and keys have biases."""
    return random_layer(head=2, model=7, channel=3)


def test_fewer_rows_may_be_queries():
    layer, x, origin = plain(), draw_rows(5, 7), draw_rows(7, seed=3)
    some = score_terms(x, layer, origin, x[[4, 1]]).stack()
    torch.testing.assert_close(some, score_terms(x, layer, origin).stack()[:, :, [4, 1]])


def test_about_the_mean_of_the_queries_content_has_no_part_that_all_queries_share():
    x = draw_rows(9, 7)
    assert score_terms(x, plain(), x.mean(0)).content.mean(-2).abs().max() < 1e-12


def norm(width, seed, kind="layer"):
    return Norm(draw_rows(width, seed=seed), draw_rows(width, seed=seed + 1), 1e-6, kind)


ROTARY = Rotary(torch.tensor([1.0, 0.3], dtype=torch.float64), 6)
INSIDE = {
    "rotary": {"positions": ROTARY},
    "partial rotary with a factor": {"positions": Rotary(ROTARY.frequencies, 6, "neighbours", attention_factor=1.2)},
    "ALiBi": {"positions": Alibi(4)},
    "buckets": {"positions": RelativeBuckets(draw_rows(8, 4, seed=20), 16, two_sided=True)},
    "a table": {"positions": ScoreTable(draw_rows(4, 5, 5, seed=21))},
    "disentangled": {"positions": Disentangled(draw_rows(4, 6, 6, seed=22), draw_rows(4, 6, 6, seed=23), 3, None, 8)},
    "norms of queries and keys": {"qk_norm": QueryKeyNorm(norm(6, 30), norm(6, 32, "rms"))},
    "norms over all heads": {"qk_norm": QueryKeyNorm(norm(24, 30), norm(12, 32), whole=True)},
    "norms before the rotation": {"qk_norm": QueryKeyNorm(norm(6, 30), norm(6, 32)), "positions": ROTARY},
    "norms after it": {"qk_norm": QueryKeyNorm(norm(6, 30), norm(6, 2), after_rotation=True), "positions": ROTARY},
    "a scale": {"scale": 0.3},
}


def grouped(**inside):
    """Return a layer of four heads in two groups, with something inside its attention."""
    shapes = [(4, 8, 6), (2, 8, 6), (2, 8, 6), (4, 6, 8), (4, 6), (2, 6), (2, 6), (8,)]
    return AttentionLayer(*(draw_rows(*shape, seed=seed) for seed, shape in enumerate(shapes)), **inside)


def by_definition(x, layer, origin):
    """Return content, common part, semi-bias, query side and kernel, each from whole queries and whole keys.

    Without norms a score is bilinear in query and key, so each part is the score of a layer that has nothing else.
    """
    none, no_bias = {"W_Q": 0 * layer.W_Q}, {"b_Q": 0 * layer.b_Q}
    only_keys, only_b_K = {"b_K": 0 * layer.b_K}, {"W_K": 0 * layer.W_K}
    bare = replace(layer, positions=layer.positions if isinstance(layer.positions, Rotary) else StreamPositions("none"))
    common = replace(bare, **none, **only_keys, b_Q=torch.einsum("m,hmc->hc", origin, layer.W_Q))
    return [
        compute_scores(x, replace(bare, **no_bias, **only_keys)) - compute_scores(x, common),
        compute_scores(x, common),
        compute_scores(x, replace(bare, **none, **only_keys)),
        compute_scores(x, replace(bare, **no_bias, **only_b_K)),
        compute_scores(x, replace(bare, **none, **only_b_K)),
    ]


@pytest.mark.parametrize("name", INSIDE)
def test_whatever_is_inside_the_attention_the_parts_sum_to_the_scores(name):
    layer, x, origin = grouped(**INSIDE[name]), draw_rows(2, 5, 8, seed=9), draw_rows(8, seed=10)
    terms = score_terms(x, layer, origin)
    torch.testing.assert_close(terms.total(), compute_scores(x, layer), **CLOSE)
    torch.testing.assert_close(score_terms(x, layer).total(), compute_scores(x, layer), **CLOSE)
    if layer.qk_norm is None:
        found = terms.stack("content", "common", "semi_bias", "query_side", "kernel")
        torch.testing.assert_close(found, torch.stack(by_definition(x, layer, origin)), **CLOSE)
    else:  # then a bias is no constant along a row
        assert terms.semi_bias.std(-2).max() > 1e-3
        assert terms.query_side.std(-1).max() > 1e-3


def test_with_norms_each_part_is_divided_by_the_whole_query_and_the_whole_key():
    layer, x, origin = grouped(), draw_rows(5, 8, seed=9), draw_rows(8, seed=10)
    of_queries, of_keys = norm(6, 30, "rms"), norm(6, 32, "rms")
    terms = score_terms(x, replace(layer, qk_norm=QueryKeyNorm(of_queries, of_keys)), origin)
    size_q, size_k = (
        (layer.per_head(project(x, W, b)).square().mean(-1, keepdim=True) + 1e-6).sqrt()
        for W, b in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K))
    )
    query, common = ((rows @ layer.W_Q) * of_queries.gain / size_q for rows in (x - origin, origin[None]))
    key = layer.per_head(x @ layer.W_K) * of_keys.gain / size_k
    b_Q = layer.b_Q[:, None] * of_queries.gain / size_q + of_queries.bias
    b_K = layer.per_head(layer.b_K)[:, None] * of_keys.gain / size_k + of_keys.bias
    due = [query @ key.mT, common @ key.mT, b_Q @ key.mT, (query + common) @ b_K.mT, b_Q @ b_K.mT]
    torch.testing.assert_close(terms.stack(), layer.scale * torch.stack(due), **CLOSE)


def test_what_has_no_one_semi_bias_is_refused():
    x = draw_rows(5, 8, seed=9)
    for name, message in {"rotary": "positions act inside", "norms of queries and keys": "pass through a norm"}.items():
        with pytest.raises(ValueError, match=message):
            semi_bias(x, grouped(**INSIDE[name]))
    with pytest.raises(ValueError, match=r"queries must be those of x .*rotary"):
        score_terms(x, grouped(**INSIDE["rotary"]), queries=x[1:])


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("inside", INSIDE)
def test_a_norm_folds_into_any_layer_as_its_own_or_as_given(inside, kind):
    layer, given, rows = grouped(**INSIDE[inside]), norm(8, 40, kind), draw_rows(2, 5, 8, seed=11)
    due = attend(apply_norm(rows, given), layer).output
    own = fold_norm(replace(layer, norms=(given,)))
    torch.testing.assert_close(attend(apply_norm(rows, own.norm()), own).output, due, **CLOSE)
    torch.testing.assert_close(attend(divide_by_size(rows, given), fold_norm(layer, given)).output, due, **CLOSE)
    assert not own.norm().bias.any()


def test_a_value_bias_of_groups_folds_into_the_output_bias():
    layer, x = grouped(), draw_rows(2, 5, 8, seed=9)
    torch.testing.assert_close(attend(x, fold_value_bias(layer)).output, attend(x, layer).output, **CLOSE)
    with pytest.raises(ValueError, match="sum to less than 1"):
        fold_value_bias(replace(layer, sinks=layer.b_Q[:, 0]))
