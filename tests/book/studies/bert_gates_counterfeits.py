"""For each claim of the chapter on gates, the smallest change of its measurement that should turn the verdict."""

import numpy as np

from analysis.maps.gates import GATES
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


RUNGS = ("random", "random, as large", "permuted")
OPEN = GATES.index("open")
SHARP = "rungs.measures.{}.controls.random, W_Q and W_K as large"


def exact(*fields):
    """Return errors of ideal gates, which must be rounding."""
    return [(f"ideal.{field}", None, 1e-12) for field in fields]


def ratio(name, bound, limit, *, text=False, nearest=True):
    """Return a bound of a share in the census of text, in the nearest classifier, or in both."""
    places = ["census.trained.ratios"] * text + ["nearest.ratios"] * nearest
    return [(f"{place}.{name}", bound, limit) for place in places]


def by_seed(name, limit):
    return f"nearest.ratios_by_seed.{name}", 1, limit


LIMITS = {
    "B-38": [("ideal.printed.against_rules.cluster", None, lambda m: [0, m.ideal.printed.gates["cluster"]])],
    "B-39": [
        ("ideal.printed.ranks.directional", None, [[1], [2]]),
        ("ideal.printed.wrong_outputs.directional", None, [0, 1]),
        ("ideal.column.entropy", None, [0, 1e-3]),
        *exact("column.form_error"),
    ],
    "B-40": exact("column.output_error"),
    "B-41": [
        *ratio("short_columns", "high", 0.5, text=True),
        *ratio("short_verticals", "high", 0.5, text=True),
        (SHARP.format("columns"), ..., 0.1),
        (SHARP.format("clusters"), ..., 0.02),
    ],
    "B-43": exact("open.output_error"),
    "B-44": [
        ("ideal.open.rank", None, [12, 11]),
        ("ideal.open.entropy", None, [0, 1e-3]),
        ("ideal.open.output_rank", None, [5, 4]),
    ],
    "B-45": [
        *ratio("end_of_diagonal", "low", 0.6, text=True),
        ("classifier.diagonals", None, 0.05),
        *[(f"nearest.control_gates.{rung}", (1, 2, 3, OPEN), 0.05) for rung in RUNGS],
    ],
    "B-47": [
        ("ideal.backward.last_column", 3, [8, 9]),
        ("ideal.backward.rows_down", 3, lambda m: [99, m.ideal.backward.columns_right[3]]),
    ],
    "B-48": exact("backward.output_error"),
    "B-49": [
        ("ideal.backward.long_output_rank", None, [64, 63]),
        ("ideal.backward.few_rows_rank", None, [3, 4]),
        ("ideal.open.values_rank", None, 3),
    ],
    "B-50": [("ideal.printed.wrong_outputs.backward", None, [0, 1]), ("ideal.printed.points_back", None, [[-1], [1]])],
    "B-51": [
        *ratio("run_covers", "high", 0.95, text=True),
        ("covered", None, 0.95),
        ("census.control.counts.lines", None, [0, 1]),
        ("classifier.diagonals", None, 0.05),
    ],
    "B-52": [
        ("ideal.forward.last_row", 4, lambda m: [m.ideal.forward.last_row[4], 0]),
        ("ideal.forward.rows_down", 1, lambda m: [m.ideal.forward.rows_down[1], m.ideal.forward.columns_right[1]]),
    ],
    "B-53": exact("forward.output_error", "forward.flip_error"),
    "B-54": [
        *ratio("in_company", "low", 0.5),
        *ratio("in_company", "high", 0.5, text=True, nearest=False),
        *ratio("open_with_either", "high", 0.5),
        by_seed("in_company", 0.5),
        by_seed("open_with_either", 0.5),
        ("census.control.counts.either", None, [0, 1]),
        ("classifier.diagonals", None, 0.05),
    ],
    "B-55": exact("block.rescaled_error"),
    "B-56": exact("block.output_error", "block.printed_output_error"),
    "B-57": [
        ("ideal.printed.printed_lines", None, lambda m: [m.ideal.printed.gates["cluster"], 0]),
        *exact("block.lines_error"),
    ],
    "B-59": [
        ("ideal.printed.ranks.instance", None, [[2], [3]]),
        ("ideal.printed.against_rules.instance", None, [0, 1]),
        ("ideal.instance.rows_without_entropy", None, [1, 2]),
        ("ideal.instance.rows_of_largest_entropy", None, [11, 12]),
    ],
    "B-60": [*exact("instance.output_error")],
    "B-61": [
        *ratio("points_a_map", "high", 0.5, text=True),
        by_seed("points_a_map", 0.5),
        *ratio("point_mass", "value", 0.001, text=True),
    ],
    "B-62": [*exact("closed.entropy_error"), ("ideal.closed.other_entropy", None, np.log(12))],
    "B-63": [
        ("ideal.printed.wrong_outputs.closed", None, [0, 1]),
        ("ideal.printed.other_side.closed", None, [0, 1]),
        *exact("closed.output_error"),
    ],
    "B-64": [
        ("ablation.medians.level_closed", None, lambda m: m.ablation.medians.zero_closed / 2),
        ("ablation.medians.zero_peers", None, lambda m: m.ablation.medians.zero_closed * 2),
        ("ablation.effects.control.uniform", (1, 2), lambda m: m.ablation.effects["control"]["zero"].min() / 10),
        ("ablation.effects.control.zero", (1, 2), lambda m: m.ablation.effects["control"]["uniform"].max() * 10),
    ],
    "B-65": exact("mixture.output_error", "mixture.row_sum_error"),
    "B-66": [
        *exact("mixture.closed_of_columns_error", "mixture.mixture_of_columns_error"),
        ("ideal.mixture.entropy_gain", None, -1e-12),
    ],
    "B-67": [
        *ratio("composed", "low", 0.5, text=True),
        by_seed("composed", 0.5),
        *[(f"nearest.control_ratios.{rung}.composed", 2, 0.5) for rung in RUNGS],
    ],
    "B-68": [
        ("ideal.inverse.entries", None, [3, 2]),
        ("ideal.inverse.ones_row_sum", None, 1.001, 1e-4),
        *exact("inverse.row_sum_error", "inverse.other_rows_error"),
    ],
    "B-69": exact("inverse.output_error"),
    "B-70": exact("inverse.instances_error", "inverse.one_key_error"),
    "B-71": [
        ("sentence.smallest_weight", None, 0),
        *[
            ("ideal.softmax.off_pattern", place, lambda m, place=place: m.ideal.softmax.bounds[place])
            for place in (1, 2)
        ],
    ],
    "B-110": [*exact("column.output_error", "closed.output_error"), ("ideal.column.output_rank", None, [1, 2])],
    "B-111": [
        ("ideal.softmax.off_pattern", 0, 0.5),
        ("ideal.softmax.off_pattern", 2, 0.01),
        ("sentence.smallest_weight", None, 0),
        ("ideal.softmax.off_pattern", 1, lambda m: m.ideal.softmax.bounds[1]),
    ],
}
