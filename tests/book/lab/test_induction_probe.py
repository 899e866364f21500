"""The circuits of a trained model of two layers, against the model run as a whole, and by hand."""

import torch

from analysis.transformer import attention_only
from analysis.transformer.attention import attend
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


def test_an_untrained_model_scores_at_chance():
    tokens, _ = training.held_out(training.Config())
    scores = attention_only.score_heads(plain(training.Transformer(training.Config())), tokens)
    assert scores.prefix.max() < 0.1
    assert scores.previous.max() < 0.1
    assert scores.copying.max() < 3 / 64
