"""The equations of a first layer where they do not hold, and its attention beside that of positions, in plain loops."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.semi_bias import first_layer, gpt2, locality
from book.studies.semi_bias.first_layer import FirstLayer
from book.studies.shared.equality import draw
from tests.analysis.tiny import random_layer
from tests.book.studies.known import hand_over, no_norm, plain

HEADS, CHANNEL, WIDTH = 2, 3, 6


def layer_of(seed=0):
    return random_layer(HEADS, WIDTH, CHANNEL, causal=True, seed=seed)


def scores_of(x, layer, *, b_Q=1.0, b_K=1.0):
    """Return scores ``(head, query, key)`` one by one; biases can be left out."""
    x, found = x.numpy(), np.zeros((HEADS, len(x), len(x)))
    for h in range(HEADS):
        queries = x @ layer.W_Q[h].numpy() + b_Q * layer.b_Q[h].numpy()
        keys = x @ layer.W_K[h].numpy() + b_K * layer.b_K[h].numpy()
        found[h] = queries @ keys.T / math.sqrt(CHANNEL)
    return found


def weights_of(scores):
    """Return the weights of causal attention."""
    found = np.zeros_like(scores)
    for h, query in np.ndindex(scores.shape[:2]):
        seen = np.exp(scores[h, query, : query + 1])
        found[h, query, : query + 1] = seen / seen.sum()
    return found


def output_of(x, layer, weights):
    x = x.numpy()
    heads = [
        weights[h] @ (x @ layer.W_V[h].numpy() + layer.b_V[h].numpy()) @ layer.W_O[h].numpy() for h in range(HEADS)
    ]
    return sum(heads) + layer.b_O.numpy()


def off(found, due):
    return abs(found - due).max() / abs(due).max()


def normed(x):
    x = x - x.mean(1, keepdim=True)
    return x / x.square().mean(1, keepdim=True).sqrt()


def test_what_is_left_out_or_misprinted_is_off_by_a_share_of_the_largest_output():
    layer, e, p = layer_of(), draw(7, WIDTH, seed=1), draw(7, WIDTH, seed=2)
    found = first_layer.equality(e, p, layer, no_norm(WIDTH))
    x = normed(e + p)
    weights = weights_of(scores_of(x, layer))
    output = output_of(x, layer, weights)
    without = output_of(x, layer, weights_of(scores_of(x, layer, b_Q=0)))
    assert found["no_query_bias"] == pytest.approx(off(without, output), rel=1e-4)
    two = scores_of(x, layer, b_K=0)  # content and semi-bias
    unscaled = weights_of(two * math.sqrt(CHANNEL))
    assert found["two_terms_unscaled"] == pytest.approx(off(unscaled, weights), rel=1e-4)
    at_query = np.stack([np.eye(7)] * HEADS)
    assert found["value_at_query"] == pytest.approx(off(output_of(x, layer, at_query), output), rel=1e-4)
    # the bias of the values once for every key that is seen, in the place of once
    values, matrices = layer.b_V.numpy(), layer.W_O.numpy()
    more = np.outer(np.arange(7), sum(values[h] @ matrices[h] for h in range(HEADS)))
    assert found["bias_in_sum_over_keys"] == pytest.approx(off(output + more, output), rel=1e-4)
    again = (HEADS - 1) * (sum(values[h] @ matrices[h] for h in range(HEADS)) + layer.b_O.numpy())
    assert found["bias_in_sum_over_heads"] == pytest.approx(off(output + again, output), rel=1e-4)


def stored(monkeypatch, layer, scale=1.0):
    """Let the layer's own matrices be those that are read, or others."""
    sides = [torch.cat([W.movedim(0, 1).flatten(1) for W in (layer.W_Q, layer.W_K, layer.W_V)], 1)]
    sides += [torch.cat([b.flatten() for b in (layer.b_Q, layer.b_K, layer.b_V)]), scale * layer.W_O.flatten(0, 1)]
    named = dict(zip(("c_attn.weight", "c_attn.bias", "c_proj.weight"), sides, strict=True))
    need = lambda name: named[name.removeprefix("h.0.attn.")]  # noqa: E731
    monkeypatch.setattr(first_layer, "load", lambda *_, **__: SimpleNamespace(tensors=SimpleNamespace(need=need)))


def test_parts_that_are_not_those_of_the_scores_vary_along_rows_and_across_queries(monkeypatch):
    """The parts are handed in: a semi-bias and constants of a row that do not belong to the scores."""
    layer, x = layer_of(), draw(5, WIDTH, seed=3)
    stored(monkeypatch, layer)
    right = first_layer.score_terms(x, layer)
    exact = first_layer.measure_identities(x, right, None, layer)
    assert max(exact.key_bias_along_rows, exact.query_bias_across_queries, exact.concatenation) < 1e-12
    assert max(exact.sum_over_heads, exact.shifted_scores, exact.content_without_biases) < 1e-12
    scores = scores_of(x, layer)
    size = scores.std(ddof=1)
    other = draw(HEADS, 1, 5, seed=4)
    found = first_layer.measure_identities(x, replace(right, semi_bias=right.semi_bias + other), None, layer)
    along = other.numpy().std(-1, ddof=1)
    assert found.key_bias_along_rows == pytest.approx(along.max() / size)
    assert along.max() > 1.1 * along.min()
    assert found.query_bias_across_queries < 1e-12
    other = draw(HEADS, 5, 1, seed=5)
    found = first_layer.measure_identities(x, replace(right, query_side=right.query_side + other), None, layer)
    across = other.numpy().std(1, ddof=1)
    assert found.query_bias_across_queries == pytest.approx(across.max() / size)
    assert across.max() > 1.1 * across.min()
    content = draw(HEADS, 5, 5, seed=6)
    found = first_layer.measure_identities(x, replace(right, content=content), None, layer)
    plain_content = scores_of(x, layer, b_Q=0, b_K=0)
    assert found.content_without_biases == pytest.approx(off(plain_content, content.numpy()))
    assert found.content_with_biases == pytest.approx(off(scores, content.numpy()))
    skew = content.numpy() - content.numpy().transpose(0, 2, 1)
    assert found.content_asymmetry == pytest.approx(np.sqrt((skew**2).sum() / (content.numpy() ** 2).sum()))


def test_a_stored_matrix_that_is_twice_as_large_is_told_by_its_output(monkeypatch):
    layer, x = layer_of(), draw(5, WIDTH, seed=3)
    stored(monkeypatch, layer, scale=2.0)
    found = first_layer.measure_identities(x, first_layer.score_terms(x, layer), None, layer)
    output = output_of(x, layer, weights_of(scores_of(x, layer)))
    twice = 2 * output - layer.b_O.numpy()
    assert found.output_rows == pytest.approx(layer.W_O.abs().max().item())
    assert found.concatenation == pytest.approx(off(twice, output))
    assert found.sum_over_heads == pytest.approx(off(output, twice))


def test_maps_that_are_no_causal_attention_are_told(monkeypatch):
    layer, x = layer_of(), draw(3, WIDTH, seed=3)
    stored(monkeypatch, layer)
    maps = torch.zeros(HEADS, 3, 3).double()
    maps[:, :, 0] = 1
    maps[0, 0, 1], maps[1, 1, 2], maps[1, 2, 2] = 0.25, -0.5, -0.75
    right = first_layer.attend(x, layer)
    monkeypatch.setattr(first_layer, "attend", lambda *_: replace(right, attention=maps))
    found = first_layer.measure_identities(x, first_layer.score_terms(x, layer), None, layer)
    assert (found.later_keys, found.row_sums) == (0.5, 0.75)


def test_each_part_of_the_stored_columns_is_compared():
    layer = layer_of()
    W = torch.cat([W.movedim(0, 1).flatten(1) for W in (layer.W_Q, layer.W_K, layer.W_V)], 1)
    b = torch.cat([b.flatten() for b in (layer.b_Q, layer.b_K, layer.b_V)])
    assert first_layer._distance_of_columns(W, b, layer) == 0
    for place in (0, 7, 17):
        other = W.clone()
        other[2, place] -= 0.5
        assert first_layer._distance_of_columns(other, b, layer) == pytest.approx(0.5)
        other = b.clone()
        other[place] -= 0.25
        assert first_layer._distance_of_columns(W, other, layer) == pytest.approx(0.25)


def test_a_map_of_the_semi_bias_is_off_by_a_share_of_its_largest_value(monkeypatch):
    layer, places = layer_of(), draw(4, WIDTH, seed=1)
    due = np.stack([places.numpy() @ layer.W_K[h].numpy() @ layer.b_Q[h].numpy() for h in range(HEADS)]) / 3**0.5
    wrong = due.copy()
    wrong[1, 2] -= 0.125
    monkeypatch.setattr(first_layer, "semi_bias", lambda *_: torch.from_numpy(wrong))
    assert first_layer.map_error(places, layer) == pytest.approx(0.125 / abs(due).max(), rel=1e-5)


@pytest.mark.parametrize(("drift", "raises"), [(0.9e-10, False), (-1.05e-10, True)])
def test_a_loss_may_not_hang_on_the_key_biases_of_either_layer(monkeypatch, drift, raises):
    """The two layers' key biases may change the loss by rounding; the query bias of the first layer does change it."""
    losses = {(None, (0,)): 2.0, ("b_K", (0, 1)): 2.0 + drift, ("b_Q", (0,)): 2.25}
    monkeypatch.setattr(first_layer, "loss_without", lambda _, __, part=None, layers=(0,): losses[part, layers])
    hand_over(monkeypatch, first_layer, **{"semi_bias/keys_first/seconds": 6.0, "semi_bias/ours/seconds": 4.0})
    if raises:
        with pytest.raises(AssertionError):
            first_layer.measure_losses({"error_no_query_bias": 0.5}, None, None, None)
    else:
        found = first_layer.measure_losses({"error_no_query_bias": 0.5}, None, None, None)
        assert (found.loss, found.loss_bq, found.no_bq, found.keys_first) == (2, 0.25, 0.5, 1.5)


def test_only_the_layers_that_are_named_lose_their_bias():
    """Logits are the sum of all biases: three parts of two layers, each a power of two."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            biases = [
                torch.nn.Parameter(torch.tensor(each), requires_grad=False) for each in ([1.0, 2, 4], [8.0, 16, 32])
            ]
            self.transformer = SimpleNamespace(
                h=[SimpleNamespace(attn=SimpleNamespace(c_attn=SimpleNamespace(bias=bias))) for bias in biases]
            )

        def forward(self, ids, use_cache):
            total = sum(layer.attn.c_attn.bias.sum() for layer in self.transformer.h)
            return SimpleNamespace(logits=torch.nn.functional.one_hot(ids, 3) * total / 32)

    windows = torch.tensor([[1, 1, 2], [2, 2, 2]])  # the next token is the same but once

    def due(total):
        right, wrong = math.log(2 + math.exp(total / 32)) - total / 32, math.log(2 + math.exp(total / 32))
        return (3 * right + wrong) / 4

    cases = {(None, (0, 1)): 63, ("b_K", (0, 1)): 63 - 18, ("b_Q", (1,)): 55, ("b_V", (0,)): 59}
    for (part, layers), total in cases.items():
        assert first_layer.loss_without(Model(), windows, part, layers) == pytest.approx(due(total))


# ---- attention on text beside that of positions alone


def test_attention_on_text_overlaps_with_that_of_positions_and_with_equal_weights():
    """Two texts of 20 tokens out of 9, queries from 16 on; widths of positions are means over all tokens."""
    layer, tokens, p = layer_of(1), draw(9, WIDTH, seed=1), draw(20, WIDTH, seed=2)
    layer = replace(layer, W_Q=layer.W_Q / 4)
    texts = torch.randint(9, (2, 20), generator=torch.Generator().manual_seed(0))
    found, of_uniform = locality.overlap_with_text(FirstLayer(layer, no_norm(WIDTH), p, tokens), texts)
    sums = tokens[:, None] + p
    width = 1 / (1 / sums.var(-1, correction=0).sqrt()).mean(0)
    y = (p - p.mean(1, keepdim=True)) / width[:, None]
    alone = weights_of(scores_of(y, layer, b_K=0))  # of positions: each pair, and what b_Q gives to the key
    overlaps = np.zeros((2, 2, HEADS))
    for k in range(2):
        maps = weights_of(scores_of(normed(tokens[texts[k]] + p), layer))
        for h in range(HEADS):
            even = np.stack([np.arange(20) <= query for query in range(20)]) / np.arange(1, 21)[:, None]
            for way, other in enumerate((alone[h], even)):
                overlaps[way, k, h] = np.minimum(maps[h], other)[16:].sum(1).mean()
    np.testing.assert_allclose(found, overlaps[0].mean(0), rtol=1e-6)
    np.testing.assert_allclose(of_uniform, overlaps[1].mean(0), rtol=1e-6)


def test_positions_alone_have_a_mass_on_the_nearest_three_and_sixteen_keys():
    layer, tokens, p = layer_of(1), draw(9, WIDTH, seed=1), draw(20, WIDTH, seed=2)
    own, near = locality.attention_of_positions(FirstLayer(layer, no_norm(WIDTH), p, tokens))
    width = 1 / (1 / (tokens[:, None] + p).var(-1, correction=0).sqrt()).mean(0)
    y = (p - p.mean(1, keepdim=True)) / width[:, None]
    semi = np.stack([y.numpy() @ layer.W_K[h].numpy() @ layer.b_Q[h].numpy() for h in range(HEADS)]) / 3**0.5
    np.testing.assert_allclose(own, semi)
    parts = [np.repeat(semi[:, None], 20, 1), scores_of(y, layer, b_Q=0, b_K=0), scores_of(y, layer, b_K=0)]
    for part, scores in enumerate(parts):
        maps = weights_of(scores)
        for reach, keys in enumerate((3, 16)):
            due = [np.mean([maps[h, i, i + 1 - keys : i + 1].sum() for i in range(16, 20)]) for h in range(HEADS)]
            np.testing.assert_allclose(near.mass[reach, part], due)
    assert near.uniform.tolist() == pytest.approx(
        [np.mean([keys / (i + 1) for i in range(16, 20)]) for keys in (3, 16)]
    )


def test_a_turn_takes_as_many_positions_as_its_median_step_says():
    angles = torch.tensor([0, 0.1, 0.2, 0.3, 2.0]).double().cumsum(0)  # steps 0.1, 0.2, 0.3 and 2
    around = torch.stack([angles.cos(), angles.sin(), angles], 1)
    assert gpt2.period(around) == pytest.approx(2 * math.pi / 0.25)
    assert gpt2.period(around.flip(0)) == pytest.approx(2 * math.pi / 0.25)


def test_drawn_tokens_come_from_their_own_seed(monkeypatch):
    seen = []
    monkeypatch.setattr(gpt2, "equality", lambda e, *_: seen.append(e) or {})
    monkeypatch.setattr(gpt2, "map_error", lambda *_: 0.0)
    places = draw(120, WIDTH, seed=8)
    gpt2._equality(places, plain(WIDTH), no_norm(WIDTH))
    widths = places[:100].var(1, correction=0).sqrt().sort().values
    torch.testing.assert_close(seen[0], draw(100, WIDTH, seed=1) * widths[49], rtol=1e-4, atol=0)
