"""Cells of stories compute what the library and the evidence compute: scores and their parts, weighted means."""

from types import SimpleNamespace

import pytest
import torch

from analysis import AttentionLayer, attend, compute_scores, score_terms
from analysis.models import checkpoints
from book.lab.equality import entropy_shares
from book.publish import execution


def leave(page: str) -> SimpleNamespace:
    """Run a story's cells one after the other, and keep what they leave."""
    space = {"__name__": "__main__"}
    for cell in execution.cell_sources(execution.pages()[page].read_text(encoding="utf-8")):
        exec(compile(cell, "story", "exec"), space)
    return SimpleNamespace(**space)


@pytest.fixture(scope="module")
def ran():
    return leave("notation")


@pytest.fixture(scope="module")
def means():
    return leave("weighted-mean")


def test_the_paper_case_is_that_of_a_layer(ran):
    none = torch.zeros(1, 2, 1)
    layer = AttentionLayer(
        ran.W_Q[None], ran.W_K[None], none, none.mT, ran.b_Q[None], ran.b_K[None], ran.zero[None], torch.zeros(2)
    )
    terms = score_terms(ran.words, layer).stack("content", "semi_bias", "query_side", "kernel")[:, 0]
    for part, term in zip(ran.parts(), terms, strict=True):
        torch.testing.assert_close(part.expand(2, 2), term)
    torch.testing.assert_close(sum(ran.parts()), torch.tensor([[3.0, 4], [9, 12]]))
    torch.testing.assert_close(sum(ran.parts()), compute_scores(ran.words, layer)[0])
    torch.testing.assert_close(sum(ran.parts(b_K=ran.zero)).softmax(-1), attend(ran.words, layer).attention[0])


def test_the_maps_of_gpt2_are_its_scores_and_the_query_bias_alone_moves_attention(ran):
    torch.testing.assert_close(ran.score, compute_scores(ran.x, ran.layer)[1], atol=1e-4, rtol=0)
    constants = ran.query_side + ran.constant
    semi_bias = ran.score - ran.content - constants
    assert semi_bias.std(0).max() < 1e-5 < semi_bias.std(1).max()
    assert constants.std(1).max() < 1e-5 < constants.std(0).max()
    assert ran.name == "b_Q"
    assert ran.moved > 0.5


def test_counting_from_another_word_moves_content_into_the_semi_bias(ran):
    q, k = (ran.words - ran.words[1]) @ ran.W_Q, ran.words @ ran.W_K
    content, semi_bias, _, _ = ran.parts()
    torch.testing.assert_close(q @ k.T, torch.tensor([[0.0, -2], [0, 0]]))
    torch.testing.assert_close(q @ k.T + 3 * k.T, content + semi_bias.expand(2, 2))


# A seed draws other numbers in double precision, so that the two untrained models are alike but not the same.
@pytest.mark.parametrize(("seed", "apart"), [(None, 1e-4), (0, 3e-3)])
def test_the_evenness_of_a_head_is_the_share_of_entropy_that_the_evidence_measures(means, seed, apart):
    measured = entropy_shares(checkpoints.find("minilm"), passages=1, control_seed=seed)[0]
    torch.testing.assert_close(means.evenness(seed).double(), measured, atol=apart, rtol=0)


def test_both_orders_of_mean_and_maps_print_the_same_and_one_half_halves_the_bias(means):
    def orders(weights):
        after = (weights @ means.letters) @ (means.W_V @ means.W_O) + (means.b_V @ means.W_O + means.b_O)
        return after - (weights @ (means.letters @ means.W_V + means.b_V) @ means.W_O + means.b_O)

    torch.testing.assert_close(orders(means.weights), torch.zeros(3, 2), atol=1e-5, rtol=0)
    halved = means.weights * torch.tensor([[1.0], [1.0], [0.5]])
    torch.testing.assert_close(orders(halved), torch.tensor([[0.0, 0], [0, 0], [3, 0]]), atol=1e-5, rtol=0)
