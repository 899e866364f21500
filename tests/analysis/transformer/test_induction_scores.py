"""Scores of induction against sums written out, for batches of texts and of heads."""

import pytest
import torch

from analysis.transformer.induction_scores import (
    copying_score,
    earlier_matches,
    induction_score,
    mean_of_successors,
    previous_token_score,
)
from tests.analysis.tiny import draw

TOKENS = torch.tensor([[0, 1, 0, 0, 1], [2, 2, 1, 3, 2]])
FOLLOWED = [{2: [1], 3: [1, 3], 4: [2]}, {1: [1], 4: [1, 2]}]
"""Of each text: the queries whose token came before, with the keys that followed it then."""


def test_matches_stand_after_the_earlier_token():
    found = earlier_matches(TOKENS)
    for text, followed in enumerate(FOLLOWED):
        due = torch.zeros(5, 5)
        for query, keys in followed.items():
            due[query, keys] = 1
        assert found[text].equal(due)
    two = earlier_matches(TOKENS[0], 2)  # two places after an equal token, up to the query itself
    assert two.nonzero().tolist() == [[2, 2], [3, 2], [4, 3]]


def test_the_induction_score_is_a_mean_over_queries_seen_before():
    attention = draw(2, 3, 5, 5).softmax(-1)
    found = induction_score(attention, TOKENS)
    for text, followed in enumerate(FOLLOWED):
        due = sum(attention[text, :, query, keys].sum(-1) for query, keys in followed.items()) / len(followed)
        torch.testing.assert_close(found[text], due)
    torch.testing.assert_close(induction_score(attention, TOKENS[0])[0], found[0])  # one text for all maps
    with pytest.raises(ValueError, match="tokens must repeat"):
        induction_score(attention, torch.tensor([[0, 1, 0, 0, 1], [0, 1, 2, 3, 4]]))


def test_copying_is_a_share_of_what_is_raised_above_the_mean():
    attention, logits = draw(2, 3, 5, 5).softmax(-1), draw(2, 3, 5, 4, seed=2)
    found = copying_score(attention, logits, TOKENS)
    for text in range(2):
        for head in range(3):
            total = 0.0
            for key, token in enumerate(TOKENS[text].tolist()):
                message = logits[text, head, key]
                above = [max(float(value - message.mean()), 0.0) for value in message]
                total += float(attention[text, head, :, key].mean()) * above[token] / sum(above)
            assert found[text, head].item() == pytest.approx(total)
    torch.testing.assert_close(copying_score(attention, logits, TOKENS[1])[1], found[1])


def test_copying_scores_of_all_tokens_sum_to_one():
    """An identity, of any messages: the shares of all 50 tokens sum to 1, so a token drawn at random has 1 / 50."""
    attention, logits = draw(4, 5, 5).softmax(-1), draw(4, 5, 50, seed=2)
    found = torch.stack([copying_score(attention, logits, torch.full((5,), token)) for token in range(50)])
    torch.testing.assert_close(found.sum(0), torch.ones(4, dtype=found.dtype))


def test_successors_are_averaged_and_a_new_token_gets_the_mean_so_far():
    found = mean_of_successors(TOKENS, 4)
    due = [
        [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0]],
        [[0, 0, 1, 0], [0, 0, 1, 0], [0, 1 / 3, 2 / 3, 0], [0, 0.25, 0.5, 0.25], [0, 0.5, 0.5, 0]],
    ]
    torch.testing.assert_close(found, torch.tensor(due).double())


def test_the_previous_token_score_is_of_queries_that_have_a_token_before_them():
    maps = torch.eye(5).roll(1, 1).mT.expand(3, 2, 5, 5).clone()
    maps[:, :, 0], maps[0, 1, 2] = 0.2, 0.2
    scores = previous_token_score(maps)
    assert scores.shape == (3, 2)
    torch.testing.assert_close(scores[0], torch.tensor([1.0, 0.8]))
    with pytest.raises(ValueError, match="attention must have at least 2 positions"):
        previous_token_score(maps[..., :1, :1])
    with pytest.raises(ValueError, match="attention must have rows that sum to 1"):
        previous_token_score(maps / 2)
