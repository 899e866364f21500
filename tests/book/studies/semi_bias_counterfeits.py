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
