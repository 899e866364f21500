"""Counterfeits of the measurement of normality, cone index and entropy, one a claim."""

import numpy as np

WRONG = 1e-3  # an error far beyond rounding, and small beside what it is an error of


def one_layer(value, layer=0):
    """Return a change that gives one layer another mean and interval."""
    def change(values):
        changed = values.copy()
        changed[layer] = value
        return changed
    return change


def flat(estimate):
    """Let a rank correlation be 0, with an interval as wide as before."""
    return replaced(estimate, 0.0)


def replaced(estimate, value):
    """Move an estimate with its interval."""
    return type(estimate)(value, value + estimate.low - estimate.value, value + estimate.high - estimate.value)


def rising_from_the_first_layer(entropies):
    """Let the first layer have the lowest entropy, as the paper says."""
    changed = entropies.copy()
    changed[0] = changed[1:5].min(0) - 0.05
    return changed


def as_sums_with_their_extremes(statistics):
    """Let sums without their extreme coordinates have the statistics of a layer that has them."""
    return np.full_like(statistics, 0.2)


def level(controls):
    """Let no control change from layer to layer, so that a rise would be learned."""
    return {rung: np.repeat(values[:, :1], values.shape[1], axis=1) for rung, values in controls.items()}


COUNTERFEITS = {
    "B-72": {"rows.failing.trained": one_layer((0.05, 0.04, 0.06))},
    "B-73": {"invariance.plain_error": WRONG},
    "B-74": {"threshold.table": 0.032},
    "B-75": {"sums.independent.uniform.p_uniform": 0.2},
    "B-76": {"classifier.trained.D_sum": lambda values: values + 0.1},
    "B-78": {"sums.statistics.kept": as_sums_with_their_extremes},
    "B-79": {"cone.rise.trained.resultant": flat},
    "B-80": {"cone.identities.square_error": WRONG},
    "B-81": {"rungs.measures.mean cosine.controls": level},
    "B-82": {"rungs.measures.largest singular value.controls": level},
    "B-84": {"silenced.zero": flat},
    "B-85": {"entropies.row.trained": rising_from_the_first_layer},
    "B-86": {"classifier.trained.D_total": lambda values: values + 0.1},
}
