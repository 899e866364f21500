"""The turning arrows in a real browser, from a file: their sums against the kernel, controls."""

import numpy as np
import pytest
import torch

from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models.reading import load
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser
DISTANCES = torch.arange(128.0)


@pytest.fixture
def fresh(visit):
    """The page with its first state; one visit serves all tests."""
    for label in ("all that queries and keys have in common", "angles as trained", "layer 1", "head 7"):
        visit.get_by_label(label, exact=True).check(force=True)
    play_pages.slide(visit, "Distance", 0)
    return visit


def kernel(page, source):
    return np.array(page.evaluate("source => document.querySelector('.play').kernel(source)", source))


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 3)])
def test_the_biases_arrows_sum_to_the_kernel_of_the_weights(fresh, layer, head):
    fresh.get_by_label(f"layer {layer}", exact=True).check(force=True)
    fresh.get_by_label(f"head {head}", exact=True).check(force=True)
    weights = load("neox-mini").layers[layer]
    due = distance_kernel(weights.b_Q, weights.b_K, weights.positions).at(DISTANCES)[head]
    np.testing.assert_allclose(kernel(fresh, 0), due.numpy(), atol=1e-4)


def test_the_sentence_names_the_best_distance_and_what_is_lost(fresh):
    values = kernel(fresh, 1)
    best = int(values.argmax())
    play_pages.slide(fresh, "Distance", best)
    assert fresh.inner_text(".play-said").startswith("No key gets more")
    play_pages.slide(fresh, "Distance", 60)
    less = values[best] - values[60]
    assert f"A key 60 back gets {less:.1f} nats less than the key {best} back" in fresh.inner_text(".play-said")
    fresh.get_by_label("the two biases alone", exact=True).check(force=True)
    alone = kernel(fresh, 0)
    assert f"gets {alone.max() - alone[60]:.1f} nats less" in fresh.inner_text(".play-said")


def test_random_angles_keep_the_lengths_and_lose_the_slope(fresh):
    trained = kernel(fresh, 1)
    fresh.get_by_label("angles at random", exact=True).check(force=True)
    drawn = kernel(fresh, 1)
    assert np.abs(drawn - trained).max() > 1
    assert trained.argmax() <= 4 < drawn.argmax()
