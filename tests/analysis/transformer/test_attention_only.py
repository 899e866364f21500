"""Circuits and scores of attention-only models whose answers are known without computing."""

import torch

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.transformer.attention_only import AttentionOnly, positional_qk_circuit, run, score_heads

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


def test_the_circuit_of_positions_by_hand():
    circuit = positional_qk_circuit(one_step_back(sharp=3.0))
    assert circuit.shape == (1, PLACES, PLACES)
    assert torch.equal((circuit[0] * PLACES**0.5).round(), 3 * torch.eye(PLACES).roll(-1, 1))
