"""Counterfeits of what the page on the text and its code holds itself to."""

import numpy as np

from book.studies.text_and_code.outputs import UNIFORM


def near_the_models_map_in_one_layer(distance):
    moved = distance.copy()
    moved[:, 3] = 0.2
    return moved


def with_queries_that_go_together(slices):
    return slices._replace(rank_correlation=np.array([0.6, 0.1, 0.0]))


def with_a_bias_that_matters(distance):
    return distance + 0.05


def falling_at_the_end(index):
    fallen = index.copy()
    fallen[:, -1] = 0.9 * fallen[:, 0]
    return fallen


def with_some_entropy(gate):
    return gate._replace(whole=0.1)


def with_one_head_that_shows_a_cell(empty):
    shown = empty.copy()
    shown[0, 0] = 11 / 12
    return shown


def failing_more_in_one_layer(shares):
    more = shares.copy()
    more[:, 2] = 1.0
    return more


def mostly_reached_by_lost_codons(shares):
    moved = shares * 0.1
    moved[::3] += 0.3
    return moved


def closing_in_one_seed(keys):
    closed = keys.copy()
    closed[2, -1] = 460
    return closed


FINDINGS = {
    "stored_columns_are_other_maps": {"heads.distances.text model.all four": near_the_models_map_in_one_layer},
    "stored_columns_have_other_values": {"heads.slices.classifier": with_queries_that_go_together},
    "missing_biases_alone_change_little_in_the_classifier": {
        "heads.distances.classifier.no bias": with_a_bias_that_matters
    },
    "unit_rows_rise_where_rows_do_not": {"cone.forms.text model.unit rows, tokens": falling_at_the_end},
    "closed_gate_has_no_entropy": {"entropies.ideal.closed": with_some_entropy},
    "codes_entropy_falls_with_depth": {"entropies.falling": 4},
    "even_attention_is_not_drawn": {"drawn.empty.random": with_one_head_that_shows_a_cell},
    "codes_rows_fail_less": {"rows.failing.text model.the code's": failing_more_in_one_layer},
    "counts_compute": {"sizes.recorded": (36_361, 3_161, 9_881)},
    "a_shift_that_no_codon_makes_is_common": {"frames.shares": mostly_reached_by_lost_codons},
    "outputs_are_a_softmax": {"logits.softmax_error": 1e-3},
    "only_the_trained_classifier_closes": {"closing.keys.random": closing_in_one_seed},
}

ALL = slice(None)
CONTROLS = ("random", "random, as large", "permuted")
CODED = "cone.forms.text model.unit rows, tokens"
STEPS = {"(5.1), tokens": -1.0, "unit rows, tokens": 1.0}


def step_or_level(form, step):
    """Let one form of the index of two states go by a step from first to last, or be as high at both ends."""
    return lambda m: [m.cone.forms["text model"] | {form: np.array([[8.0, last]])} for last in (8.0 + step, 8.0)]


LIMITS = {
    "stored_columns_are_other_maps": [
        ("heads.distances.text model.all four", (ALL, 2), 0.5),
        ("heads.alike.text model", 3, 0.1),
    ],
    "stored_columns_have_other_values": [
        ("heads.slices.classifier", "rank_correlation", [np.array([0.0, 0.19, 0.1]), np.array([0.0, 0.21, 0.1])]),
        ("heads.slices.classifier", "rank_correlation", [np.array([-0.19, 0.0, 0.1]), np.array([-0.21, 0.0, 0.1])]),
    ],
    "missing_biases_alone_change_little_in_the_classifier": [
        ("heads.distances.classifier.no bias", (0, 7), 0.01),
        ("heads.distances.text model.no bias", (4, 2), 0.01),
    ],
    "unit_rows_rise_where_rows_do_not": [
        (CODED, (ALL, -1), lambda m: m.cone.forms["text model"]["unit rows, tokens"][:, 0].mean()),
        (CODED, (ALL, 0), lambda m: m.cone.forms["text model"]["unit rows, tokens"][:, -1].mean()),
        *[("cone.forms.text model", None, step_or_level(form, step)) for form, step in STEPS.items()],
    ],
    "closed_gate_has_no_entropy": [
        ("entropies.ideal.closed", "rows", [1, 1 - 2e-9]),
        ("entropies.ideal.closed", "rows", [1, 1 - 1e-9]),
        ("entropies.ideal.closed", "whole", [0, 1e-9]),
    ],
    "codes_entropy_falls_with_depth": [("entropies.falling", None, 4), ("entropies.falling", None, [5, 4])],
    "codes_rows_fail_less": [
        ("rows.failing.text model.the code's", (ALL, 5), lambda m: m.rows.failing["text model"]["BERT's"][:, 5].mean()),
        (
            "rows.failing.text model.the code's",
            (ALL, 5),
            lambda m: [0 * m.rows.failing["text model"]["BERT's"][:, 5], m.rows.failing["text model"]["BERT's"][:, 5]],
        ),
    ],
    "a_shift_that_no_codon_makes_is_common": [
        ("frames.own_shares", 3, lambda m: 0.95 - m.frames.own_shares[[0, 6]].sum(), 1e-4),
        ("frames.shares", 6, lambda m: 2 / 3 - m.frames.shares[[0, 3]].sum(), 1e-4),
    ],
    "outputs_are_a_softmax": [("logits.softmax_error", None, 1e-6)],
    "only_the_trained_classifier_closes": [
        ("closing.keys.trained", (0, -1), UNIFORM - 3, 1e-4),
        ("closing.cones.trained", 0, 511.9, 1e-5),
        *[(f"closing.keys.{rung}", (2, 5), UNIFORM - 3, 1e-4) for rung in CONTROLS],
        *[(f"closing.cones.{rung}", 3, 511.9, 1e-5) for rung in CONTROLS],
    ],
}
