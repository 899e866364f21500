"""Counterfeits of the measurement of normality, cone index and entropy, one a claim."""

import numpy as np

WRONG = 1e-3  # an error far beyond rounding, and small beside what it is an error of


def rising_from_the_first_layer(entropies):
    """Let the first layer have the lowest entropy, as the paper says, in one training."""
    changed = entropies.copy()
    changed[0, 0] = changed[0, 1:].min() - 0.05
    return changed


def with_few_in_one_layer(failing):
    """Let few rows fail in a middle layer of one training."""
    changed = failing.copy()
    changed[0, 2] = 0.06
    return changed


def with_the_third_layer_failing(failing):
    """Let the sums of the third layer fail in most sequences."""
    changed = failing.copy()
    changed[2] = 0.9
    return changed


def with_one_step_down(values):
    """Let a measure by layer, with its intervals, fall from the first layer to the second, by a hundredth."""
    changed = values.copy()
    changed[1] = 0.99 * changed[0]
    return changed


def fallen_at_the_top(values):
    """Let the last layer of one training fall back to the third."""
    changed = values.copy()
    changed[0, -1] = changed[0, 2]
    return changed


def level(values):
    """Let a control not change from layer to layer, so that a rise would be learned."""
    return np.repeat(values[:, :1], values.shape[1], axis=1)


COUNTERFEITS = {
    "B-72": {"nearest.by_seed.first_failing": with_few_in_one_layer},
    "B-73": {"invariance.plain_error": WRONG},
    "B-74": {"threshold.table": 0.032},
    "B-75": {"sums.independent.uniform.p_uniform": 0.2},
    "B-76": {"nearest.failing_sums": with_the_third_layer_failing},
    "B-78": {"nearest.failing_sums_kept": np.zeros_like},  # as if the extremes were the whole cause
    "B-79": {"nearest.layers.resultant": with_one_step_down},
    "B-81": {"nearest.controls.cosine.random, as large": level},
    "B-82": {"nearest.by_seed.largest": fallen_at_the_top},
    "B-84": {"silenced.within.chance": 0.04},  # as if entropy told heads of one layer apart
    "B-85": {"nearest.by_seed.entropy": rising_from_the_first_layer},
    "B-86": {"nearest.D_total": np.ones_like},  # as if no sequence passed
}
