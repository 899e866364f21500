"""The verdicts on the claims of the post on patterns and messages."""

import math

import numpy as np

from book.publish import Outcome, claim, conditional, corrected, not_testable, reproduced
from book.studies.patterns_and_messages.measure import Measured

ROUNDING = 1e-12


def told(*readings: np.ndarray) -> bool:
    """Say whether there was a row to read in every text (a text of fewer than nine tokens has none)."""
    return not any(np.isnan(reading).any() for reading in readings)


@claim("P-01")
def concatenation_is_the_layer(m: Measured) -> Outcome:
    """Multi-head attention is the concatenation of its heads times W_O."""
    return reproduced(
        "Concatenated heads times W_O equal BertSelfAttention with its projection to 1e-12 (no biases).",
        when=m.bias_free.errors["concatenation"] < ROUNDING,
    )


@claim("P-02")
def head_projects_three_inputs(m: Measured) -> Outcome:
    """A head is the attention of three projected inputs."""
    return reproduced(
        "Three different inputs with one projection each give torch's MultiheadAttention to 1e-12.",
        when=m.bias_free.errors["cross-attention"] < ROUNDING,
    )


@claim("P-03")
def scaled_dot_product(m: Measured) -> Outcome:
    """Attention is softmax(Q K^T / sqrt(d_k)) V."""
    return reproduced(
        "softmax(QK^T / sqrt(c)) V equals torch's scaled_dot_product_attention to 1e-12.",
        when=m.bias_free.errors["torch's attention"] < ROUNDING,
    )


@claim("P-04")
def sum_replaces_concatenation(m: Measured) -> Outcome:
    """The layer is the sum over heads of head W_O_h."""
    return reproduced(
        "The sum over heads of head W_O_h equals the concatenation to 1e-12, also in GPT-2's twelve layers with "
        "biases.",
        when=m.bias_free.errors["sum and concatenation"] < ROUNDING
        and m.equality.gpt2["sum over heads"].max() < ROUNDING,
    )


@claim("P-05")
def no_concatenation_needed(m: Measured) -> Outcome:
    """Attention needs no concatenation."""
    return reproduced(
        "The module's output comes out to 1e-12 with no tensor that holds two heads side by side.",
        when=m.bias_free.errors["sum over heads"] < ROUNDING,
    )


@claim("P-06")
def one_input_for_three(m: Measured) -> Outcome:
    """X may be written for queries, keys and values."""
    return reproduced(
        "In self-attention, which the post goes on with, the three inputs are one, and the module's output "
        "comes out to 1e-12.",
        more=("With three different inputs the form with one X would be another function."),
        when=m.bias_free.errors["concatenation"] < ROUNDING,
    )


@claim("P-07")
def values_move_out(m: Measured) -> Outcome:
    """The values, X W_V W_O, can be moved out of the attention."""
    return reproduced(
        "X W_V W_O taken before the attention gives the module's output to 1e-12.",
        when=m.bias_free.errors["values first"] < ROUNDING,
    )


@claim("P-08")
def scores_of_a_head(m: Measured) -> Outcome:
    """The scores are softmax(X W_Q (X W_K)^T / sqrt(d_k))."""
    return reproduced(
        "softmax(X W_Q (X W_K)^T / sqrt(c)) equals the module's attention to 1e-12; these are scores in the post's "
        "sense, after the softmax.",
        when=m.bias_free.errors["attention"] < ROUNDING,
    )


@claim("P-09")
def message_matrix_has_low_rank(m: Measured) -> Outcome:
    """W_V and W_O are a low-rank factorisation of W_M."""
    values = m.spectra.values["message"]
    smallest = (values[:, -1] / values[:, 0]).min()
    return reproduced(
        f"Random heads have rank c exactly; of GPT-2's 144 heads each has 64 values above {smallest:.3f} of "
        "its largest.",
        more=("Any matrix of that rank splits so, and not in one way only."),
        when=(m.gauge.message_ranks == m.layer.channel).all() and smallest > 1e-3,
    )


@claim("P-10")
def row_is_a_message(m: Measured) -> Outcome:
    """The messages are X W_M, one per row."""
    return reproduced(
        "Row j of X W_M depends on row j of X alone, and equals the factored message to 1e-12.",
        when=m.bias_free.errors["messages"] < ROUNDING and m.bias_free.other_messages < ROUNDING,
    )


@claim("P-11")
def scores_set_the_influence(m: Measured) -> Outcome:
    """The scores set the influence of a message."""
    trained = m.readings.trained["influence"]
    return conditional(
        f"For one message the score decides; in {m.readings.model} the largest weight has the longest "
        f"weighted message in {m.readings.influence} of the rows, by head.",
        more=("What a message adds is its score times the message, so between messages their lengths count too."),
        when=m.rewriting["output"] < ROUNDING and 0.5 < trained.max() < 0.99 if told(trained) else None,
    )


@claim("P-16")
def row_is_the_pattern_sought(m: Measured) -> Outcome:
    """A row of P is the pattern that is searched for."""
    constant, angle = m.readings.trained["constant"], m.readings.trained["angle"]
    return conditional(
        f"By inner product, plus a part that all queries share, which makes {m.readings.constant_range} of "
        f"the variance of {m.readings.model}'s scores, by head.",
        more=(
            "So a row says what its query seeks in some heads, and in others what any query does. Angle and "
            f"score choose the same key in {angle.min():.0%} of the rows or more."
        ),
        when=constant.max() > 0.5 > constant.min() and angle.min() > 0.85 if told(constant, angle) else None,
    )


@claim("P-12")
def sum_of_weighted_messages(m: Measured) -> Outcome:
    """The layer is the sum of scores times messages."""
    return reproduced(
        "The sum of attention times messages is the module without biases, as the post has it, to 1e-12.",
        more=("With biases b_O and b_V W_O are added once (P-21)."),
        when=m.bias_free.errors["sum of messages"] < ROUNDING,
    )


@claim("P-13")
def pattern_matrix_merges_factors(m: Measured) -> Outcome:
    """W_P = W_Q W_K^T."""
    return reproduced(
        f"Rank c; a random gauge changes W_Q by {m.gauge.moved:.1f} of its size and W_P, W_M, b_P and the output by "
        "less than 1e-12.",
        when=(m.gauge.pattern_ranks == m.layer.channel).all()
        and m.gauge.moved > 0.1
        and max(m.gauge.unchanged.values()) < ROUNDING,
    )


@claim("P-14")
def patterns_are_projected_inputs(m: Measured) -> Outcome:
    """The patterns are X W_P."""
    return reproduced(
        "X W_P are the patterns of the module without biases, as the post has it, to 1e-12; with biases a constant "
        "part is added (P-21).",
        when=m.bias_free.errors["patterns"] < ROUNDING,
    )


@claim("P-15")
def logits_are_matches(m: Measured) -> Outcome:
    """The logits are P X^T."""
    return reproduced(
        "P X^T equals QK^T of the module without biases, as the post has it, to 1e-12; for biases see P-21.",
        when=m.bias_free.errors["scores"] < ROUNDING,
    )


@claim("P-17")
def model_space_is_more_interpretable(m: Measured) -> Outcome:
    """Model space makes attention more interpretable."""
    spaces = m.spaces
    return not_testable(
        f"That would need readers; in {m.readings.model} the key with the largest score is nearest to the "
        f"pattern, by angle, in {spaces.nearest_to_pattern:.0%} of the rows.",
        more=(
            "What can be tested is whether the nearest row by angle is what a head attends to. In the head's own "
            f"space the key with the largest score is nearest to the query in {spaces.nearest_to_query:.0%} of "
            f"the rows, and in {spaces.nearest_to_turned_query:.0%} with other factors of the same layer."
        ),
        when=None
        if math.isnan(spaces.nearest_to_query)
        else spaces.nearest_to_pattern > max(spaces.nearest_to_query, spaces.nearest_to_turned_query),
    )


@claim("P-18")
def first_list_uses_an_undefined_name(m: Measured) -> Outcome:
    """The first list of formulas states the layer."""
    printed = m.lists
    others = min(error for name, error in printed.stand_ins.items() if name not in printed.unused)
    return corrected(
        f"The first list uses {', '.join(printed.undefined)}, which it does not define, and defines "
        f"{', '.join(printed.unused)}, which it does not use.",
        more=(
            "With patterns in the place of P its lines give BertSelfAttention to 1e-12; with messages or X they "
            f"are off by {others:.0%} or more. In the second list nothing is missing."
        ),
        when=printed.undefined == ("P",)
        and printed.unused == ("patterns",)
        and printed.stand_ins["patterns"] < ROUNDING
        and others > 0.1
        and printed.second < ROUNDING,
    )


@claim("P-19")
def second_list_is_consistent(m: Measured) -> Outcome:
    """The second list of formulas states the layer."""
    printed = m.equality.gpt2["as printed"]
    return reproduced(
        "All four lines run as written give BertSelfAttention without biases to 1e-12.",
        more=(
            f"On GPT-2's real layers, with biases and a mask, they are off by {printed.min():.0%} to "
            f"{printed.max():.0%} of the output (P-21)."
        ),
        when=m.lists.second < ROUNDING,
    )


@claim("P-20")
def root_of_the_heads_width_is_kept(m: Measured) -> Outcome:
    """The divisor stays sqrt(d_k), although patterns have d coordinates."""
    wrong = m.equality.gpt2["root of the stream's width"]
    return reproduced(
        f"With sqrt(d) in its place GPT-2's outputs change by {wrong.min():.0%} to {wrong.max():.0%}.",
        when=wrong.min() > 0.05 and m.rewriting["output"] < ROUNDING,
    )


@claim("P-21")
def forms_are_equivalent(m: Measured) -> Outcome:
    """Patterns and messages are equivalent to attention as it is usually stated."""
    gpt2, rotary = m.equality.gpt2, m.rotary.errors
    gaps = [*(gap["patterns and messages"] for gap in m.equality.random.values()), gpt2["patterns and messages"].max()]
    return conditional(
        "Exact with constant pattern, output bias, mask and normalised stream; with rotary embeddings one "
        f"W_P is off by {rotary['one W_P']:.2f} in attention.",
        more=(
            "The forms equal GPT-2 and BERT modules to 1e-12. With rotary embeddings one pattern matrix per "
            "offset is exact, and b_K matters."
        ),
        when=max(gaps) < ROUNDING
        and rotary["rotary form"] < 1e-5
        and min(rotary["no b_K"], rotary["one W_P"]) > 0.01
        and min(gpt2[form].min() for form in ("no constant pattern", "no b_V W_O", "as printed")) > 0.01
        and gpt2["no mask"].min() > 0.1,
    )


@claim("P-22")
def merged_form_costs_more(m: Measured) -> Outcome:
    """The merged form costs more."""
    ratios = m.costs.ratios
    return conditional(
        f"For GPT-2's heads it takes {m.costs.merged_short} to {m.costs.merged_long} times the multiply-adds; "
        "for heads wider than $(d+n)/(2d+n)$ of the stream it takes fewer.",
        more=(f"The merged form has {ratios['parameters']:.1f} times the parameters, but half the cache."),
        when=min(ratios["short"], ratios["long"]) > 1 > ratios["wide head"]
        and all(count.counted == count.formula and count.error < ROUNDING for count in m.costs.counts.values()),
    )
