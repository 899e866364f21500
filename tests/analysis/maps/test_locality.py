"""Position-only attention and its statistics, against slow and independent ways."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.decomposition.folding import fold_norm
from analysis.decomposition.terms import six_terms
from analysis.maps.locality import (
    causal_attention,
    nearest_mass,
    peak_distance,
    position_only,
    position_scores,
    position_share,
)
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import sigma
from analysis.transformer.layernorm_scale import inverse_sigma
from tests.analysis.decomposition.test_terms import draw


def test_position_scores_are_the_terms_of_the_layer():
    weights, ln, e, p = draw()
    terms = six_terms(e, p, weights, ln)
    own, both = position_scores(p, sigma(e + p), fold_norm(weights, ln))
    torch.testing.assert_close(own, terms.p, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(both, terms.pp, rtol=1e-12, atol=1e-12)


def test_mean_inverse_sigma_gives_the_mean_positional_term():
    weights, ln, tokens, p = draw(position=6)
    width = 1 / inverse_sigma(tokens, p).mean
    folded = fold_norm(weights, ln)
    every = torch.stack([six_terms(token.expand_as(p), p, weights, ln).p for token in tokens])
    torch.testing.assert_close(position_scores(p, width, folded)[0], every.mean(0), rtol=1e-12, atol=1e-12)


def test_position_only_attention_is_a_layer_fed_positions():
    weights, ln, _, p = draw()
    folded = fold_norm(weights, ln)
    own, both = position_scores(p, sigma(p), folded)
    layer = attend(p / sigma(p)[:, None], replace(folded, mask=Mask(causal=True)))
    torch.testing.assert_close(causal_attention(own[:, None] + both), layer.attention, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(causal_attention(own)[:, -1], own.softmax(-1), rtol=1e-12, atol=1e-12)


def test_locality_statistics_against_loops():
    attention = causal_attention(torch.randn(2, 9, 9, generator=torch.Generator().manual_seed(1)))
    for reach in (1, 3, 20):
        mass = nearest_mass(attention, reach)
        for h, q in np.ndindex(2, 9):
            assert math.isclose(mass[h, q], attention[h, q, max(0, q - reach + 1) : q + 1].sum(), rel_tol=1e-6)
    expected = [[q - int(attention[h, q].argmax()) for q in range(9)] for h in range(2)]
    assert peak_distance(attention).tolist() == expected
    assert peak_distance(attention[:, 5:]).tolist() == [row[5:] for row in expected]


def test_position_only_measures_the_three_parts():
    weights, ln, _, p = draw(position=20)
    own, both = position_scores(p, sigma(p), fold_norm(weights, ln))
    found = position_only(own, both, (2, 5), first=7)
    for part, scores in enumerate((own, both, own[:, None] + both)):
        attention = causal_attention(scores)
        for r, reach in enumerate(found.reaches):
            due = nearest_mass(attention, reach)[:, 7:].mean(-1)
            torch.testing.assert_close(found.mass[r, part], due, rtol=1e-12, atol=1e-12)
        assert (found.peak[part] == peak_distance(attention)).all()
    equal = causal_attention(torch.zeros(1, 20, dtype=torch.float64))
    due = torch.stack([nearest_mass(equal, reach)[0, 7:].mean() for reach in (2, 5)])
    torch.testing.assert_close(found.uniform, due, rtol=1e-12, atol=1e-12)


def test_position_share_finds_the_share_that_was_put_in():
    g = torch.Generator().manual_seed(5)
    own, other = torch.randn(60, 40, generator=g), torch.randn(200, 60, 40, generator=g)
    assert abs(position_share(own + other) - 0.5) < 0.03
    assert position_share(other) < 0.01
    assert position_share((own + other)[:2, :2]) > 0
    for few in (other[:1], other[:, :1]):
        with pytest.raises(ValueError, match="at least 2 texts"):
            position_share(few)


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    with pytest.raises(ValueError, match="reach must be"):
        nearest_mass(torch.ones(1, 1, 1), 0)
    with pytest.raises(ValueError, match="first must be below"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 3), first=3)
    with pytest.raises(ValueError, match="not negative, got -1"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 3), first=-1)
    with pytest.raises(ValueError, match="reaches is empty"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 3), (), first=1)
    one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    layer = AttentionLayer(one, one, one, one, zero, zero, zero, torch.zeros(1))
    for bad in (0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="width must be"):
            position_scores(torch.ones(2, 1), torch.tensor([1.0, bad]), layer)


def test_the_share_of_positions_by_hand():
    """Between texts 2 and 8 at the two positions, 5 on the mean; means 1 and 4: 4.5, of which 5/2 is left by chance."""
    states = torch.tensor([[0.0, 2.0], [2.0, 6.0]])[..., None]
    assert position_share(states) == pytest.approx(2 / (2 + 5), abs=1e-6)


def test_scores_of_several_heads_that_are_the_same_for_every_query():
    scores = torch.tensor([[0.0, 1.0, 3.0, -1.0], [2.0, 0.0, 0.0, 1.0], [5.0, 4.0, 3.0, 2.0]], dtype=torch.float64)
    found = causal_attention(scores)
    assert found.shape == (3, 4, 4)
    for head in range(3):
        for query in range(4):
            powers = scores[head, : query + 1].exp()
            assert found[head, query, : query + 1].tolist() == pytest.approx((powers / powers.sum()).tolist())
            assert not found[head, query, query + 1 :].any()
    whole = torch.stack([scores, scores.flip(-1), scores, scores], -2)  # (head, query, key)
    torch.testing.assert_close(causal_attention(whole)[:, [0, 2, 3]], found[:, [0, 2, 3]])
