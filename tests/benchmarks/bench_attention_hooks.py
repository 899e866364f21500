"""What streaming statistics promise, against a plain forward pass and two ways over stored maps.

The measuring itself is ``book.experiments.streaming_capture``, whose record the page on streaming capture shows of
12 layers; here one is timed.
"""

from book.experiments import streaming_capture as cost
from tests.benchmarks.machine import Race

LAYERS = 2


def test_statistics_cost_little_beside_the_forward_pass(at_most):
    """A pass that takes all statistics takes little longer, and its output is the same."""
    seconds, gap = cost.whole_model(1, 3)
    assert gap <= 1e-4
    at_most("streaming statistics: forward pass with / without", Race(seconds).ratio("streamed", "plain"))


def test_statistics_of_stored_maps_cost_more(at_least):
    """What streaming adds to an attention call is a small part of taking the same statistics from stored maps."""
    seconds, gap = cost.one_layer(5)
    assert gap <= 1e-6  # from float64
    for way in ("vectorised", "naive"):
        ratio = min(seconds[way]) / min(seconds["extra"])
        at_least(f"streaming statistics: {way} over stored maps / added by streaming", ratio)


def test_statistics_hold_no_maps(say):
    """They need at most 400 MB more than the pass without them; the maps of the two layers alone take 200."""
    added = cost.peak("streamed", LAYERS) - cost.peak("plain", LAYERS)
    say(f"streaming statistics of {LAYERS} layers, {cost.BATCH} x {cost.N} tokens: {added:.0f} MB more")
    assert added <= 400
