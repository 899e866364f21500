"""Counterfeits of what the chapter on patterns and messages measures: one for each of its claims."""

import numpy as np

OFF = 1e-3  # far beyond rounding, far too small to be seen


def one_layer_off(errors):
    """Let the rewriting fail in a single layer of GPT-2."""
    return np.append(errors[:-1], OFF)


def one_layer_right(errors):
    """Let what leaves something out be exact in a single layer of GPT-2."""
    return np.append(errors[:-1], 1e-15)


def one_head_of_lower_rank(values):
    """Let one head use a direction less."""
    forged = values.copy()
    forged[7, -1] = 1e-9 * forged[7, 0]
    return forged


def nearly_always(shares):
    """Let the largest weight have the longest message in nearly all rows of every head."""
    return np.maximum(shares, 0.995)


def more_than_half_everywhere(shares):
    """Let the constant part have more than half of the variance in every head."""
    return np.maximum(shares, 0.51)


COUNTERFEITS = {
    "P-01": {"bias_free.errors.concatenation": OFF},
    "P-02": {"bias_free.errors.cross-attention": OFF},
    "P-03": {"bias_free.errors.torch's attention": OFF},
    "P-04": {"equality.gpt2.sum over heads": one_layer_off},
    "P-05": {"bias_free.errors.sum over heads": OFF},
    "P-06": {"bias_free.errors.concatenation": OFF},
    "P-07": {"bias_free.errors.values first": OFF},
    "P-08": {"bias_free.errors.attention": OFF},
    "P-09": {"spectra.values.message": one_head_of_lower_rank},
    "P-10": {"bias_free.other_messages": OFF},  # a message depends on another row
    "P-11": {"readings.trained.influence": nearly_always},
    "P-12": {"bias_free.errors.sum of messages": OFF},
    "P-13": {"gauge.unchanged.W_P": OFF},
    "P-14": {"bias_free.errors.patterns": OFF},
    "P-15": {"bias_free.errors.scores": OFF},
    "P-16": {"readings.trained.constant": more_than_half_everywhere},
    "P-17": {"spaces.nearest_to_query": 1.0},  # a query in its own space is read as well
    "P-18": {"lists.stand_ins.patterns": OFF},  # the correction does not give the layer
    "P-19": {"lists.second": OFF},
    "P-20": {"equality.gpt2.root of the stream's width": one_layer_right},
    "P-21": {"rotary.errors.one W_P": 1e-9},  # one pattern matrix would do for all offsets
    "P-22": {"costs.ratios.long": 0.9},
}


def of_random_layer(name):
    return f"bias_free.errors.{name}", None, 1e-12


def of_gpt2(name, limit):
    return f"equality.gpt2.{name}", 5, limit


FORMS = ("factored", "merged", "input-cached")


def half_at_most(m):
    """Return the shares of the constant part, scaled to one half in the head that has most."""
    return m.readings.trained["constant"] / m.readings.trained["constant"].max() / 2


LIMITS = {
    "P-04": [of_random_layer("sum and concatenation"), of_gpt2("sum over heads", 1e-12)],
    "P-09": [
        ("spectra.values.message", (17, -1), lambda m: m.spectra.values["message"][17, 0] / 1000),
        ("gauge.message_ranks", 1, [4, 3]),
    ],
    "P-10": [of_random_layer("messages"), ("bias_free.other_messages", None, 1e-12)],
    "P-11": [
        ("rewriting.output", None, 1e-12),
        ("readings.trained.influence", (0, 3), 0.99),
        ("readings.trained.influence", ..., 0.5),
    ],
    "P-16": [("readings.trained.angle", (1, 2), 0.85), ("readings.trained.constant", ..., half_at_most)],
    "P-13": [
        ("gauge.pattern_ranks", 2, [4, 3]),
        ("gauge.moved", None, 0.1),
        *[(f"gauge.unchanged.{name}", None, 1e-12) for name in ("W_P", "W_M", "b_P", "output")],
    ],
    "P-17": [
        (f"spaces.nearest_to_{which}", None, lambda m: m.spaces.nearest_to_pattern)
        for which in ("query", "turned_query")
    ],
    "P-18": [
        ("lists.stand_ins.patterns", None, 1e-12),
        ("lists.stand_ins.messages", None, 0.1),
        ("lists.stand_ins.X", None, 0.1),
        ("lists.second", None, 1e-12),
    ],
    "P-20": [("rewriting.output", None, 1e-12), of_gpt2("root of the stream's width", 0.05)],
    "P-21": [
        *[(f"equality.random.{family}.patterns and messages", None, 1e-12) for family in ("gpt2", "bert")],
        of_gpt2("patterns and messages", 1e-12),
        ("rotary.errors.rotary form", None, 1e-5),
        ("rotary.errors.no b_K", None, 0.01),
        ("rotary.errors.one W_P", None, 0.01),
        *[of_gpt2(form, 0.01) for form in ("no constant pattern", "no b_V W_O", "as printed")],
        of_gpt2("no mask", 0.1),
    ],
    "P-22": [
        *[(f"costs.ratios.{case}", None, 1) for case in ("short", "long", "wide head")],
        *[(f"costs.counts.{form}.error", None, 1e-12) for form in FORMS],
        *[
            (f"costs.counts.{form}.counted", None, lambda m, form=form: [0, m.costs.counts[form].formula])
            for form in FORMS
        ],
    ],
}
