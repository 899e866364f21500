"""Parts of rotary scores, losses without them and kernels, on small inputs that are worked out a second time."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.positions import Rotary
from book.studies.rotary_bias import kernels, parts, runs, seeds
from book.studies.shared.equality import draw, random_layer


def test_queries_and_keys_are_those_of_the_last_look():
    trace = {f"{part}_{kind}": np.arange(16.0).reshape(4, 2, 2) + 100 * k for k, (part, kind) in enumerate(VECTORS)}
    found = {kind: [(q.tolist(), k.tolist()) for q, k in pairs] for kind, pairs in parts.biases_of(trace).items()}
    assert found == {
        "bias": [([12, 13], [112, 113]), ([14, 15], [114, 115])],
        "mean": [([212, 213], [312, 313]), ([214, 215], [314, 315])],
    }


VECTORS = [("query", "bias"), ("key", "bias"), ("query", "mean"), ("key", "mean")]


def test_what_nothing_turns_of_the_key_bias_is_tried_with_all_of_the_query(monkeypatch):
    """What is added and taken away again is the whole query on the last 12 of 16 coordinates of the key bias."""
    handed = []
    split = parts.attribute_divergence
    monkeypatch.setattr(parts, "rotary_module_scores", lambda family, layer, turn, x: torch.ones(1))
    monkeypatch.setattr(parts, "relative_gap", lambda one, other: 0.0)
    monkeypatch.setattr(parts, "key_bias_effect", lambda case: case)

    def watch(scores, visible):
        handed.append(scores)
        return split(scores, visible)

    monkeypatch.setattr(parts, "attribute_divergence", watch)
    found = parts.measure_exactness()
    (scores,) = handed
    layer, x = random_layer(4, 64, 16), draw(1, 12, 64)[0]
    queries = x @ layer.W_Q + layer.b_Q[:, None]
    due = torch.einsum("hqc,hc->hq", queries[..., 4:], layer.b_K[:, 4:]) / 4  # the root of the width
    assert scores.shape[0] == 7
    torch.testing.assert_close(scores[5][0], due[..., None].expand(4, 12, 12))
    torch.testing.assert_close(scores[6], -scores[5])
    shares = split(scores, torch.ones(12, 12).bool().tril()).parts.abs()
    assert found.turned_share == pytest.approx(max(shares[3].max().item(), shares[4].max().item()))
    assert found.rest_share == shares[5].max().item()


def test_a_loss_is_a_mean_over_tokens_and_a_share_of_them_is_right():
    """Three windows of two tokens each, in batches of two; the model finds its token twice as likely as the other."""
    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, input_ids, use_cache):
            seen.append((input_ids.tolist(), use_cache))
            odds = torch.where(torch.nn.functional.one_hot(input_ids, 2) == 1, 2.0, 1.0)
            return SimpleNamespace(logits=odds.log())

    windows = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1]])  # right: two, one, none
    loss, right = parts.evaluate(Model(), windows, batch=2)
    assert seen == [([[0, 0], [0, 1]], False), ([[1, 0]], False)]
    assert loss == pytest.approx((3 * np.log(3 / 2) + 3 * np.log(3)) / 6)
    assert right == 0.5


def test_other_attention_takes_the_place_of_a_models_own(monkeypatch):
    held = []

    @contextmanager
    def with_attention(model, scores):
        held.append(scores)
        yield
        held.append("left")

    monkeypatch.setattr(parts.attention_hooks, "with_attention", with_attention)
    model = torch.nn.Linear(1, 1)
    model.forward = lambda input_ids, use_cache: SimpleNamespace(logits=torch.zeros(*input_ids.shape, 2))
    loss, right = parts.evaluate(model, torch.tensor([[0, 0], [1, 1], [1, 0]]), "scores", batch=2)
    assert (loss, right, held) == (pytest.approx(np.log(2)), pytest.approx(2 / 3), ["scores", "left"] * 2)


def test_shares_of_attention_add_up_over_texts_and_the_largest_gap_is_kept(monkeypatch):
    """Row 0 of a text sees one key and is left out; rows are counted once, in layer 0."""
    asked, gaps = [], iter([0.5, 0.25, 0.125, 0.0625])

    def attribute(pieces, visible):
        asked.append((pieces.dtype, visible.tolist()))
        rows = torch.arange(1.0, 1 + pieces.shape[-2]).double()
        return SimpleNamespace(parts=torch.ones(5, 1, 2, 1) * rows, gap=next(gaps))

    monkeypatch.setattr(parts, "attribute_divergence", attribute)
    monkeypatch.setattr(parts.SplitRows, "_split", lambda self, query, key, biases, scale: query[None] * scale)
    split = parts.SplitRows({"bias": ["b0", "b1"]}, "turn")
    for layer, n in ((0, 2), (1, 2), (0, 3), (1, 3)):
        x = torch.randn(1, 2, n, 4)
        found = split(layer, x, x, x, scale=0.5, causal=True)
        due = (0.5 * x @ x.mT).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1) @ x
        torch.testing.assert_close(found, due)
    assert asked[0] == (torch.float64, [[True, False], [True, True]])
    assert (split.rows, split.gap) == (1 + 2, 0.5)
    # rows are worth 1, 2, 3: of the first text 2, of the second 2 + 3
    assert split.shares["bias", 1].tolist() == [[7, 7]] * 5
    np.testing.assert_allclose(split.means(), np.full((1, 2, 2, 5), 7 / 3))


def test_queries_and_keys_are_averaged_over_batches_while_the_model_attends_as_it_does(monkeypatch):
    """Three windows of two tokens, in batches of two and one: six positions."""
    x = torch.randn(2, 3, 2, 2, 4, generator=torch.Generator().manual_seed(0))  # layer, window, head, position

    def evaluate(model, windows, attend):
        for rows in (slice(0, 2), slice(2, 3)):
            for layer in (1, 0):
                query, value = x[layer, rows], x[layer, rows] + 1
                found = attend(layer, query, 2 * query, value, scale=0.5, causal=True)
                odds = (query @ query.mT).exp().tril()
                torch.testing.assert_close(found, odds / odds.sum(-1, keepdim=True) @ value)

    monkeypatch.setattr(runs, "evaluate", evaluate)
    found = runs.mean_query_and_key(None, torch.zeros(3, 3))
    for layer, (query, key) in enumerate(found):
        mean = x[layer].mean((0, 2))
        torch.testing.assert_close(query, mean)
        torch.testing.assert_close(key, 2 * mean)


def test_the_size_of_a_layers_kernels_is_that_of_the_median_head():
    """Three heads that turn once in 4 positions, with kernels of 1, 2 and 9 nats to either side of nothing."""
    turn = Rotary(torch.tensor([np.pi / 2]).double(), 2)
    sizes = np.array([1.0, 9, 2])
    key = np.zeros((2, 1, 3, 2))
    key[..., 0] = np.stack([[sizes / 2], [sizes]])
    trace = {"query_bias": np.broadcast_to([2**0.5, 0], key.shape).copy(), "key_bias": key}
    trace |= {"query_mean": trace["query_bias"], "key_mean": 3 * key}
    trace |= {name: np.array([4.0, 3]) for name in ("held_out", "held_out_no_query_bias", "held_out_no_key_bias")}
    found = kernels.measure_emergence(trace | {"step": np.array([0, 500])}, turn)
    np.testing.assert_allclose(found.sizes["bias"], [[2], [4]])
    np.testing.assert_allclose(found.sizes["mean"], [[6], [12]])
    assert (found.early_step, found.early_range) == (0, pytest.approx(9))


def test_near_heads_by_chance_have_the_sizes_of_all_layers(monkeypatch):
    """Two layers of one head that turn once in 4 positions: kernels of 3 and 5 nats; the largest count is kept."""
    turn, handed = Rotary(torch.tensor([np.pi / 2]).double(), 2), []
    query, key = np.zeros((2, 4, 2, 1, 2))
    query[..., 0] = 2**0.5
    key[-1, 0, 0, 0], key[-1, 1, 0, 1] = 3, 5
    monkeypatch.setattr(seeds, "near_by_chance", lambda given: handed.append(given) or np.array([2, 7, 4]))
    assert seeds._chance({"query_mean": query, "key_mean": key}, turn) == 7
    np.testing.assert_allclose(handed[0]["amplitude"], [[[3]], [[5]]])
    np.testing.assert_allclose(handed[0]["frequencies"], [np.pi / 2])
