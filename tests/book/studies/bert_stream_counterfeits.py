"""Counterfeits of the measurement of the information stream, one a claim."""

import numpy as np

from analysis.maps.gates import GATES
from book.studies.bert_stream.survey import READ_BACK

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


def coupled(network, name, layer, off):
    """Return the place of one entry of a coupling, and where it leaves a share of ``off`` off the diagonal."""
    place = NAMES.index(name)

    def entry(m):
        return m.coupling.blocks[network][layer, place, 0, 0] + m.coupling.off_diagonal(network, name)[layer] - off

    return f"coupling.blocks.{network}", (layer, place, 0, 0), entry


def read_back(what, station, layer, block, limit):
    return "read_back.shares.trained", (layer, READ_BACK.index((what, station)), block), limit


def told(station, network="trained", more=0.0):
    """Return how much a station tells of the heads of layer 5."""
    return lambda m: m.read_back.band("heads", station, network)[5, 0] + more


ALL = slice(None)
NAMES = ("skip", "LN", "W_O", "W_O and LN", "MLP", "MLP and skip", "MLP, skip and LN")
TOP = 4  # the layer whose MLP adds to the mean cosine
LARGE = "rungs.measures.added by the MLP.controls.random, as large"
LIMITS = {
    "B-93": [
        ("heads.errors.heads", None, 1e-4),
        ("heads.errors.attention_output", None, 1e-4),
        ("heads.without_output", None, 0.5),
        ("heads.one_map", None, 0.5),
    ],
    "B-94": [
        ("normalisation.formula_error", None, 1e-10),
        ("normalisation.doubled_error", None, 1e-10),
        ("normalisation.additivity_error", None, 0.2),
    ],
    "B-95": [
        ("normalisation.largest_row_sum", None, 1e-9),
        ("normalisation.negative_written", None, 0.2),
        ("normalisation.negative", None, 0.2),
    ],
    "B-96": [("normalisation.change.trained", None, 0.2), ("normalisation.change.control", None, 0.1)],
    "B-97": [
        ("normalisation.jacobian_error", None, 1e-10),
        ("normalisation.third_singular", None, 1e-9),
        coupled("trained", "W_O and LN", 2, 11 / 12 - 0.02),
        coupled("trained", "W_O and LN", 4, 11 / 12 + 0.02),
        coupled("control", "W_O and LN", 1, 11 / 12 - 0.02),
        coupled("trained", "skip", 3, 1e-6),
        coupled("trained", "LN", 5, 1e-3),
    ],
    "B-98": [("perceptron.mask_error", None, 1e-10), ("perceptron.relu_cosine.trained", None, 0.99)],
    "B-100": [
        ("sums.product_error.trained", 4, 1),
        ("sums.additive.trained", 1, 0.96),
        ("sums.interaction.trained", 3, 0.1),
        ("sums.interaction.control", 3, 0.1),
    ],
    "B-101": [
        ("biases.fold_error", None, 1e-9),
        ("biases.zeroed_cosine", None, 0.999, 1e-4),
        ("biases.variation", None, 0.2),
    ],
    "B-102": [
        ("order.renumbered_error", None, 1e-10),
        ("order.permuted_change", None, 0.5),
        read_back("first", "second", 3, 2, 0.5),
        read_back("heads", "second", 1, 7, 0.05),
        read_back("first", "shuffled", 2, 9, 0.02),
        read_back("heads", "x and second", 5, ALL, told("x", more=0.05)),
        read_back("heads", "second", 5, ALL, told("x")),
        ("read_back.shares.control", (5, READ_BACK.index(("heads", "x and second")), ALL), told("x", "control", 0.1)),
    ],
    "B-103": [
        ("sums.linear.trained", 2, 0.99),
        ("nearest.by_mlp", (1, 3), 0),
        ("anisotropy.mlp", TOP, 0.01),
        ("anisotropy.mlp_rises", TOP, 0.9),
        ("anisotropy.mlp", 1, 0),
        ("anisotropy.norm", 3, 0),
        (LARGE, (2, 0), 0),
    ],
    "B-104": [
        ("composition.lengths", 9, lambda m: 1.5 * m.composition.lengths.min()),
        ("composition.lengths", [5, 7, 11], lambda m: m.composition.lengths.max() / 1.5),
    ],
    "B-105": [("algebra.four_terms_error", None, 1e-12)],
    "B-106": [
        ("expansion.sum_error", None, 1e-12),
        ("real_rows.sum_error", None, 1e-10),
        ("real_rows.moved", None, 1e-4),
    ],
    "B-107": [("algebra.printed_context_error", None, 0.5), ("expansion.context_error", None, 1e-12)],
    "B-108": [coupled("trained", "MLP, skip and LN", 2, 0.6), coupled("control", "MLP, skip and LN", 4, 0.1)],
    "B-109": [
        ("patterns.unexplained.trained", (1, 1), 0.08),
        ("nearest.gates", (ALL, ALL, GATES.index("residual")), 0.05),
        ("algebra.mixture_error", None, 1e-12),
    ],
}
