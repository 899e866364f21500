"""What would turn each verdict on Kamoda's page: the smallest change of the chapter's measurement."""

import numpy as np

BEYOND_ROUNDING = 1e-9
NO_DIFFERENCE = 0.0


def one_near_0(correlations):
    """Bring the correlation of one head within five standard errors of 0."""
    return np.append(correlations[:-1], 0.05)


def flipped_in_one_head(scores):
    """Change the sign of one head's scores."""
    signs = np.ones((len(scores), 1))
    signs[0] = -1
    return signs * scores


def one_interval_around_zero(correlations):
    """Widen the interval of the first head until it holds 0."""
    values, low, high = correlations.copy()
    low[0], high[0] = -abs(values[0]), 2 * abs(values[0])
    return np.stack([values, low, high])


def one_head_as_large(folded):
    """Give one head the range of the unfolded semi-bias."""
    return np.where(np.arange(len(folded))[:, None] == 0, 100 * folded, folded)


COUNTERFEITS = {
    "K-01": {"sentence.identities.output_rows": BEYOND_ROUNDING},
    "K-02": {"sentence.identities.input_columns": BEYOND_ROUNDING},
    "K-03": {"errors.GPT-2.attention": BEYOND_ROUNDING},
    "K-04": {"errors.GPT-2.output": BEYOND_ROUNDING},
    "K-05": {"sentence.identities.concatenation": BEYOND_ROUNDING},
    "K-06": {"sentence.identities.sum_over_heads": BEYOND_ROUNDING},
    "K-07": {"errors.GPT-2.value_at_query": NO_DIFFERENCE},
    "K-08": {"errors.GPT-2.value_at_query": NO_DIFFERENCE},
    "K-09": {"errors.GPT-2.value_folded": BEYOND_ROUNDING},
    "K-10": {"errors.GPT-2.bias_outside": BEYOND_ROUNDING},
    "K-11": {"sentence.identities.later_keys": BEYOND_ROUNDING},
    "K-12": {"errors.GPT-2.four_terms": BEYOND_ROUNDING},
    "K-13": {"sentence.identities.key_bias_along_rows": BEYOND_ROUNDING},
    "K-14": {"sentence.identities.shifted_scores": BEYOND_ROUNDING},
    "K-15": {"errors.GPT-2.no_key_bias": BEYOND_ROUNDING},
    "K-16": {"errors.GPT-2.two_terms": BEYOND_ROUNDING},
    "K-17": {"sentence.identities.content_without_biases": BEYOND_ROUNDING},
    "K-18": {"sentence.identities.query_bias_across_queries": BEYOND_ROUNDING},
    "K-19": {"table.norm_last": 3.0},
    "K-20": {"table.every_8th": np.cbrt},
    "K-21": {"table.pc_ramp": 0.9},
    "K-22": {"errors.GPT-2.map": BEYOND_ROUNDING},
    "K-23": {"tilt.raw": flipped_in_one_head},
    "K-24": {"first_key.first_low": -1},
    "K-25": {"locality.local_heads": (3, 4, 7, 8)},
    "K-27": {"tokens.correlations": one_interval_around_zero},
    "K-28": {"tokens.at_equal_frequency": one_near_0},
    "K-29": {"tilt.folded": one_head_as_large},
    "K-30": {"errors.GPT-2.two_terms_unscaled": NO_DIFFERENCE},
}


def of_either(name, limit):
    """Return both models' errors of that name, each with its limit."""
    return [(f"errors.{model}.{name}", None, limit) for model in ("gpt2-mini", "GPT-2")]


def identity(name):
    return f"sentence.identities.{name}", None, 1e-12


STANDARD_ERROR = 2045**-0.5  # of a correlation of 2,048 tokens
LIMITS = {
    "K-03": of_either("attention", 1e-12),
    "K-04": of_either("output", 1e-12),
    "K-05": [*of_either("output", 1e-12), identity("concatenation")],
    "K-06": [identity("sum_over_heads")],
    "K-07": [*of_either("value_at_query", 0.1), *of_either("output", 1e-12)],
    "K-08": [*of_either("value_at_query", 0.1), *of_either("value_folded", 1e-12)],
    "K-09": of_either("value_folded", 1e-12),
    "K-10": of_either("bias_outside", 1e-12),
    "K-11": [identity("row_sums")],
    "K-14": [identity("shifted_scores")],
    "K-15": [*of_either("no_key_bias", 1e-12), *of_either("no_query_bias", 0.01)],
    "K-16": of_either("two_terms", 1e-12),
    "K-17": [identity("content_without_biases")],
    "K-18": [identity("query_bias_across_queries"), *of_either("no_query_bias", 0.01)],
    "K-19": [("table.norm_last", None, lambda m: m.table.norm_median / 10)],
    "K-21": [("table.pc3", None, 0.85), ("table.pc_ramp", None, 0.95)],
    "K-22": [("errors.GPT-2.map", None, 1e-12)],
    "K-23": [("tilt.raw", (9, 100), 0), ("tilt.raw", (0, 1000), 0)],
    "K-24": [
        ("locality.mass", (1, 1, 0, slice(None)), lambda m: 2 * m.locality.uniform[1]),
        ("first_key.first_low", None, 0),
        ("first_key.first_high", None, 512),
        ("first_key.until_wide", 3, lambda m: m.first_key.until_without_tokens[3]),
    ],
    "K-25": [("locality.mass", (1, 0, 0, slice(None)), 0.1)],
    "K-27": [("tokens.correlations", (1, 0), 0), ("tokens.correlations", (2, 4), 0)],
    "K-28": [
        ("tokens.tok_positive", None, 4),
        ("tokens.tok_partial_positive", None, 4),
        ("endings.end_positive_low", None, 4),
        ("tokens.at_equal_frequency", 1, 5 * STANDARD_ERROR, 1e-4),
        ("tokens.at_equal_frequency", 4, -5 * STANDARD_ERROR, 1e-4),
    ],
    "K-29": [
        *of_either("six_terms", 1e-12),
        ("tilt.folded", (3, 17), lambda m: abs(m.tilt.raw[3]).max()),
        ("tilt.folded", (8, 17), lambda m: -abs(m.tilt.raw[8]).max()),
    ],
    "K-30": [*of_either("two_terms_unscaled", 0.1), *of_either("two_terms", 1e-12)],
}
