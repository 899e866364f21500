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


def linked_nowhere_at_the_end(estimates):
    """Let the effect of the heads of the last layer not go with their entropy."""
    return [*estimates[:-1], flat(estimates[-1])]


def one_gaussian_text(statistics):
    """Let the total of one text be as near to a Gaussian as one in the control."""
    changed = statistics.copy()
    changed[0] = 0.03
    return changed


def rising_from_the_first_layer(entropies):
    """Let the first layer have the lowest entropy, as the paper says."""
    changed = entropies.copy()
    changed[0] = changed[1:5].min(0) - 0.05
    return changed


def as_sums_with_their_extremes(statistics):
    """Let sums without their extreme coordinates have the statistics of a layer that has them."""
    return np.full_like(statistics, 0.2)


COUNTERFEITS = {
    "B-72": {"rows.failing.trained": one_layer((0.05, 0.04, 0.06))},
    "B-73": {"invariance.plain_error": WRONG},
    "B-74": {"threshold.table": 0.032},
    "B-75": {"sums.independent.uniform.p_uniform": 0.2},
    "B-76": {"sums.statistics.trained": one_layer((0.030, 0.028, 0.032), layer=1)},
    "B-78": {"sums.statistics.kept": as_sums_with_their_extremes},
    "B-79": {"cone.rise.trained.resultant": flat},
    "B-80": {"cone.identities.square_error": WRONG},
    "B-81": {"cone.rise.trained.cone_bare": flat},
    "B-82": {"spectra.rise.trained": flat},
    "B-84": {"effects.within": linked_nowhere_at_the_end},
    "B-85": {"entropies.row.trained": rising_from_the_first_layer},
    "B-86": {"total.D.trained": one_gaussian_text},
}
