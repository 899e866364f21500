"""The turning arrows in a real browser, from a file: their sums against the kernel, controls."""

import numpy as np
import pytest

from book.publish import experiments
from book.viewers import arrows
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser
FAST, SLOW, ALL = range(3)


@pytest.fixture
def fresh(visit):
    """The page with its first state; one visit serves all tests."""
    for label in ("all 18", "angles as trained", "layer 16, head 0"):
        visit.get_by_label(label, exact=True).check(force=True)
    play_pages.slide(visit, "Distance", 0)
    return visit


def kernel(page, pairs=ALL):
    return np.array(page.evaluate("pairs => document.querySelector('.play').kernel(pairs)", pairs))


@pytest.mark.parametrize(("layer", "head"), [(16, 0), (1, 2), (10, 2)])
def test_the_arrows_and_those_left_out_sum_to_the_kernel_that_was_measured(fresh, record, layer, head):
    fresh.get_by_label(f"layer {layer}, head {head}", exact=True).check(force=True)
    place = record.array("head").tolist().index([layer, head])
    length, angle = (record.array(name)[place, arrows.KEPT :, None] for name in ("length", "angle"))
    still = (length * np.cos(angle + np.outer(record.array("turn")[arrows.KEPT :], range(64)))).sum(0)
    due = experiments.load("rotary-smollm2").array("curve")[layer, head]
    np.testing.assert_allclose(kernel(fresh) + still, due, atol=1e-3)
    assert np.ptp(still) < 0.5
    np.testing.assert_allclose(kernel(fresh, FAST) + kernel(fresh, SLOW), kernel(fresh), atol=1e-3)


def test_fourteen_arrows_are_left_out_since_they_turn_by_less_than_six_degrees(record):
    turned = np.degrees(record.array("turn") * 63)
    assert arrows.KEPT == len(turned) - 14 == (turned >= 6).sum()


def test_the_sentence_names_the_best_distance_and_what_is_lost(fresh):
    values = kernel(fresh)
    best = int(values.argmax())
    play_pages.slide(fresh, "Distance", best)
    assert fresh.inner_text(".play-said") == f"A key {best} back gets the most."
    play_pages.slide(fresh, "Distance", 20)
    said = f"A key 20 back gets {values[best] - values[20]:.1f} nats less than the key {best} back"
    assert said in fresh.inner_text(".play-said")
    fresh.get_by_label("the 8 fastest", exact=True).check(force=True)
    fast = kernel(fresh, FAST)
    assert f"alone, a key 20 back gets {fast.max() - fast[20]:.1f} nats less" in fresh.inner_text(".play-said")


def test_fast_arrows_make_the_peak_and_slow_ones_a_slope(fresh):
    assert kernel(fresh).argmax() == kernel(fresh, FAST).argmax() == 1
    slow = kernel(fresh, SLOW)
    assert (np.diff(slow[:50]) < 0).all()
    assert np.diff(slow).min() > -1 > np.diff(kernel(fresh, FAST)).min()


def test_random_angles_keep_the_lengths_and_lose_the_peak(fresh):
    trained = kernel(fresh)
    fresh.get_by_label("angles at random", exact=True).check(force=True)
    drawn = kernel(fresh)
    assert np.abs(drawn - trained).max() > 1
    assert trained.argmax() == 1 != drawn.argmax()
