"""Counterfeits for the claims on what Q and K measure."""

import numpy as np


def with_one_head_apart(signs):
    """Let one trained head have one negative eigenvalue less."""
    ((positive, negative),) = signs["trained"]
    return {**signs, "trained": [(positive, negative - 1), (positive, negative)]}


def with_as_much(shares):
    """Leave the symmetric part of M, at the spread of the content, with the attention's share of the content."""
    return {**shares, "symmetric part of M, equal spread": shares["content alone"]}


def with_one_layer_unmoved(intervals):
    """Let the interval of the last layer reach 0."""
    return [*intervals[:-1], intervals[-1]._replace(low=0.0)]


def seldom_by_the_named_head(grown):
    """Let the head of figure 2 amplify less than half of the rows on the way to K."""
    changed = grown.copy()
    changed[1, 0, 3] = 0.45
    return changed


def moved_in_one_layer(intervals):
    """Let dropping the bias move a ten-thousandth of the attention of the last layer."""
    return [*intervals[:-1], intervals[-1]._replace(value=1e-4)]


COUNTERFEITS = {
    "B-01": {"architecture.base": 116_000_000},
    "B-02": {"architecture.accepts_more": True},
    "B-03": {"positions.learned_defect": 0.01},
    "B-04": {"architecture.order_gap": 1e-3},
    "B-05": {"order.without_positions": 1e-3},
    "B-11": {"architecture.added_unevenly": 1e-2},
    "B-13": {"nearest.largest_weights": lambda sigma: 0.3 * sigma},
    "B-14": {"nearest.grown": seldom_by_the_named_head},
    "B-15": {"cone.narrow": 1e-5},
    "B-16": {"architecture.attention_gap": 1e-4},
    "B-17": {"architecture.shift_error": 1e-4},
    "B-18": {"terms.random_error": 1e-9},
    "B-19": {"terms.without_b_K": moved_in_one_layer},
    "B-20": {"terms.without_b_Q": with_one_layer_unmoved},
    "B-21": {"form.signs": with_one_head_apart},
    "B-22": {"form.next_singular_value": 1e-6},
    "B-23": {"lengths.scaling_error": 1e-2},
    "B-24": {"asymmetry.attention": with_as_much},
}


def spread_equally(name):
    """Return the mean asymmetry of a kind of scores, all at the spread of the content."""
    return lambda m: m.asymmetry.mean_attention[f"{name}, equal spread"]


ALL = slice(None)
LESS = "content less its common part"
LIMITS = {
    "B-03": [
        ("positions.sines_defect", None, 1e-9),
        ("positions.sines_norm_spread", None, 1e-9),
        ("positions.learned_defect", None, 0.02),
    ],
    "B-04": [("architecture.order_gap", None, 2e-5)],
    "B-05": [
        ("order.without_positions", None, 1e-5),
        ("order.causal", None, 0.01),
        ("order.with_positions", None, 0.01),
    ],
    "B-11": [("architecture.added_unevenly", None, 1e-5), ("architecture.added_to_queries", None, 1e-3)],
    "B-13": [
        ("nearest.largest_weights", (2, slice(0, 3)), 1, 0.5),  # half of six layers
        ("nearest.largest_weights", (1, slice(None)), lambda m: float(np.median(m.nearest.largest_weights[2]))),
        ("nearest.largest_weights", (0, slice(None)), lambda m: float(np.median(m.nearest.largest_weights[2]))),
        ("stretching.largest.control", (1, 50), 1),
        ("classifier.largest", (1, 100), 1),
        *[
            (f"rungs.measures.sigma above 1, {letter}.controls.random, W_Q and W_K as large", ..., 0.9)
            for letter in "QK"
        ],
    ],
    "B-14": [
        ("nearest.grown", (1, 0, 3), 0.5),
        ("nearest.grown", (0, 0, 3), 0.5),
        ("classifier.growth", None, 1),
        ("nearest.control_grown.permuted", (2, 3, 5), 0.2),
        ("nearest.control_grown.random", (0, 3, 5), 0.2),
    ],
    "B-15": [("cone.half", 1, 0.5)],
    "B-16": [("architecture.attention_gap", None, 1e-5)],
    "B-17": [("architecture.row_sum_error", None, 1e-5), ("architecture.shift_error", None, 1e-5)],
    "B-18": [("terms.random_error", None, 1e-13), ("terms.model_error", None, 1e-4)],
    "B-19": [("terms.dropped_gap", None, 1e-5)],
    "B-22": [("form.last_singular_value", None, 1e-10), ("form.next_singular_value", None, 1e-10)],
    "B-23": [("lengths.scaling_error", None, 1e-5), ("lengths.cosine_error", None, 1e-5), ("lengths.moved", 3, 0.01)],
    "B-24": [
        ("asymmetry.scores.symmetric part of M", ALL, 1e-6),
        ("asymmetry.scores.content alone", ALL, 1e-6),
        (
            "asymmetry.attention.symmetric part of M, equal spread",
            ALL,
            lambda m: min(m.asymmetry.mean_attention["content alone"] / 2, spread_equally(LESS)(m)),
        ),
        (f"asymmetry.attention.{LESS}, equal spread", ALL, spread_equally("symmetric part of M")),
        (f"asymmetry.attention.{LESS}, equal spread", ALL, lambda m: m.asymmetry.mean_attention["content alone"]),
        ("asymmetry.attention.positive form, equal spread", ALL, 1e-3),
    ],
}
