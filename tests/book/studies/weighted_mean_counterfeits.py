"""Counterfeits of what the chapter on weighted means measures: one for each of its claims."""

import numpy as np

from book.studies.weighted_mean.claims import PRINTED_PRODUCT

OFF = 1e-3  # far beyond rounding, far too small to be seen


def one_entry_off(table):
    """Change the last entry of an array a little."""
    forged = np.array(table, dtype=float)
    forged[-1, -1] += OFF
    return forged


def letters_in_order_of_appearance(rows):
    """Swap the first two letters of the alphabet."""
    return rows[:, [1, 0, 2]]


def one_layer_off(errors):
    """Let the rewriting fail in a single layer of GPT-2."""
    return np.append(errors[:-1], OFF)


COUNTERFEITS = {
    "M-01": {"random.first_row_off": 0.0},  # a mean of the inputs, although maps follow
    "M-02": {"random.errors.mean": OFF},
    "M-03": {"word.rows": letters_in_order_of_appearance},
    "M-04": {"word.rows": one_entry_off},
    "M-05": {"cases.W_Q zero, b_Q not.distance": 0.0},  # uniform in spite of the query bias
    "M-06": {"mean_layer.rows_apart": 0.0},  # one mean for all positions
    "M-07": {"random.errors.running means": OFF},
    "M-08": {"word.product": one_entry_off},
    "M-09": {"word.weights": one_entry_off},
    "M-10": {"word.weights": one_entry_off},
    "M-11": {"random.errors.loop over prefixes": OFF},
    "M-12": {"random.errors.row sums": OFF},
    "M-13": {"word.listing_weights": one_entry_off},
    "M-14": {"folding.random.gpt2.sum over heads": OFF},
    "M-15": {"folding.gpt2.sum over heads": one_layer_off},
    "M-16": {"survey.counts.none": 60},
    "M-17": {"random.errors.concatenation": OFF},
    "M-18": {"folding.one_head.bert.one mean attention for all heads": OFF},
    "M-19": {"folding.gpt2.weighted inputs, folded": one_layer_off},
    "M-20": {"dropout.repaired": OFF},
    "M-21": {"random.errors.weighted inputs": OFF},
    "M-22": {"folding.random.bert.module with b_V moved": OFF},
    "M-23": {"merging.twelve_heads": 1.0},  # nothing is lost
    "M-24": {"mean_layer.one_head_error": OFF},
    "M-25": {"word.folded": one_entry_off},
}


def rounding(name):
    return name, None, 1e-12


def printed(name):
    """Let an entry that is printed as nothing be nearly nothing."""
    return name, (0, 2), 1e-15


def cases_of(m, *are_uniform):
    """Return one layer of each kind that is asked for."""
    kinds = {case.uniform: (name, case) for name, case in m.cases.items()}
    return dict(kinds[kind] for kind in are_uniform)


def nearly_as_printed(far):
    """Return the printed rows with one entry that is so far off."""
    rows = PRINTED_PRODUCT.copy()
    rows[0, 2] = far
    return rows


LIMITS = {
    "M-01": [
        ("random.visible", 0, [0.5, 0]),
        ("random.future", 0, [0, 0.1]),
        *map(rounding, ("random.errors.row sums", "mean_layer.error", "mean_layer.one_head_error")),
        ("random.first_row_off", None, 0.1),
    ],
    "M-02": [("random.errors.mean", None, 1e-15)],
    "M-04": [("word.rows", (0, 2), 3e-15)],  # a mean over three
    "M-05": [
        rounding("mean_layer.attention_error"),
        ("cases.W_K zero, any biases.content", None, 1e-9),
        ("cases.W_K zero, any biases.constant", None, 1e-9),
        ("cases", None, lambda m: [cases_of(m, True), cases_of(m, True, False)]),
        ("cases", None, lambda m: [cases_of(m, False), cases_of(m, True, False)]),
    ],
    "M-06": [("mean_layer.rows_apart", None, 1e-3)],
    "M-08": [printed("word.product")],
    "M-12": [rounding("random.errors.row sums")],
    "M-13": [printed("word.listing_weights"), printed("word.listing_product")],
    "M-15": [rounding("random.errors.sum over heads"), ("folding.gpt2.sum over heads", 3, 1e-12)],
    "M-16": [("survey.counts.none", None, lambda m: 0.01 * m.survey.counts["modules"])],
    "M-20": [("dropout.error", None, 0.01), rounding("dropout.repaired")],
    "M-23": [("merging.one_head", None, 1), ("merging.twelve_heads", None, 1)],
    "M-24": [rounding("mean_layer.error"), rounding("mean_layer.one_head_error")],
    "M-25": [
        printed("word.folded"),
        ("word.shifted", None, [nearly_as_printed(0.99e-15), nearly_as_printed(1.01e-15)]),
    ],
}
