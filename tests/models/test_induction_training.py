"""The trained model in plain tensors: equal to the module, ablation, batches that repeat, files that are whole."""

import numpy as np
import pytest
import torch

from analysis import circuits
from analysis.attention import attend
from analysis.experiments.induction_training import formed_at, plain, probe, split_loss
from analysis.training import induction

SMALL = induction.Config(vocab=11, length=20, model=24, heads=3, shortest=3, longest=7)


def make(seed=0, config=SMALL):
    return induction.Transformer(config, seed).double()


def test_plain_tensors_equal_the_module():
    model, (tokens, _) = make(), induction.held_out(SMALL, 5)
    ran = circuits.run(plain(model), tokens)
    torch.testing.assert_close(ran.logits, model(tokens), rtol=0, atol=1e-12)
    assert len(ran.attention) == 2


def test_ablating_a_head_takes_its_update_away_and_nothing_else():
    model, (tokens, _) = make(), induction.held_out(SMALL, 5)
    kept = torch.ones(2, 3, dtype=torch.float64)
    kept[1, 2] = 0
    weights = plain(model)
    stream = circuits.run(weights, tokens).streams[1]
    update = attend(stream, weights.layers[1], causal=True).updates[:, 2]
    torch.testing.assert_close(model(tokens, kept), model(tokens) - update @ weights.W_U, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(tokens, torch.ones(2, 3, dtype=torch.float64)), model(tokens))


def test_circuits_are_the_parts_of_a_score():
    """With one-hot streams a score is a sum of circuits: check position to position and token to stored token."""
    weights = plain(make())
    layer = weights.layers[0]
    x = weights.W_P[:4]
    scores = attend(x, layer).scores
    torch.testing.assert_close(circuits.position_scores(weights)[:, :4, :4], scores, rtol=0, atol=1e-12)
    share = torch.tensor([0.5, 0.0, 0.2], dtype=torch.float64)
    second = weights.layers[1]
    stored = sum(s * (weights.W_E @ v @ o) for s, v, o in zip(share, layer.W_V, layer.W_O, strict=True))
    match = circuits.match_scores(weights, share)
    by_hand = (weights.W_E[2] @ second.W_Q[1]) @ (stored[5] @ second.W_K[1]) / 8**0.5
    torch.testing.assert_close(match[1, 2, 5], by_hand, rtol=0, atol=1e-12)
    copied = circuits.copy_scores(weights)
    torch.testing.assert_close(copied[0, 3], weights.W_E[3] @ second.W_V[0] @ second.W_O[0] @ weights.W_U)


def test_attention_reading_hides_a_layer_from_keys_or_queries():
    weights, (tokens, _) = plain(make()), induction.held_out(SMALL, 5)
    ran = circuits.run(weights, tokens)
    whole = circuits.attention_reading(weights, ran, queries=1, keys=1)
    torch.testing.assert_close(whole, ran.attention[1], rtol=0, atol=1e-12)
    early = circuits.attention_reading(weights, ran, queries=0, keys=0)
    alone = attend(weights.W_E[tokens] + weights.W_P, weights.layers[1], causal=True).attention
    torch.testing.assert_close(early, alone, rtol=0, atol=1e-12)
    keys, queries = (circuits.attention_reading(weights, ran, queries=q, keys=1 - q) for q in (1, 0))
    assert not torch.allclose(keys, queries)


def test_found_on_counts_rows_by_hand():
    scores = torch.zeros(3, 3)
    scores[1, 0] = scores[2, 0] = scores[0, 2] = 1
    assert circuits.found_on(scores, 1, causal=True) == 0.5
    assert circuits.found_on(torch.eye(3)) == 1
    assert circuits.found_on(torch.eye(3), 1, causal=True) == 0


def test_an_untrained_model_scores_at_chance():
    tokens, _ = induction.held_out(induction.Config())
    scores = circuits.score_heads(plain(induction.Transformer(induction.Config())), tokens)
    assert scores.prefix.max() < 0.1
    assert scores.previous.max() < 0.1
    assert scores.copying.max() < 3 / 64


def test_batches_repeat_with_their_own_period_and_depend_on_the_seed_alone():
    tokens, repeated = induction.draw_batch(SMALL, 50, seed=3)
    periods = SMALL.length - repeated.sum(1)
    assert set(periods.tolist()) == {3, 4, 5, 6, 7}
    for row, known, period in zip(tokens, repeated, periods, strict=True):
        assert (row[period:] == row[:-period]).all()
        assert known[period - 1:].all()
        assert not known[: period - 1].any()
    assert (induction.draw_batch(SMALL, 50, seed=3)[0] == tokens).all()
    assert (induction.draw_batch(SMALL, 50, seed=4)[0] != tokens).any()


def test_trains_writes_loads_and_probes(tmp_path, monkeypatch):
    model, run = induction.train(tmp_path, steps=60, config=SMALL, probe=probe(SMALL), name=None, device="cpu")
    assert run.losses[-10:].mean() < run.losses[:10].mean()
    assert list(run.trace["step"]) == [0, 25, 50, 60]
    assert run.trace["prefix"].shape == (4, 2, 3)
    loaded, card = induction.load(tmp_path)
    tokens, repeated = induction.held_out(SMALL)
    assert split_loss(loaded, tokens, repeated) == split_loss(model, tokens, repeated)
    assert run.trace["repeated"][-1] == pytest.approx(split_loss(loaded, tokens, repeated)[1])
    assert induction.load()[1]["parameters"] == 331_776     # the bundled one
    monkeypatch.setenv("ANALYSIS_FOLDER_INDUCTION", str(tmp_path))
    assert induction.load()[1] == card
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    weights = tmp_path / induction.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="sha256"):
        induction.load(tmp_path)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match="train induction"):
        induction.load(tmp_path)


def test_formed_at_is_the_first_step_of_one_half():
    prefix = np.array([[[0.1, 0.2]], [[0.5, 0.1]], [[0.9, 0.1]]])
    assert formed_at(np.array([0, 25, 50]), prefix) == 25
    assert formed_at(np.array([0, 25, 50]), prefix / 2) == -1


@pytest.mark.parametrize(("sizes", "message"), [({"model": 10, "heads": 3}, "multiple of heads"),
                                                ({"longest": 64}, "blocks must be"), ({"shortest": 0}, "blocks must")])
def test_config_refuses(sizes, message):
    with pytest.raises(ValueError, match=message):
        induction.Config(**sizes)


def test_too_long_a_sequence_is_refused():
    with pytest.raises(ValueError, match="21 long"):
        circuits.run(plain(make()), torch.zeros(1, 21, dtype=torch.long))


@pytest.mark.parametrize(("call", "message"), [
    (lambda m: circuits.run(m, torch.tensor([0, 1])), r"\(batch, position\)"),
    (lambda m: circuits.run(m, torch.tensor([[0, -1]])), r"in 0\.\.10"),
    (lambda m: circuits.run(m, torch.tensor([[0, 11]])), r"in 0\.\.10"),
    (lambda m: circuits.position_scores(m, 2), "layer must lie"), (lambda m: circuits.copy_scores(m, -1), "layer must"),
    (lambda m: circuits.match_scores(m, torch.ones(2).double()), r"share must be \(3,\)"),
    (lambda m: circuits.attention_reading(m, circuits.run(m, torch.tensor([[0, 1]])), queries=-1, keys=0), "queries"),
    (lambda m: circuits.AttentionOnly(m.W_E, m.W_P[:, 1:], m.layers, m.W_U), "W_P must be"),
    (lambda m: circuits.AttentionOnly(m.W_E, m.W_P, m.layers, m.W_U.T), "W_U must be"),
    (lambda m: circuits.found_on(torch.zeros(3, 3), -1), "offset must lie"),
    (lambda m: circuits.found_on(torch.zeros(3, 3), 3), "offset must lie"),
    (lambda m: circuits.found_on(torch.zeros(2, 3)), r"\(\.\.\., n, n\)"),
    (lambda m: circuits.found_on(torch.full((3, 3), torch.nan)), "hold nan"),
    (lambda m: induction.Config(heads=0), "must be at least 1"), (lambda m: induction.Config(vocab=0), "must be at"),
    (lambda m: make()(torch.zeros(1, 21, dtype=torch.long)), "21 long"),
])
@pytest.mark.usefixtures("unchecked")
def test_circuits_and_model_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call(plain(make()))
