"""What the page on the text and its code holds its numbers to; each condition can fail."""

import numpy as np

from analysis.models.controls import RUNGS
from book.studies.shared import released_code as code
from book.studies.text_and_code.measure import Measured
from book.studies.text_and_code.outputs import UNIFORM

NEAR_UNIFORM = 3
"""Keys by which a nearly uniform row may fall short of a uniform one."""


def stored_columns_are_other_maps(m: Measured) -> bool:
    """The code's maps of the text model share less than half of every row with the model's, in every layer."""
    distance, alike = m.heads.distances["text model"]["all four"], m.heads.alike["text model"]
    return bool(distance.mean(0).min() > 0.5 and alike.max() < 0.1)


def stored_columns_have_other_values(m: Measured) -> bool:
    """In the classifier the code's largest singular values say nothing of the heads' own."""
    return bool(np.abs(m.heads.slices["classifier"].rank_correlation).max() < 0.2)


def missing_biases_alone_change_little_in_the_classifier(m: Measured) -> bool:
    """The missing biases change next to nothing in the classifier, and something in every layer of the text model."""
    classifier, text = (m.heads.distances[network]["no bias"] for network in ("classifier", "text model"))
    return bool(classifier.max() < 0.01 < text.min())


def unit_rows_rise_where_rows_do_not(m: Measured) -> bool:
    """In the text model the code's index rises from first to last layer, and the printed one falls."""
    printed, coded = (m.cone.forms["text model"][form].mean(0) for form in ("(5.1), tokens", "unit rows, tokens"))
    return bool(printed[-1] < printed[0] and coded[-1] > coded[0])


def closed_gate_has_no_entropy(m: Measured) -> bool:
    """By the code's entropy the closed gate has nothing and faint noise has most."""
    ideal, noise = m.entropies.ideal, m.entropies.noise
    return bool(
        ideal["closed"].whole == 0
        and max(noise, key=lambda deviation: noise[deviation].whole) == min(noise)
        and ideal["closed"].rows > 1 - 1e-9
    )


def codes_entropy_falls_with_depth(m: Measured) -> bool:
    """In the trained classifier the code's entropy falls with depth in most classes."""
    return bool(m.entropies.falling > m.entropies.classes / 2)


def even_attention_is_not_drawn(m: Measured) -> bool:
    """An even share of a gene's attention is below what is drawn, and no head of the control would show a cell."""
    return bool(1 / code.TOKENS < code.HIDDEN_BELOW and m.drawn.empty["random"].min() == 1)


def codes_rows_fail_less(m: Measured) -> bool:
    """In the text model fewer of the code's rows fail than of BERT's, in every layer."""
    kinds = m.rows.failing["text model"]
    return bool((kinds["the code's"].mean(0) < kinds["BERT's"].mean(0)).all())


def counts_compute(m: Measured) -> bool:
    """Arithmetic gives the parts that the notebook printed, and the printed training set is two of them."""
    training, validation, _ = m.sizes.computed
    return m.sizes.computed == m.sizes.recorded and training + validation == 39_522


def a_shift_that_no_codon_makes_is_common(m: Measured) -> bool:
    """A third of the authors' words or more need such a shift; of the book's own, none to speak of."""
    return bool(1 - m.frames.shares[::3].sum() > 1 / 3 and 1 - m.frames.own_shares[::3].sum() < 0.05)


def outputs_are_a_softmax(m: Measured) -> bool:
    """The recorded outputs are the softmax of the recorded logits."""
    return m.logits.softmax_error < 1e-6


def only_the_trained_classifier_closes(m: Measured) -> bool:
    """The trained classifier ends as the authors' does, at nearly uniform rows; no control of any rung does."""
    controls = max(m.closing.keys[rung].max() for rung in RUNGS)
    return bool(
        m.closing.keys["trained"][0, -1] > UNIFORM - NEAR_UNIFORM > controls
        and m.closing.cones["trained"][0] > 511.9 > max(m.closing.cones[rung].max() for rung in RUNGS)
    )
