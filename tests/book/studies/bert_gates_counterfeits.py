"""For each claim of the chapter on gates, the smallest change of its measurement that should turn the verdict."""

import numpy as np

from book.studies.bert_gates.sink import AT_RANDOM, DELETED


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
    "B-38": {"ideal.printed.against_rules.backward": 1},
    "B-39": {"ideal.printed.ranks.directional": [1, 2]},
    "B-40": {"ideal.column.output_rank": 2},
    "B-41": {"nearest.ratios.short_verticals": lambda ratio: ratio._replace(high=0.51)},
    "B-43": {"ideal.printed.wrong_outputs.open": 1},
    "B-44": {"ideal.open.output_rank": 4},
    "B-45": {"nearest.ratios.end_of_diagonal": lambda ratio: ratio._replace(low=0.5)},
    "B-47": {"ideal.backward.last_column": one_less},  # n - j, as printed
    "B-48": {"ideal.backward.output_error": 1e-3},
    "B-49": {"ideal.backward.ranks": one_rank_less},
    "B-50": {"ideal.printed.points_back": [0]},  # j, as printed
    "B-51": {"nearest.ratios.run_covers": lambda ratio: ratio._replace(high=0.96)},
    "B-52": {"ideal.forward.last_row": one_less},
    "B-53": {"ideal.forward.flip_error": 1e-3},
    "B-54": {"nearest.ratios.open_with_either": lambda ratio: ratio._replace(high=0.55)},
    "B-55": {"ideal.block.printed_row_sums": ones_instead},  # as they would be if 1/k were right
    "B-56": {"ideal.block.output_error": 1e-3},
    "B-57": {"ideal.printed.lines": 1},
    "B-59": {"ideal.printed.against_rules.instance": 1},
    "B-60": {"ideal.instance.swapped_difference": 0.0},
    "B-61": {"nearest.ratios_by_seed.points_a_map": one_more},
    "B-62": {"ideal.closed.other_entropy": 2.5},  # more than ln 12
    "B-63": {"ideal.printed.other_side.closed": 1},
    "B-64": {"ablation.medians.level_closed": doubled},
    "B-65": {"ideal.mixture.output_error": 1e-3},
    "B-66": {"ideal.mixture.mixture_of_columns_error": 1e-3},
    "B-67": {"nearest.ratios.composed": lambda ratio: ratio._replace(low=0.45)},
    "B-68": {"ideal.inverse.ones_row_sum": 1.0},
    "B-69": {"ideal.printed.other_side.inverse directional": 1},
    "B-70": {"ideal.printed.instances": 1},
    "B-71": {"sentence.smallest_weight": 0.0},
    "B-110": {"ideal.column.output_rank": 2},
    "B-111": {"ideal.softmax.off_pattern": np.array([0.9, 0.5, 0.4])},
}

FINDINGS = {"sink_is_a_volume_control": {"removal.sink": lambda effects: {**effects, DELETED: effects[AT_RANDOM]}}}
