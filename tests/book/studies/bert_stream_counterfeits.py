"""Counterfeits of the measurement of the information stream, one a claim."""

import numpy as np

WRONG = 1e-3  # an error far beyond rounding, and small beside what it is an error of


def one_layer(value, layer=0):
    """Return a change that gives one layer another value."""

    def change(values):
        changed = values.copy()
        changed[layer] = value
        return changed

    return change


def apart(couplings, *maps):
    """Make the couplings of some maps diagonal: the blocks stay apart."""
    changed, blocks = couplings.copy(), couplings.shape[-1]
    changed[:, list(maps)] = np.eye(blocks) / blocks
    return changed


def mixed(couplings, *maps):
    """Make the couplings of some maps even: the blocks are fully mixed."""
    changed = couplings.copy()
    changed[:, list(maps)] = 1 / couplings.shape[-1] ** 2
    return changed


def heads_apart(couplings):
    """Let W_O, with LayerNorm, keep the heads' blocks apart."""
    return apart(couplings, 3)


def channels_broken(couplings):
    """Let the perceptron mix the blocks in spite of its skip connection."""
    return mixed(couplings, 6)


def order_deleted(shares):
    """Let the layer's output tell nothing of its heads."""
    changed = shares.copy()
    changed[:, 2] = 0
    return changed


def without_preference(scores):
    """Let every later head read all earlier ones alike."""
    return scores.mean().expand_as(scores)


COUNTERFEITS = {
    "B-87": {"algebra.wrong_columns": 1},
    "B-88": {"algebra.wrong_columns": 1},
    "B-89": {"algebra.product_error": WRONG},
    "B-90": {"algebra.wrong_rows": 1},
    "B-91": {"algebra.wrong_rows": 1},
    "B-92": {"algebra.sum_error": WRONG},
    "B-93": {"heads.without_output": WRONG},
    "B-94": {"normalisation.additivity_error": WRONG},
    "B-95": {"normalisation.negative_written": 0.0},
    "B-96": {"normalisation.other_rows": WRONG},
    "B-97": {"coupling.blocks.trained": heads_apart},
    "B-98": {"perceptron.relu_cosine.trained": 1 - WRONG},
    "B-99": {"perceptron.blocks_error": WRONG},
    "B-100": {"sums.interaction.trained": one_layer(0.0)},
    "B-101": {"biases.fold_error": WRONG},
    "B-102": {"read_back.shares.trained": order_deleted},
    "B-103": {"nearest.by_mlp": lambda changes: -changes},
    "B-104": {"composition.scores.trained": without_preference},
    "B-105": {"algebra.four_terms_error": WRONG},
    "B-106": {"expansion.vanishing": 44},
    "B-107": {"algebra.printed_context_error": 1e-15},
    "B-108": {"coupling.blocks.trained": channels_broken},
    "B-109": {"algebra.mixture_error": WRONG},
    "B-112": {"composition.scores.trained": without_preference},
}
