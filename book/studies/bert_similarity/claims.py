"""The paper's claims on what Q and K measure, each judged by what was measured."""

import math
from collections.abc import Iterable

import numpy as np

from analysis.models.controls import RUNGS, SHARP
from book.lab.mathematics.stretching import MAPS
from book.publish import Outcome, claim, conditional, corrected, holds_on_a_stand_in, reproduced
from book.publish.phrases import enumerated, percent
from book.studies.bert_similarity.asymmetry import CONTENT, EQUAL, LESS_COMMON, POSITIVE, SYMMETRIC, TRAINED
from book.studies.bert_similarity.measure import Measured
from book.studies.bert_similarity.networks import LONGEST
from book.studies.shared.nearest_classifier import NEAREST


def three(values: Iterable[float], digits: int = 0) -> str:
    """Write one share for each of Q, K and V."""
    return ", ".join(f"{percent(v, digits)} ({name})" for v, name in zip(values, MAPS, strict=True))


@claim("B-01")
def published_sizes(m: Measured) -> Outcome:
    """BERT BASE has 110 M and LARGE 340 M parameters."""
    base, large = m.architecture.base, m.architecture.large
    return reproduced(
        f"BERT BASE has {base / 1e6:.1f} M and LARGE {large / 1e6:.1f} M parameters: 110 M and 340 M to two digits.",
        when=(f"{base:.1e}", f"{large:.1e}") == ("1.1e+08", "3.4e+08"),
    )


@claim("B-02")
def stack_of_states_of_one_width(m: Measured) -> Outcome:
    """The encoder stack reads up to 512 tokens and writes one state of width d for each."""
    a = m.architecture
    return reproduced(
        f"One state of width {a.width} for each of {a.tokens} tokens after each of {a.layers} layers; "
        f"{a.limit} positions, and one more is refused.",
        when=a.states == (a.layers + 1, a.tokens, a.width)
        and a.limit == 512
        and a.accepts_limit
        and not a.accepts_more,
    )


@claim("B-03")
def fixed_positions(m: Measured) -> Outcome:
    """Positions are fixed sines and cosines, not trained."""
    p = m.positions
    return corrected(
        f"BERT has a trained table, norms from {p.learned_norms[0]:.2f} to {p.learned_norms[1]:.2f} and off "
        f"Toeplitz by {p.learned_defect:.2f}; the formulas are the original Transformer's.",
        more=(f"Rows by the formulas have all one norm, and are off Toeplitz by {p.sines_defect:.2f}."),
        when=p.sines_defect < 1e-9 and p.sines_norm_spread < 1e-9 and p.learned_defect > 0.02,
    )


@claim("B-04")
def order_of_operations(m: Measured) -> Outcome:
    """Each sub-layer is followed by its skip connection and then by LayerNorm."""
    return reproduced(
        "A forward pass written in this order equals the library's in every hidden state to 2e-5.",
        when=m.architecture.order_gap < 2e-5,
    )


@claim("B-05")
def blind_without_positions(m: Measured) -> Outcome:
    """Without positions the network cannot see order."""
    o = m.order
    return reproduced(
        "Without positions the outputs are permuted with the inputs, to 1e-5; with them they change by "
        f"{o.with_positions:.2f}.",
        more=(
            "BERT has no causal mask; under one a layer without positions sees order (its output changes by "
            f"{o.causal:.2f})."
        ),
        when=o.without_positions < 1e-5 and min(o.causal, o.with_positions) > 0.01,
    )


@claim("B-11")
def size_of_the_biases(m: Measured) -> Outcome:
    """The biases of Q, K and V have the size of Q."""
    a = m.architecture
    return corrected(
        f"W maps {a.width} to {a.channel} in each head, and the bias has {a.channel} numbers; only 1 b^T has "
        "the size of Q.",
        more=("In BERT BASE W maps 768 to 64."),
        when=a.added_unevenly < 1e-5 and a.added_to_queries > 1e-3,
    )


@claim("B-13")
def singular_values_above_one(m: Measured) -> Outcome:
    """The largest singular value is usually above 1, especially for Q and K."""
    s, classifier, near = m.stretching, m.classifier.largest, m.nearest.largest_weights
    of_control, own = s.largest["control"].max(), [(each > 1).mean() for each in near]
    sharp = min(m.rungs[f"sigma above 1, {letter}"].controls[SHARP].mean() for letter in "QK")
    middle = [float(np.median(each)) for each in near]
    return holds_on_a_stand_in(
        f"{NEAREST}the largest singular value exceeds 1 in {three(own)} of the heads.",
        more=(
            f"It is largest for Q and K (median {enumerated(middle, '.2f')}). So it is in MiniLM, "
            f"{three(s.over['trained'])}, whose weights they were. Trained from random weights in none (at most "
            f"{classifier.max():.2f}), nor in a random control ({of_control:.2f}). It is a matter of size: in "
            f"random W_Q and W_K as large as MiniLM's {sharp:.0%} exceed 1."
        ),
        when=min(own) > 0.5 and min(middle[:2]) > middle[2] and of_control < 1 and classifier.max() < 1 and sharp > 0.9,
    )


@claim("B-14")
def frequent_amplification(m: Measured) -> Outcome:
    """Rows are frequently amplified on their way into Q, K and V."""
    s, near = m.stretching, m.nearest.grown
    alone, joint = [share.value for share in s.alone["trained"]], s.joint["trained"]
    named, often = near[:, 0, 3], (near > 0.5).sum((1, 2))
    scaled = max(grown.max() for rung, grown in m.nearest.control_grown.items() if rung in RUNGS)
    return conditional(
        f"{NEAREST}figure 2's head amplifies {percent(named[1], 1)} of the rows as keys, "
        f"{percent(named[0], 1)} as queries, {percent(named[2], 1)} as values.",
        more=(
            f"Over all heads it is {three(near.mean((1, 2)))}: more than half of its rows are amplified by "
            f"{often[0]} of {near[0].size} heads for Q, by {often[1]} for K, by {often[2]} for V. So keys of some "
            f"heads are, values never. In MiniLM on texts cut at {LONGEST} tokens single heads amplify "
            f"{three(alone, 1)}, in the classifier trained from random weights none (at most by "
            f"{m.classifier.growth:.2f}), in no control more than {percent(scaled)}. All heads of a layer together "
            f"amplify {three(joint)} in MiniLM."
        ),
        when=named[1] > 0.5 > max(named[0], named[2])
        and often[1] > often[0] > 0 == often[2]
        and max(alone) < 0.2
        and m.classifier.growth < 1
        and scaled < 0.2,
    )


@claim("B-15")
def direction_cone(m: Measured) -> Outcome:
    """There is a cone of directions that are stretched most."""
    half = ", ".join(f"{v:.2f} ({name})" for v, name in zip(m.cone.half, MAPS, strict=True))
    return reproduced(
        f"It can be defined once an aperture is chosen; at the apertures {half} the cone holds half of the rows.",
        more="The paper leaves the aperture open, and the book's definition takes it from the reader. Of the rows "
        f"{percent(m.cone.narrow)} lie within 10 % of the largest stretch.",
        when=m.cone.narrow == 0 and min(m.cone.half) > 0.5,
    )


@claim("B-16")
def attention_formula(m: Measured) -> Outcome:
    """Attention is the softmax of QK^T over the root of d_k."""
    return reproduced(
        f"Softmax of QK^T / sqrt({m.architecture.channel}) equals the library's attention in all layers "
        "to 1e-5; 64 is BERT BASE's channel.",
        when=m.architecture.attention_gap < 1e-5,
    )


@claim("B-17")
def softmax_by_rows(m: Measured) -> Outcome:
    """The softmax works row by row."""
    return reproduced(
        "Rows sum to 1 within 1e-5 and do not change when a constant is added to a row of scores.",
        when=m.architecture.row_sum_error < 1e-5 and m.architecture.shift_error < 1e-5,
    )


@claim("B-18")
def four_terms(m: Measured) -> Outcome:
    """QK^T is the sum of four terms."""
    return reproduced(
        "The four terms add up to QK^T for random matrices of 512 x 768 x 64 to 1e-13, and on the "
        "trained model to 1e-4.",
        when=m.terms.random_error < 1e-13 and m.terms.model_error < 1e-4,
    )


@claim("B-19")
def two_terms_vanish(m: Measured) -> Outcome:
    """The two terms that are constant along each row vanish in the softmax."""
    return reproduced(
        "Without the two terms, and with b_K = 0, attention is the same to 1e-5; the trained |b_K| is "
        f"{m.terms.key_bias_ratio:.4f} of |b_Q|.",
        when=m.terms.dropped_gap < 1e-5 and max(w.value for w in m.terms.without_b_K) < 1e-5,
    )


@claim("B-20")
def semi_bias_remains(m: Measured) -> Outcome:
    """The term of the query bias with the keys remains."""
    moved, of_control = m.terms.without_b_Q, max(w.value for w in m.terms.control_without_b_Q)
    one_text = any(math.isnan(w.low) for w in moved)
    return reproduced(
        f"Dropping the term moves {percent(min(w.value for w in moved))} to "
        f"{percent(max(w.value for w in moved))} of a row's attention, by layer; in the control, whose biases "
        "are zero, nothing.",
        more=(f"It is {enumerated(percent(w.value) for w in moved)} in layers 0 to {len(moved) - 1}."),
        when=None if one_text else min(w.low for w in moved) > 0.02 and of_control < 1e-6,
    )


@claim("B-21")
def no_scalar_product(m: Measured) -> Outcome:
    """M is not positive semidefinite, hence no scalar product."""
    c, signs = m.form.channel, m.form.signs
    return reproduced(
        f"The symmetric part has {c} positive and {c} negative eigenvalues in every head, so M is no scalar product.",
        more=("So it is in every head of the control: the theorem forces it on linearly independent factors."),
        when=signs["trained"] == signs["control"] == [(c, c)] and m.form.negative_if_equal == 0,
    )


@claim("B-22")
def low_rank(m: Measured) -> Outcome:
    """M is a factorisation of rank at most d_k."""
    f = m.form
    return reproduced(
        f"The rank of M is {f.channel} = d_k in every head (smallest over largest singular value at "
        f"least {f.last_singular_value:.3f}).",
        when=f.last_singular_value > 1e-10 and f.next_singular_value < 1e-10,
    )


@claim("B-23")
def norms_and_angles(m: Measured) -> Outcome:
    """The similarity depends on norms and angles, unlike the cosine."""
    r = m.lengths
    least, most = percent(min(r.moved)), percent(max(r.moved))
    return reproduced(
        "A row three times as long has three times the scores and the same cosines.",
        more=(f"With all rows at one length {least} to {most} of the attention moves, by layer."),
        when=r.scaling_error < 1e-5 and r.cosine_error < 1e-5 and min(r.moved) > 0.01,
    )


@claim("B-24")
def cause_of_the_asymmetry(m: Measured) -> Outcome:
    """Attention is asymmetric because M is not a metric."""
    scores, attention = m.asymmetry.mean_scores, m.asymmetry.mean_attention
    content, symmetric, less = attention[CONTENT], attention[SYMMETRIC + EQUAL], attention[LESS_COMMON + EQUAL]
    return corrected(
        "Scores are asymmetric because M is not; a symmetric M at the same spread takes attention's share from "
        f"{content:.2f} to {symmetric:.2f}, not to 0.",
        more=(
            "The symmetric part of M is just as indefinite and gives symmetric scores. These shares are of content "
            f"alone; as trained, with the semi-bias, it is {attention[TRAINED]:.2f}. Without what all queries share, "
            f"which draws all rows to the same keys, content has {less:.2f}. What is left of a symmetric form shows "
            f"for a positive one too ({attention[POSITIVE + EQUAL]:.2f}): each row is normalised by itself."
        ),
        when=scores[SYMMETRIC] < 1e-6 < scores[CONTENT]
        and symmetric < content / 2
        and symmetric < less < content
        and attention[POSITIVE + EQUAL] > 1e-3,
    )
