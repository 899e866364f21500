"""Counterfeits of the measurement of the chapter on the variant classifier."""

from analysis.maps.gates import GATES
from analysis.statistics.intervals import Interval
from analysis.statistics.normality import critical_value

PAPER_THRESHOLD = 0.032


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

ALL = slice(None)
DIRECTIONAL, OPEN, CLUSTER = map(GATES.index, ("directional", "open", "cluster"))


def nearest_critical(m):
    return m.nearest.critical


def half_at_most(m):
    """Return what columns carry, scaled to one half in the head that has most."""
    columns = m.nearest.carries("directional")
    return columns / columns.max() / 2


LIMITS = {
    "B-08": [
        *[(f"{whose}.gelu_error", None, 1e-6) for whose in ("authors.recipe", "full_size")],
        ("authors.recipe.warmup", None, 0),
    ],
    "B-10": [
        ("authors.softmax_error", None, 1e-6),
        *[(f"head.{name}", None, 1e-4) for name in ("logits", "loss", "probabilities")],
    ],
    "B-12": [
        ("authors.slices", 2, 0.3),
        ("authors.slices", 0, -0.3),
        ("weights.over_random.trained", (1, 2, 7, 5), lambda m: m.weights.paper[1]),
        ("nearest.largest_weights", (0, 0, 3), lambda m: m.nearest.largest_weights[2, 0, 3], 1e-6),
    ],
    "B-42": [
        ("nearest.gates", (ALL, ALL, DIRECTIONAL), half_at_most),
        ("gates.by_seed", (1, ALL, ALL, DIRECTIONAL), 0.3),
        ("gates.control", (7, 2, DIRECTIONAL), 0.05),
        ("gates.heads.directional.ranks", 2, 14),
        ("gates.heads.directional.ranks", 0, 14),
    ],
    "B-46": [("gates.by_seed", (2, 5, 1, OPEN), 0.05), ("nearest.gates", (3, 8, OPEN), 0.2)],
    "B-58": [("nearest.gates", (1, 0, CLUSTER), 0.05)],
    "B-77": [
        ("table.paper", 2, critical_value(768)),
        ("table.paper", 8, PAPER_THRESHOLD),
        ("nearest.layers.D_sum", (1, 1), nearest_critical),
        ("nearest.layers.D_sum", (2, 0), nearest_critical),
        ("nearest.layers.D_sum", (5, 0), nearest_critical),
        ("nearest.failing_sums", 2, 0.5),
        ("nearest.failing_sums", 5, 0.5),
        ("table.first_layers.failing", 1, lambda m: m.table.first_layers.expected_failing),
    ],
    "B-83": [
        ("authors.head_outputs", None, 0.7),
        ("nearest.layers.largest", (5, 1), lambda m: m.nearest.layers["largest"][0, 2]),
        ("depth.largest.trained", (1, 0), lambda m: m.depth.largest["trained"][1, 2]),
        ("depth.largest.trained", (0, 2), lambda m: m.depth.largest["trained"][0, 0]),
        ("depth.stable_rank.trained", (2, 3), 1.2),
    ],
    "B-113": [
        ("nearest.company", "low", 0.5),
        ("gates.control_maps", (4, 5, 6, CLUSTER), 0.05),
        ("phases.holding_unchanged", 0, lambda m: m.phases.holding_changed[0] / 4),
        ("phases.holding_changed", 2, lambda m: m.phases.holding_unchanged[2] * 4),
    ],
}
