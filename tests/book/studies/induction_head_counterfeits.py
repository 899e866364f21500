"""The smallest changes of the measurement that should turn the verdicts on the induction-head slides."""

import torch


def agreeing(**choices):
    """Return a change of the counted cells: one reading that makes these choices prints every table."""

    def change(counted):
        chosen = next(
            reading for reading in counted if all(getattr(reading, name) == choice for name, choice in choices.items())
        )
        return counted | {chosen: 0}

    return change


def one_more(value):
    return value + 1


def one_less(value):
    return value - 1


COUNTERFEITS = {
    "I-01": {"by_hand.errors.embedding": 1.0},
    "I-02": {"by_hand.errors.input": 1.0},
    "I-03": {"by_hand.errors.attention": 1e-3},
    "I-04": {"by_hand.errors.attention": 1e-3},
    "I-05": {"readings.counted": agreeing(scores="y_j A y_i")},
    "I-06": {"readings.counted": agreeing(normaliser="all s")},
    "I-07": {"by_hand.errors.A_1 elsewhere": 100.0},
    "I-08": {"by_hand.errors.V_1": 1e-3},
    "I-09": {"by_hand.errors.W_1": 1e-3},
    "I-10": {"by_hand.errors.A_2": 1e-3},
    "I-11": {"readings.counted": agreeing(gain=100)},
    "I-12": {"by_hand.counts.passthrough rows": one_less},
    "I-13": {"readings.counted": agreeing(scores="y_j A y_j")},
    "I-14": {"by_hand.cells.scores 1": one_more},
    "I-15": {"by_hand.cells.weights 1": one_more},
    "I-16": {"by_hand.cells.output 1": one_more},
    "I-17": {"by_hand.one_back": (1.0, 298 / 299)},
    "I-18": {"by_hand.errors.first weights": 1e-3},
    "I-19": {"by_hand.counts.rows stored otherwise than printed": one_less},
    "I-20": {"by_hand.cells.scores 2": one_more},
    "I-21": {"by_hand.errors.weights of unseen rows": 0.5},
    "I-22": {"by_hand.errors.outputs of unseen rows": 50.0},
    "I-23": {"by_hand.mistaken_keys": {0: 155, 2: 1}},
    "I-24": {"by_hand.errors.written stored tokens": 1e-3},
    "I-25": {"prediction.copied": ("c", "a")},
    "I-26": {"prediction.errors.unseen": 1e-3},
    "I-27": {"prediction.errors.seen": 1e-3},
    "I-28": {"prediction.context": torch.eye(6, dtype=torch.float64)[3]},
    "I-29": {"prediction.crowded_weight": 1.0},
}


def error(name, limit):
    return f"by_hand.errors.{name}", None, limit


def best_at(network, limit):
    """Return the scores of both layers with the best head of the second one on either side of a limit."""

    def scaled(m):
        prefix = m.trained.heads.scores[network].prefix
        return [prefix * limit * side / prefix[1].max() for side in (0.99, 1.01)]

    return scaled


GAIN = "copied at a gain of 100"
LIMITS = {
    "I-03": [error("attention", 1e-9)],
    "I-04": [error("attention", 1e-9)],
    "I-10": [error("A_2", 1e-9)],
    "I-18": [error("first weights", 1e-80)],
    "I-05": [("by_hand.cells.scores 1", None, [0, 1])],
    "I-07": [
        ("by_hand.errors.A_1 in the position block", None, [0, 1]),
        ("by_hand.errors.A_1 elsewhere", None, [0, 1]),
    ],
    "I-11": [error(GAIN, 1e-9)],
    "I-12": [error("output without a passthrough", 1e-9), ("by_hand.counts.passthrough rows", None, [6, 5])],
    "I-16": [("by_hand.cells.output 1", None, [1, 2])],
    "I-19": [error("stored token", 1e-80), ("by_hand.counts.rows stored otherwise than printed", None, [5, 4])],
    "I-20": [("by_hand.cells.scores 2", None, [1, 2])],
    "I-21": [("by_hand.cells.weights 2", None, [10, 11]), error("weights of unseen rows", 1e-12)],
    "I-22": [("by_hand.cells.output 2", None, [12, 13]), error("outputs of unseen rows", 1e-9), error(GAIN, 1e-9)],
    "I-24": [
        ("by_hand.counts.rows that gather a stored token", None, [6, 5]),
        ("by_hand.errors.written stored tokens", None, [0, 1]),
        error("written current tokens", 1e-9),
        error(GAIN, 1e-9),
    ],
    "I-25": [
        ("prediction.copied", None, [("b", "a"), ("a", "b")]),
        ("prediction.two_matches", None, lambda m: [m.prediction.two_matches, m.prediction.two_matches.flip(0) * 0.9]),
    ],
    "I-26": [("prediction.errors.unseen", None, 1e-12), ("prediction.errors.uniform", None, 1e-12)],
    "I-27": [
        ("prediction.errors.seen", None, 1e-12),
        ("prediction.rows", None, lambda m: [m.prediction.unseen + 1001, m.prediction.unseen + 1000]),
        ("trained.heads.scores.trained.prefix", None, best_at("trained", 1 / 2)),
        ("trained.heads.scores.control.prefix", None, best_at("control", 1 / 6)),
    ],
    "I-28": [
        ("prediction.skipping", None, lambda m: [m.prediction.skipping * k for k in (0.9991, 0.9989)]),
        ("prediction.similar", None, lambda m: [m.prediction.similar * k for k in (0.9991, 0.9989)]),
        ("prediction.context", None, lambda m: [m.prediction.context, m.prediction.context * 0.99]),
    ],
    "I-29": [
        ("by_hand.one_back", 0, [1, 0.9]),
        ("by_hand.one_back", 1, [1, 0.9]),
        ("prediction.errors.uneven", None, 1e-9),
        ("prediction.crowded_weight", None, 0.5),
    ],
}
