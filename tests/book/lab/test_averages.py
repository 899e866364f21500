"""A correlation over heads that is the layers' is told from one that is the heads'."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from book.lab.averages import correlate_within_layers

LAYERS, HEADS = 6, 12


@pytest.fixture
def noise():
    return np.random.default_rng(3).normal(size=(2, LAYERS, HEADS))


def test_what_layers_share_is_no_link_of_heads(noise):
    first, second = noise + 3.0 * np.arange(LAYERS)[:, None]
    found = correlate_within_layers(first, second)
    over_all = spearmanr(first.ravel(), second.ravel()).statistic
    assert over_all > 0.8
    assert found.shuffled.low < over_all < found.shuffled.high
    assert found.chance > 0.05
    assert abs(found.value) < 0.25


def test_a_link_of_heads_is_seen_beneath_layers_that_run_against_it(noise):
    depth = 10.0 * np.arange(LAYERS)[:, None]
    first, second = noise[0] + depth, noise[0] + 0.1 * noise[1] - depth
    found = correlate_within_layers(first, second)
    assert spearmanr(first.ravel(), second.ravel()).statistic < -0.8
    assert found.value > 0.9
    assert found.chance == 0
    assert found.shuffled.high < 0


def test_the_value_is_the_mean_of_the_layers_and_of_the_ranks_in_them(noise):
    first, second = noise
    found = correlate_within_layers(first, second)
    by_layer = [spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(found.by_layer, by_layer, atol=1e-12)
    ranks = [table.argsort(1).argsort(1).ravel() for table in noise]
    assert found.value == pytest.approx(spearmanr(*ranks).statistic)
