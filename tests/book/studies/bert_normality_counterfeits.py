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


def critical(m):
    return m.threshold.critical


def nearest_critical(m):
    return m.nearest.critical


ALL = slice(None)
LARGE, SHARP = "random, as large", "random, W_Q and W_K as large"
NEAR, SUMS = "nearest.layers", "rungs.measures.sum.controls"
LIMITS = {
    "B-72": [
        ("nearest.by_seed.first_failing", (1, 4), 0.2),  # of all but the last layer
        (f"{NEAR}.padded_first_failing", (4, 1), 0.2),
        ("nearest.controls.first_failing.random", (ALL, 3), 0.15),
        (f"nearest.controls.first_failing.{LARGE}", (ALL, 0), 0.15),
        ("released.failing.coded", 2, lambda m: m.released.failing["own"][2]),
        ("rows.failing.trained", (3, 1), 0.5),
        ("classifier.trained.first_failing", 5, 0.15),
    ],
    "B-73": [("invariance.plain_error", None, 1e-12), ("invariance.change", None, 0.005)],
    "B-75": [(f"sums.independent.{kind}.p_uniform", None, 1e-3) for kind in ("Gaussian", "uniform")],
    "B-76": [
        ("nearest.failing_sums", 1, 0.5),
        ("nearest.failing_sums", 2, 0.5),
        ("nearest.by_seed.D_sum", (0, 1), nearest_critical),
        ("nearest.by_seed.D_sum", (1, 0), nearest_critical),
        (f"{NEAR}.D_sum", (2, 0), nearest_critical),
        (f"{NEAR}.D_sum", (5, 0), nearest_critical),
        ("sums.statistics.trained", (4, 1), critical),  # of all but the last layer
        ("sums.statistics.trained", (1, 1), critical),
        ("rungs.measures.sum.documents", (ALL, 4), critical),
        ("classifier.trained.D_sum", 7, lambda m: m.classifier.critical),
        *[(f"{SUMS}.{rung}", (ALL, 2), critical) for rung in ("random", SHARP, LARGE)],
    ],
    "B-78": [
        ("nearest.failing_sums_kept", [0, 1], 0.2),
        (f"{NEAR}.failing_kept", (4, 0), lambda m: m.nearest.layers["first_failing"][4, 0]),
        (f"{NEAR}.failing_kept", (0, 1), 0.1),
        (f"{NEAR}.failing_kept", (1, 1), 0.1),
        ("rows.failing.kept", (5, 0), lambda m: m.rows.failing["trained"][5, 0]),
        ("rows.failing.kept", (0, 0), lambda m: m.rows.failing["trained"][0, 0]),
        ("rows.failing.kept", (2, 1), 0.3),
        ("sums.failing_kept", 4, 0.5),
    ],
    "B-79": [
        ("released.index_error", None, 1e-9),
        ("cone.rise.trained.cone", "high", 0.2),
        ("cone.rise.trained.resultant", "low", 0.6),
        ("padding.cone_ratio.trained", None, 2),
    ],
    "B-81": [
        (f"{NEAR}.cosine", (5, 0), lambda m: m.nearest.layers["cosine"][0, 0] + 0.3),
        (f"{NEAR}.cosine", (0, 0), lambda m: m.nearest.layers["cosine"][5, 0] - 0.3),
        ("nearest.controls.cosine.start", (ALL, 5), lambda m: m.nearest.rung("cosine", "start")[0] + 0.1),
        ("nearest.controls.cosine.start", (ALL, 5), lambda m: m.nearest.rung("cosine", "start")[0] - 0.1),
        ("nearest.controls.cosine.start", (ALL, 0), lambda m: m.nearest.rung("cosine", "start")[5] - 0.1),
        (f"nearest.controls.cosine.{LARGE}", (ALL, 5), lambda m: m.nearest.rung("cosine", LARGE)[0] + 0.3),
        ("cone.rise.trained.cone", "high", 0.2),
        *[
            (
                f"rungs.measures.mean cosine.controls.{rung}",
                (2, 5),
                lambda m, rung=rung: m.rungs["mean cosine"].controls[rung][2, 0] + 2 * m.cone.climb["trained"],
            )
            for rung in (LARGE, "permuted")
        ],
    ],
    "B-82": [
        (f"{NEAR}.largest", (5, 1), lambda m: 2 * m.nearest.layers["largest"][0, 2]),
        *[
            (
                f"nearest.controls.largest.{rung}",
                (ALL, 5),
                lambda m, rung=rung: 1.5 * m.nearest.rung("largest", rung)[0],
            )
            for rung in (LARGE, "permuted", "start")
        ],
        ("classifier.trained.largest", 11, lambda m: 1.5 * m.classifier.trained["largest"][0]),
        ("spectra.rise.trained", "low", 0.7),
    ],
    "B-84": [
        *[(f"entropies.ideal.{name}.row_entropy", None, 1e-9) for name in ("directional", "open (identity)")],
        ("effects.with_entropy.trained", "low", -0.25),
        ("silenced.within.shuffled", "low", 0),
        ("nearest.effect_within", [0, 5], -0.3),
        ("nearest.effect_within", [1], 0.3),
        ("nearest.effect_with_entropy", None, -0.25),
        ("nearest.effect_with_depth", None, 0.3),
        ("effects.with_depth.trained", "low", 0.5),
        ("effects.with_depth.control", "high", 0),
        ("effects.chance", 0, 0.02),
        ("effects.chance", 5, 0.02),
        *[
            (f"released.gates.{name}.whole", None, lambda m: m.released.noise[2.0].whole)
            for name in ("directional", "open")
        ],
    ],
    "B-85": [
        ("released.minimal_keys", 2, lambda m: m.released.minimal_keys[3]),
        ("released.minimal_keys", 11, lambda m: m.released.minimal_keys[0]),
        ("released.minimal_keys", 0, lambda m: m.released.minimal_keys[11]),
        ("released.value_rises", [2, 3], 0),  # four of eight are half of them
        ("nearest.by_seed.entropy", (1, 1), lambda m: m.nearest.by_seed["entropy"][1, 2]),
        ("nearest.by_seed.entropy", (0, 5), lambda m: m.nearest.by_seed["entropy"][0, 2]),
        ("nearest.by_seed.entropy", (1, 0), lambda m: m.nearest.by_seed["entropy"][1, 2]),
        ("nearest.by_seed.entropy", (1, 4), lambda m: m.nearest.by_seed["entropy"][1, 2]),
        ("entropies.row.trained", (0, 1), lambda m: m.entropies.row["trained"][3, 2]),
        ("entropies.row.trained", (4, 2), lambda m: m.entropies.row["trained"][0, 1]),
        ("entropies.row.trained", (1, 2), lambda m: m.entropies.row["trained"][5, 1]),
        ("entropies.row.trained", (5, 1), lambda m: m.entropies.row["trained"][1, 2]),
        ("nearest.controls.entropy.start", (ALL, 2), lambda m: m.nearest.rung("entropy", "start")[1]),
        (
            f"rungs.measures.row entropy.controls.{SHARP}",
            (ALL, 5),
            lambda m: m.rungs["row entropy"].controls[SHARP][:, 0].mean() + 0.1,
        ),
        *[("classifier.trained.entropy", layer, lambda m: m.classifier.trained["entropy"].min()) for layer in (2, 9)],
    ],
    "B-86": [
        ("nearest.mean_total", 3, 0.1),
        ("nearest.mean_total", 3, -0.1),
        ("nearest.control_D_total.start", (2, 1), nearest_critical),
        ("nearest.control_D_total.random", (4, 0), nearest_critical),
        ("total.D.trained", (1, 0), critical),
        ("total.D.control", (slice(5), 0), critical),  # five of 48 are more than one in ten
        ("total.plain_mean.trained", None, 1e-5),
        ("classifier.trained.D_total", ALL, lambda m: m.classifier.critical),
    ],
}
