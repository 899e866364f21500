"""Entropies and divergences of rows: one formula each, held to the others."""

import math

import pytest
import torch

from analysis.maps import attribution, entropy
from analysis.maps.gates import segmentation
from tests.analysis.tiny import draw


def test_the_divergence_from_uniform_is_that_of_the_weights():
    scores = 3 * draw(2, 4, 7)
    uniform = torch.full_like(scores, 1 / 7)
    torch.testing.assert_close(entropy.kullback_leibler(scores.softmax(-1), uniform), attribution.divergence(scores))
    torch.testing.assert_close(math.log(7) - entropy.row_entropy(scores.softmax(-1)), attribution.divergence(scores))


def test_the_divergence_of_coins_is_that_of_their_two_sides():
    share, expected = torch.rand(2, 5, dtype=torch.float64)
    plain = share * (share / expected).log() + (1 - share) * ((1 - share) / (1 - expected)).log()
    torch.testing.assert_close(segmentation.divergence(share, expected), plain)
    never = torch.zeros((), dtype=torch.float64)
    assert segmentation.divergence(never, never).item() == pytest.approx(1e-6)  # what is expected is kept off 0


def test_what_has_no_weight_adds_nothing_and_what_was_excluded_adds_infinity():
    p, q = torch.tensor([[0.0, 1.0], [0.5, 0.5]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert entropy.kullback_leibler(p, q).tolist() == [0, math.inf]
    assert entropy.kullback_leibler(p[0], p[0]).item() == 0


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    with pytest.raises(ValueError, match="q must be"):
        entropy.kullback_leibler(torch.full((2, 3), 1 / 3), torch.full((2, 3), 1 / 3).double())
    for rows in ([-0.5, 1.5], [0.4, 0.2]):
        with pytest.raises(ValueError, match="sum to 1"):
            entropy.row_entropy(torch.tensor([rows]))


def test_a_divergence_from_a_tiny_probability_is_finite():
    tiny = torch.tensor([1e-42, 1.0])  # 1 / 1e-42 is infinite in float32
    due = -math.log(1e-42)
    torch.testing.assert_close(entropy.kullback_leibler(torch.tensor([1.0, 0.0]), tiny).item(), due, rtol=1e-4, atol=0)


def test_a_constant_added_to_a_row_of_scores_leaves_its_entropy():
    scores = torch.randint(-8, 8, (3, 5, 7), generator=torch.Generator().manual_seed(0)).float() / 4
    torch.testing.assert_close(entropy.entropy_of_scores(scores + 1e6), entropy.entropy_of_scores(scores))
