"""For each claim of the chapter on gates, the smallest change of its measurement that should turn the verdict."""

import numpy as np


def one_less(values):
    return values - 1


def one_more(values):
    return values + 1


def one_rank_less(ranks):
    """Lower the rank of the gate with j = 2, the only one that is full."""
    return ranks - (ranks == ranks.max())


def ones_instead(values):
    return np.ones_like(values)


def doubled(value):
    return 2 * value


COUNTERFEITS = {
    "B-38": {"ideal.rules.entries_of_a_row": 2},
    "B-39": {"ideal.column.form_error": 1e-3},
    "B-40": {"ideal.column.output_rank": 2},
    "B-41": {"census.trained.ratios.short_verticals.high": 0.51},
    "B-43": {"ideal.open.output_error": 1e-3},
    "B-44": {"ideal.open.output_rank": 4},
    "B-45": {"census.trained.ratios.end_of_diagonal.low": 0.5},
    "B-47": {"ideal.backward.last_column": one_less},     # n - j, as printed
    "B-48": {"ideal.backward.output_error": 1e-3},
    "B-49": {"ideal.backward.ranks": one_rank_less},
    "B-50": {"ideal.backward.nearest": one_more, "ideal.backward.farthest": one_more},    # j, as printed
    "B-51": {"calibration.covered": lambda shares: 0.7 * shares},
    "B-52": {"ideal.forward.last_row": one_less},
    "B-53": {"ideal.forward.flip_error": 1e-3},
    "B-54": {"census.trained.ratios.in_company.high": 0.55},
    "B-55": {"ideal.block.printed_row_sums": ones_instead},    # as they would be if 1/k were right
    "B-56": {"ideal.block.output_error": 1e-3},
    "B-57": {"ideal.block.lines_error": 1e-3},
    "B-59": {"ideal.instance.rows_without_entropy": 2},
    "B-60": {"ideal.instance.swapped_difference": 0.0},
    "B-61": {"census.trained.ratios.point_mass.value": 0.002},
    "B-62": {"ideal.closed.other_entropy": 2.5},          # more than ln 12
    "B-63": {"ideal.closed.instance_difference": 0.0},
    "B-64": {"ablation.medians.level_closed": doubled},
    "B-65": {"ideal.mixture.plain_row_sum": 1.0},
    "B-66": {"ideal.mixture.mixture_of_columns_error": 1e-3},
    "B-67": {"classifier.composed": 0.6},
    "B-68": {"ideal.inverse.ones_row_sum": 1.0},
    "B-69": {"ideal.inverse.instance_difference": 0.0},
    "B-70": {"ideal.inverse.instances_error": 1e-3},
    "B-71": {"sentence.smallest_weight": 0.0},
}

FINDINGS = {"false_alarms_are_as_rare_as_promised": {"calibration.alarms": lambda rates: rates + 0.05}}
