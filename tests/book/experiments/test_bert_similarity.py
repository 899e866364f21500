"""How often another word scores higher than the word itself, against a count by hand."""

import pytest
import torch

from book.experiments.bert_similarity_ladder import higher_than_own


def test_other_words_are_counted_one_by_one():
    generator = torch.Generator().manual_seed(0)
    tokens = [101, 5, 6, 5, 7, 8, 6, 102]
    scores = torch.randn(3, len(tokens), len(tokens), generator=generator, dtype=torch.float64)
    some, shares = [], []
    for head in scores.tolist():
        for i in range(1, 7):
            rivals = [head[i][j] for j in range(1, 7) if tokens[j] != tokens[i]]
            higher = [rival for rival in rivals if rival > head[i][i]]
            some.append(bool(higher))
            shares.append(len(higher) / len(rivals))
    found = higher_than_own(scores, torch.tensor(tokens))
    assert found.tolist() == pytest.approx([sum(some) / 18, sum(shares) / 18])


def test_the_head_on_paper():
    x = torch.tensor([[0.0, 0], [1, 0], [0, 1], [0, 0]])  # iced, tea, between two that are no words
    scores = 2 * x[:, 1:] @ x[:, :1].mT
    found = higher_than_own(scores[None], torch.tensor([101, 5, 6, 102]))
    assert found.tolist() == [0.5, 0.5]  # tea prefers iced; iced prefers nothing
