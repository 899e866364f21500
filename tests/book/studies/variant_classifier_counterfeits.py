"""Counterfeits of the measurement of the chapter on the variant classifier."""

from analysis.maps.gates import GATES
from analysis.statistics.intervals import Interval


def with_the_named_head_first(gates):
    first = gates.copy()
    first[3, 8, GATES.index("directional")] = 0.99
    return first


def without_clusters(gates):
    emptied = gates.copy()
    emptied[..., GATES.index("cluster")] = 0.0
    return emptied


def with_an_open_head(gates):
    opened = gates.copy()
    opened[1, 3, GATES.index("open")] = 0.6
    return opened


def with_the_third_layer_failing(failing):
    changed = failing.copy()
    changed[2] = 0.9
    return changed


def fallen_at_the_top(layers):
    changed = layers.copy()
    changed[-1] = changed[0]
    return changed


def in_the_order_of_the_paper(largest):
    ordered = largest.copy()
    ordered[:, 0, 3] = 1.72, 2.68, 0.98
    return ordered


COUNTERFEITS = {
    "B-08": {"authors.recipe.steps": 19_761},
    "B-10": {"head.logits": 2e-4},
    "B-12": {"nearest.largest_weights": in_the_order_of_the_paper},
    "B-42": {"nearest.gates": with_the_named_head_first},
    "B-46": {"nearest.gates": with_an_open_head},
    "B-58": {"nearest.gates": without_clusters},
    "B-77": {"nearest.failing_sums": with_the_third_layer_failing},
    "B-83": {"nearest.layers.largest": fallen_at_the_top},
    "B-113": {"nearest.company": Interval(0.5, 0.45, 0.55)},
}
