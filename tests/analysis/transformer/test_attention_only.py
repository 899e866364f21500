"""Circuits and scores of attention-only models whose answers are known without computing."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.transformer.attention_only import (
    AttentionOnly,
    attention_reading,
    composition_scores,
    full_ov_circuit,
    k_composition,
    positional_qk_circuit,
    run,
    score_heads,
    top_1_accuracy,
)
from tests.analysis.tiny import draw

PLACES = 6


def one_step_back(sharp=50.0):
    """A model of one head that reads positions alone and looks one step back; values and tokens are nothing."""
    eye, zero = torch.eye(PLACES)[None], torch.zeros(1, PLACES)
    back = sharp * torch.eye(PLACES).roll(-1, 1)[None]  # position i asks for position i - 1
    layer = AttentionLayer(back, eye, 0 * eye, eye, zero, zero, zero, zero[0], scale=1.0, mask=Mask(causal=True))
    return AttentionOnly(torch.zeros(4, PLACES), torch.eye(PLACES), (layer,), torch.zeros(PLACES, 4))


def test_a_head_that_looks_one_step_back_scores_one():
    tokens = torch.tensor([[0, 1, 2, 3, 0, 1]])
    scores = score_heads(one_step_back(), tokens)
    torch.testing.assert_close(scores.previous, torch.ones(1, 1))
    seen = run(one_step_back(), tokens).attention[0][0, 0]
    assert seen.argmax(-1).tolist() == [0, 0, 1, 2, 3, 4]


def test_its_prefix_score_is_that_of_the_places_it_looks_at():
    tokens = torch.tensor([[0, 1, 2, 3, 0, 1]])  # from places 4 and 5 it looks at 3 and 4; the matches stand at 1 and 2
    assert score_heads(one_step_back(), tokens).prefix.item() < 1e-6
    tokens = torch.tensor([[0, 1, 1, 1, 1, 1]])  # of the places 2 to 5, the place before is a match from 3 on
    torch.testing.assert_close(score_heads(one_step_back(), tokens).prefix, torch.tensor([[3 / 4]]))


def drawn_model(vocab=5, model=6, length=7, channel=4):
    """A model of two layers of three heads, every number random."""
    layers = []
    for seed, heads in enumerate((3, 3)):
        shapes = [(heads, model, channel)] * 3 + [(heads, channel, model)] + [(heads, channel)] * 3 + [(model,)]
        drawn = [draw(*shape, seed=100 * seed + k) for k, shape in enumerate(shapes)]
        layers.append(AttentionLayer(*drawn, mask=Mask(causal=True)))
    return AttentionOnly(draw(vocab, model, seed=8), draw(length, model, seed=9), layers, draw(model, vocab, seed=10))


TOKENS = torch.tensor([[0, 1, 2, 0, 1, 4], [3, 3, 1, 2, 3, 1]])


def causal_map(queries, keys, layer, head):
    scores = (queries @ layer.W_Q[head] + layer.b_Q[head]) @ (keys @ layer.W_K[head] + layer.b_K[head]).T
    hidden = torch.ones(len(scores), len(scores), dtype=torch.bool).triu(1)
    return (scores / 2).masked_fill(hidden, -math.inf).softmax(-1)  # the root of four channels


def test_a_run_adds_what_every_head_writes():
    model = drawn_model()
    found = run(model, TOKENS)
    for text, tokens in enumerate(TOKENS):
        x = model.W_E[tokens] + model.W_P[: len(tokens)]
        for number, layer in enumerate(model.layers):
            torch.testing.assert_close(found.streams[number][text], x)
            update = layer.b_O.expand_as(x)
            for head in range(layer.heads):
                attention = causal_map(x, x, layer, head)
                torch.testing.assert_close(found.attention[number][text, head], attention)
                update = update + attention @ (x @ layer.W_V[head] + layer.b_V[head]) @ layer.W_O[head]
            x = x + update
        torch.testing.assert_close(found.logits[text], x @ model.W_U)


def test_circuits_are_products_of_the_matrices_of_their_layer():
    model, share = drawn_model(), torch.tensor([0.25, 2.0, -1.0], dtype=torch.float64)
    first, second = model.layers
    stored = sum(share[h] * model.W_E @ first.W_V[h] @ first.W_O[h] for h in range(3))
    composed, raised = k_composition(model, share), full_ov_circuit(model)
    for h in range(3):
        torch.testing.assert_close(composed[h], model.W_E @ second.W_Q[h] @ (stored @ second.W_K[h]).T / 2)
        torch.testing.assert_close(raised[h], model.W_E @ second.W_V[h] @ second.W_O[h] @ model.W_U)
        positional = model.W_P @ second.W_Q[h] @ (model.W_P @ second.W_K[h]).T / 2
        torch.testing.assert_close(positional_qk_circuit(model, 1)[h], positional)
    assert positional_qk_circuit(model).shape == (3, 7, 7)
    assert full_ov_circuit(model, 0).shape == (3, 5, 5)


@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_queries_and_keys_read_the_streams_they_are_told_to(queries, keys):
    model = drawn_model()
    activations = run(model, TOKENS)
    found = attention_reading(model, activations, queries=queries, keys=keys)
    for text in range(2):
        for head in range(3):
            due = causal_map(activations.streams[queries][text], activations.streams[keys][text], model.layers[1], head)
            torch.testing.assert_close(found[text, head], due)


def test_heads_are_scored_as_means_over_texts():
    model = drawn_model()
    activations, found = run(model, TOKENS), score_heads(model, TOKENS)
    after = [[(3, 1), (4, 2)], [(1, 1), (4, 1), (4, 2), (5, 3)]]  # (query, key that followed the same token before)
    for number, layer in enumerate(model.layers):
        for head in range(layer.heads):
            previous, prefix, copied = [], [], []
            for text, tokens in enumerate(TOKENS):
                attention = activations.attention[number][text, head]
                previous.append(sum(attention[i, i - 1] for i in range(1, 6)) / 5)
                repeats = {query for query, _ in after[text]}
                prefix.append(sum(attention[query, key] for query, key in after[text]) / len(repeats))
                message = activations.streams[number][text] @ layer.W_V[head] @ layer.W_O[head] @ model.W_U
                above = (message - message.mean(-1, keepdim=True)).clamp(min=0)
                share = torch.stack([above[key, token] / above[key].sum() for key, token in enumerate(tokens)])
                copied.append((attention @ share).mean())
            torch.testing.assert_close(found.previous[number][head], sum(previous) / 2)
            torch.testing.assert_close(found.prefix[number][head], sum(prefix) / 2)
            torch.testing.assert_close(found.copying[number][head], sum(copied) / 2)


def test_the_largest_score_of_a_row_counts_where_it_lies():
    scores = torch.tensor([[[1, 9, 0], [5, 2, 9], [0, 4, 1]], [[3, 1, 2], [1, 3, 2], [9, 1, 0]]]).float()
    largest = {False: [[1, 2, 1], [0, 1, 0]], True: [[0, 0, 1], [0, 1, 0]]}  # with causal, of the keys up to the query
    for causal, at in largest.items():
        for offset in range(3):
            due = [sum(row[i] == i - offset for i in range(offset, 3)) / (3 - offset) for row in at]
            assert top_1_accuracy(scores, offset, causal=causal).tolist() == pytest.approx(due)


def test_composition_is_a_product_over_its_factors():
    W_O, W = draw(2, 3, 5), draw(4, 5, 6, seed=2)
    found = composition_scores(W_O, W)
    for i in range(2):
        for j in range(4):
            size = (W_O[i] @ W[j]).square().sum().sqrt()
            due = size / (W_O[i].square().sum().sqrt() * W[j].square().sum().sqrt())
            torch.testing.assert_close(found[i, j], due)


@pytest.mark.usefixtures("unchecked")
def test_models_that_do_not_fit_are_refused():
    model = drawn_model()
    for field, message in (
        ({"W_P": draw(7, 5)}, r"W_P must be \(position, 6\)"),
        ({"W_U": draw(5, 6)}, r"W_U must be \(6, 5\)"),
        ({"W_E": draw(5, 7), "W_P": draw(7, 7), "W_U": draw(7, 5)}, r"width 7 of W_E, got \[6, 6\]"),
        ({"layers": [replace(model.layers[0], mask=Mask())]}, "layers must be causal"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(model, **field)
    with pytest.raises(ValueError, match=r"layer must lie in 0\.\.1"):
        model.layer(2)
    assert model.layer(1) is model.layers[1]
    for call, message in (
        (lambda: run(model, torch.tensor([0, 1])), r"\(batch, position\)"),
        (lambda: run(model, torch.tensor([[0, 5]])), r"in 0\.\.4"),
        (lambda: run(model, torch.tensor([[0, -1]])), r"in 0\.\.4"),
        (lambda: positional_qk_circuit(model, 2), "layer must lie"),
        (lambda: full_ov_circuit(model, -1), "layer must"),
        (lambda: k_composition(model, draw(2)), r"share must be \(3,\)"),
        (lambda: attention_reading(model, run(model, TOKENS), queries=-1, keys=0), "queries"),
        (lambda: top_1_accuracy(torch.zeros(3, 3), -1), "offset must lie"),
        (lambda: top_1_accuracy(torch.zeros(3, 3), 3), "offset must lie"),
        (lambda: top_1_accuracy(torch.zeros(2, 3)), "scores must be square"),
        (lambda: composition_scores(draw(2, 3, 6), draw(4, 5, 3)), "W must be"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for dtype in (torch.uint8, torch.int32):  # whole numbers of any type are tokens, and no mask
        assert run(model, TOKENS.to(dtype)).logits.equal(run(model, TOKENS).logits)
    long = torch.zeros(1, 8, dtype=torch.int64)
    with pytest.raises(ValueError, match="tokens are 8 long, the model has 7 positions"):
        run(model, long)
    run(model, long[:, :7])
