"""The circuits of a trained model of two layers, against the model run as a whole, and by hand."""

import itertools

import pytest
import torch

from analysis.transformer import attention_only
from analysis.transformer.attention import attend, compute_scores
from book.lab.induction_probe import plain
from book.lab.training import attention_only as training

SMALL = training.Config(vocab=11, length=20, model=24, heads=3, shortest=3, longest=7)


def make(seed=0, config=SMALL):
    return training.Transformer(config, seed).double()


def test_plain_tensors_equal_the_module():
    model, (tokens, _) = make(), training.held_out(SMALL, 5)
    ran = attention_only.run(plain(model), tokens)
    torch.testing.assert_close(ran.logits, model(tokens), rtol=0, atol=1e-12)
    assert len(ran.attention) == 2


def test_ablating_a_head_takes_its_update_away_and_nothing_else():
    model, (tokens, _) = make(), training.held_out(SMALL, 5)
    kept = torch.ones(2, 3, dtype=torch.float64)
    kept[1, 2] = 0
    weights = plain(model)
    stream = attention_only.run(weights, tokens).streams[1]
    update = attend(stream, weights.layers[1]).updates[:, 2]
    torch.testing.assert_close(model(tokens, kept), model(tokens) - update @ weights.W_U, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(tokens, torch.ones(2, 3, dtype=torch.float64)), model(tokens))


def test_circuits_are_the_parts_of_a_score():
    """With one-hot streams a score is a sum of circuits: check position to position and token to stored token."""
    weights = plain(make())
    layer = weights.layers[0]
    x = weights.W_P[:4]
    scores = compute_scores(x, layer)
    torch.testing.assert_close(attention_only.positional_qk_circuit(weights)[:, :4, :4], scores, rtol=0, atol=1e-12)
    share = torch.tensor([0.5, 0.0, 0.2], dtype=torch.float64)
    second = weights.layers[1]
    stored = sum(s * (weights.W_E @ v @ o) for s, v, o in zip(share, layer.W_V, layer.W_O, strict=True))
    match = attention_only.k_composition(weights, share)
    by_hand = (weights.W_E[2] @ second.W_Q[1]) @ (stored[5] @ second.W_K[1]) / 8**0.5
    torch.testing.assert_close(match[1, 2, 5], by_hand, rtol=0, atol=1e-12)
    copied = attention_only.full_ov_circuit(weights)
    torch.testing.assert_close(copied[0, 3], weights.W_E[3] @ second.W_V[0] @ second.W_O[0] @ weights.W_U)


def test_attention_reading_hides_a_layer_from_keys_or_queries():
    weights, (tokens, _) = plain(make()), training.held_out(SMALL, 5)
    ran = attention_only.run(weights, tokens)
    whole = attention_only.attention_reading(weights, ran, queries=1, keys=1)
    torch.testing.assert_close(whole, ran.attention[1], rtol=0, atol=1e-12)
    early = attention_only.attention_reading(weights, ran, queries=0, keys=0)
    alone = attend(weights.W_E[tokens] + weights.W_P, weights.layers[1]).attention
    torch.testing.assert_close(early, alone, rtol=0, atol=1e-12)
    keys, queries = (attention_only.attention_reading(weights, ran, queries=q, keys=1 - q) for q in (1, 0))
    assert not torch.allclose(keys, queries)


def test_top_1_accuracy_counts_rows_by_hand():
    scores = torch.zeros(3, 3)
    scores[1, 0] = scores[2, 0] = scores[0, 2] = 1
    assert attention_only.top_1_accuracy(scores, 1, causal=True) == 0.5
    assert attention_only.top_1_accuracy(torch.eye(3)) == 1
    assert attention_only.top_1_accuracy(torch.eye(3), 1, causal=True) == 0


def test_a_head_looks_back_as_much_as_it_attends_to_the_position_before():
    weights, (tokens, _) = plain(make()), training.held_out(SMALL, 5)
    ran, found = attention_only.run(weights, tokens), attention_only.score_heads(weights, tokens)
    for layer, attention in enumerate(ran.attention):
        due = torch.stack([attention[:, :, i, i - 1] for i in range(1, SMALL.length)]).mean((0, 1))
        torch.testing.assert_close(found.previous[layer], due)


def test_an_untrained_model_scores_at_chance():
    tokens, _ = training.held_out(training.Config())
    scores = attention_only.score_heads(plain(training.Transformer(training.Config())), tokens)
    assert scores.prefix.max() < 0.1
    assert scores.previous.max() < 0.1
    assert scores.copying.max() < 3 / 64


def test_too_long_a_sequence_is_refused():
    with pytest.raises(ValueError, match="21 long"):
        attention_only.run(plain(make()), torch.zeros(1, 21, dtype=torch.long))


@pytest.mark.usefixtures("unchecked")
def test_tokens_of_any_whole_type_are_numbers_and_no_mask():
    model, tokens = plain(make()), torch.tensor([[0, 3, 1, 1]])
    for dtype in (torch.uint8, torch.int32):
        assert torch.equal(attention_only.run(model, tokens.to(dtype)).logits, attention_only.run(model, tokens).logits)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: attention_only.run(m, torch.tensor([0, 1])), r"\(batch, position\)"),
        (lambda m: attention_only.run(m, torch.tensor([[0, -1]])), r"in 0\.\.10"),
        (lambda m: attention_only.run(m, torch.tensor([[0, 11]])), r"in 0\.\.10"),
        (lambda m: attention_only.positional_qk_circuit(m, 2), "layer must lie"),
        (lambda m: attention_only.full_ov_circuit(m, -1), "layer must"),
        (lambda m: attention_only.k_composition(m, torch.ones(2).double()), r"share must be \(3,\)"),
        (
            lambda m: attention_only.attention_reading(
                m, attention_only.run(m, torch.tensor([[0, 1]])), queries=-1, keys=0
            ),
            "queries",
        ),
        (lambda m: attention_only.AttentionOnly(m.W_E, m.W_P[:, 1:], m.layers, m.W_U), "W_P must be"),
        (lambda m: attention_only.AttentionOnly(m.W_E, m.W_P, m.layers, m.W_U.T), "W_U must be"),
        (lambda m: attention_only.top_1_accuracy(torch.zeros(3, 3), -1), "offset must lie"),
        (lambda m: attention_only.top_1_accuracy(torch.zeros(3, 3), 3), "offset must lie"),
        (lambda m: attention_only.top_1_accuracy(torch.zeros(2, 3)), "scores must be square"),
        (lambda m: attention_only.top_1_accuracy(torch.full((3, 3), torch.nan)), "hold nan"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_circuits_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call(plain(make()))


def test_composition_scores_are_those_of_every_pair_of_heads():
    generator = torch.Generator().manual_seed(0)
    W_O, W = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((2, 3, 6), (4, 6, 5)))
    scores = attention_only.composition_scores(W_O, W)
    assert scores.shape == (2, 4)
    for i, j in itertools.product(range(2), range(4)):
        due = (W_O[i] @ W[j]).norm() / (W_O[i].norm() * W[j].norm())
        assert torch.isclose(scores[i, j], due)


@pytest.mark.usefixtures("unchecked")
def test_composition_scores_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="W must be"):
        attention_only.composition_scores(torch.ones(2, 3, 6), torch.ones(4, 5, 3))
    with pytest.raises(ValueError, match=r"W_O must be \(head, channel, model\)"):
        attention_only.composition_scores(torch.ones(1, 2, 3, 6), torch.ones(4, 6, 3))
