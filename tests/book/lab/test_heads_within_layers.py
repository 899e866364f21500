"""A correlation over heads that is the layers' is told from one that is the heads', and one layer from six."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from book.lab.heads_within_layers import leave_out_layers, link_heads

TEXTS, LAYERS, HEADS = 4, 6, 12
DEPTH = 3.0 * np.arange(LAYERS)[:, None]


@pytest.fixture
def noise():
    return np.random.default_rng(3).normal(size=(2, TEXTS, LAYERS, HEADS))


def test_what_layers_share_is_no_link_of_heads(noise):
    first, second = noise + DEPTH
    found = link_heads(first, second)
    assert found.over_all.min() > 0.8
    assert found.shuffled.low < found.over_all.mean() < found.shuffled.high
    assert found.corrected.min() > 0.05
    assert found.chance_of_value > 0.05
    assert abs(found.value) < 0.25


def test_a_link_of_heads_is_seen_beneath_layers_that_run_against_it(noise):
    first, second = noise[0] + DEPTH, noise[0] + 0.1 * noise[1] - DEPTH
    found = link_heads(first, second)
    assert found.over_all.max() < -0.7
    assert found.within.min() > 0.9
    assert found.corrected.max() == found.chance_of_value == 0
    assert found.value > 0.9
    assert found.shuffled.high < 0


def test_links_of_opposite_sign_are_seen_though_their_mean_is_none(noise):
    signs = np.array([1, -1, 1, -1, 1, -1])[:, None]
    found = link_heads(noise[0], signs * noise[0])
    np.testing.assert_allclose(found.within.mean(0), signs[:, 0])
    assert abs(found.within.mean()) < 1e-9
    assert found.corrected.max() < 0.01


def test_the_values_are_those_of_scipy_and_one_layer_is_more_easily_far_than_six(noise):
    found = link_heads(*noise)
    due = [[spearmanr(*pair).statistic for pair in zip(*both, strict=True)] for both in zip(*noise, strict=True)]
    np.testing.assert_allclose(found.within, due, atol=1e-12)
    over_all = [spearmanr(a.ravel(), b.ravel()).statistic for a, b in zip(*noise, strict=True)]
    np.testing.assert_allclose(found.over_all, over_all, atol=1e-12)
    assert (found.corrected >= found.chance).all()
    assert (found.widest > 1.96 / np.sqrt(TEXTS * (HEADS - 1))).all()  # of one layer 95 % lie within that


def test_a_layer_is_counted_in_deviations_of_its_own_chance(noise):
    """A layer whose numbers change from text to text has less chance of a mean far from 0, and is seen at less."""
    same = np.broadcast_to(noise[:, :1, :3], (2, TEXTS, 3, HEADS))  # the first layers are the same in all texts
    first, second = np.concatenate([same, noise[:, :, 3:]], axis=2)
    found = link_heads(first, second)
    assert found.widest[:3].min() > 1.5 * found.widest[3:].max()


def test_layers_that_differ_widen_the_interval(noise):
    first, second = noise[:, 0] + DEPTH
    by_layers, flat = leave_out_layers(first, second), leave_out_layers(*noise[:, 0])
    assert by_layers.value == pytest.approx(spearmanr(first.ravel(), second.ravel()).statistic)
    assert by_layers.low < by_layers.value < by_layers.high
    assert flat.low < 0 < flat.high
