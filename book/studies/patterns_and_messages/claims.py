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
    return reproduced("Concatenated heads times W_O equal BertSelfAttention with its projection to 1e-12 (no biases).",
                      when=m.bias_free.errors["concatenation"] < ROUNDING)


@claim("P-02")
def head_projects_three_inputs(m: Measured) -> Outcome:
    """A head is the attention of three projected inputs."""
    return reproduced("Three different inputs with one projection each give torch's MultiheadAttention to 1e-12.",
                      when=m.bias_free.errors["cross-attention"] < ROUNDING)


@claim("P-03")
def scaled_dot_product(m: Measured) -> Outcome:
    """Attention is softmax(Q K^T / sqrt(d_k)) V."""
    return reproduced("softmax(QK^T / sqrt(d')) V equals torch's scaled_dot_product_attention to 1e-12.",
                      when=m.bias_free.errors["torch's attention"] < ROUNDING)


@claim("P-04")
def sum_replaces_concatenation(m: Measured) -> Outcome:
    """The layer is the sum over heads of head W_O_h."""
    return reproduced(
        "The sum over heads of head W_O_h equals the concatenation to 1e-12, also in GPT-2's twelve layers with "
        "biases.",
        when=m.bias_free.errors["sum and concatenation"] < ROUNDING
        and m.equality.gpt2["sum over heads"].max() < ROUNDING)


@claim("P-05")
def no_concatenation_needed(m: Measured) -> Outcome:
    """Attention needs no concatenation."""
    return reproduced("The module's output comes out to 1e-12 with no tensor that holds two heads side by side.",
                      when=m.bias_free.errors["sum over heads"] < ROUNDING)


@claim("P-06")
def one_input_for_three(m: Measured) -> Outcome:
    """X may be written for queries, keys and values."""
    return conditional(
        "For self-attention. With different inputs queries match k's rows against patterns and messages come from v; "
        "the same X for all three is another function.",
        when=m.bias_free.errors["cross-attention"] < ROUNDING and m.bias_free.one_input > 0.1)


@claim("P-07")
def values_move_out(m: Measured) -> Outcome:
    """The values, X W_V W_O, can be moved out of the attention."""
    return reproduced("X W_V W_O taken before the attention gives the module's output to 1e-12.",
                      when=m.bias_free.errors["values first"] < ROUNDING)


@claim("P-08")
def scores_of_a_head(m: Measured) -> Outcome:
    """The scores are softmax(X W_Q (X W_K)^T / sqrt(d_k))."""
    return reproduced(
        "softmax(X W_Q (X W_K)^T / sqrt(d')) equals the module's attention to 1e-12; these are scores in the post's "
        "sense, after the softmax.", when=m.bias_free.errors["attention"] < ROUNDING)


@claim("P-09")
def message_matrix_has_low_rank(m: Measured) -> Outcome:
    """W_V and W_O are a low-rank factorisation of W_M."""
    values = m.spectra.values["message"]
    smallest = (values[:, -1] / values[:, 0]).min()
    return reproduced(
        f"Rank exactly d' in random heads; in GPT-2's 144 heads 64 values above {smallest:.3f} of the largest. Any "
        "matrix of that rank splits so, not uniquely.",
        when=(m.gauge.message_ranks == m.layer.channel).all() and smallest > 1e-3)


@claim("P-10")
def row_is_a_message(m: Measured) -> Outcome:
    """The messages are X W_M, one a row."""
    return reproduced("Row j of X W_M depends on row j of X alone, and equals the factored message to 1e-12.",
                      when=m.bias_free.errors["messages"] < ROUNDING and m.bias_free.other_messages < ROUNDING)


@claim("P-11")
def scores_set_the_influence(m: Measured) -> Outcome:
    """The scores set the influence of a message."""
    trained, control = m.readings.trained["influence"], m.readings.control["influence"]
    return conditional(
        f"Together with the message's length: in {m.readings.model} the largest weight has the longest weighted "
        f"message in {m.readings.influence} of the rows, by head (control {m.readings.influence_control}).",
        when=trained.max() < 0.99 and trained.min() > control.max() if told(trained, control) else None)


@claim("P-16")
def row_is_the_pattern_sought(m: Measured) -> Outcome:
    """A row of P is the pattern that is searched for."""
    constant, angle = m.readings.trained["constant"], m.readings.trained["angle"]
    control = m.readings.control["constant"]
    return conditional(
        f"By inner product, plus a part that all queries share: that part makes {m.readings.constant_range} of the "
        f"variance of {m.readings.model}'s scores (control at most {m.readings.constant_control}). Angle and score "
        f"choose the same key in {angle.min():.0%} of the rows or more.",
        when=constant.max() > 0.5 > control.max() and angle.min() > 0.85 if told(constant, angle, control) else None)


@claim("P-12")
def sum_of_weighted_messages(m: Measured) -> Outcome:
    """The layer is the sum of scores times messages."""
    return conditional(
        "The sum of attention times messages is the module without biases to 1e-12; with biases b_O and b_V W_O are "
        "added once.",
        when=m.bias_free.errors["sum of messages"] < ROUNDING and m.rewriting["output"] < ROUNDING
        and m.equality.gpt2["no b_V W_O"].min() > 0.01)


@claim("P-13")
def pattern_matrix_merges_factors(m: Measured) -> Outcome:
    """W_P = W_Q W_K^T."""
    return reproduced(
        f"Rank d'; a random gauge changes W_Q by {m.gauge.moved:.1f} of its size and W_P, W_M, c and the output by "
        "less than 1e-12.",
        when=(m.gauge.pattern_ranks == m.layer.channel).all() and m.gauge.moved > 0.1
        and max(m.gauge.unchanged.values()) < ROUNDING)


@claim("P-14")
def patterns_are_projected_inputs(m: Measured) -> Outcome:
    """The patterns are X W_P."""
    left_out = m.equality.gpt2["no constant pattern"].min()
    return conditional(
        "Without biases. With them the constant part is added, whose scores are the semi-bias to 1e-12; leaving it out "
        f"changes GPT-2's layers by {left_out:.0%} or more.",
        when=m.bias_free.errors["patterns"] < ROUNDING and m.rewriting["semi-bias"] < ROUNDING and left_out > 0.01)


@claim("P-15")
def logits_are_matches(m: Measured) -> Outcome:
    """The logits are P X^T."""
    return reproduced(
        "P X^T equals QK^T to 1e-12 without biases; with them it differs by a constant in each row, which the softmax "
        "drops.",
        when=m.bias_free.errors["scores"] < ROUNDING and m.equality.gpt2["module without b_K"].max() < ROUNDING)


@claim("P-17")
def model_space_is_more_interpretable(m: Measured) -> Outcome:
    """Model space makes attention more interpretable."""
    to_pattern, to_query = m.gauge.nearest_to_pattern, m.gauge.nearest_to_query
    return not_testable(
        "That would need readers. What can be tested is whether a reading depends on the factorisation. With the "
        f"factors of {m.readings.model} changed at random and its layers unchanged, the key nearest to a pattern by "
        "angle stays the same in every row; the key nearest to a query in its head's own space changes in "
        f"{1 - to_query:.0%} of the rows.",
        when=None if math.isnan(to_query) else to_pattern == 1 and to_query < 0.9)


@claim("P-18")
def first_list_uses_an_undefined_name(m: Measured) -> Outcome:
    """The first list of formulas states the layer."""
    printed = m.lists
    others = min(error for name, error in printed.stand_ins.items() if name not in printed.unused)
    return corrected(
        f"The first list uses {', '.join(printed.undefined)}, which it does not define, and defines "
        f"{', '.join(printed.unused)}, which it does not use; in the second nothing is missing. With patterns in the "
        f"place of P its lines give BertSelfAttention to 1e-12; with messages or X they are off by {others:.0%} or "
        "more.",
        when=printed.undefined == ("P",) and printed.unused == ("patterns",)
        and printed.stand_ins["patterns"] < ROUNDING and others > 0.1 and printed.second < ROUNDING)


@claim("P-19")
def second_list_is_consistent(m: Measured) -> Outcome:
    """The second list of formulas states the layer."""
    return reproduced("All four lines run as written give BertSelfAttention without biases to 1e-12.",
                      when=m.lists.second < ROUNDING)


@claim("P-20")
def root_of_the_heads_width_is_kept(m: Measured) -> Outcome:
    """The divisor stays sqrt(d_k), although patterns have d coordinates."""
    wrong = m.equality.gpt2["root of the stream's width"]
    return reproduced(f"With sqrt(d) in its place GPT-2's outputs change by {wrong.min():.0%} to {wrong.max():.0%}.",
                      when=wrong.min() > 0.05 and m.rewriting["output"] < ROUNDING)


@claim("P-21")
def forms_are_equivalent(m: Measured) -> Outcome:
    """Patterns and messages are equivalent to attention as it is usually stated."""
    gpt2, rotary = m.equality.gpt2, m.rotary.errors
    gaps = [*(gap["patterns and messages"] for gap in m.equality.random.values()), gpt2["patterns and messages"].max()]
    return conditional(
        "Exact with constant part, output bias, mask and the normalised stream as X (1e-12 in GPT-2 and BERT modules). "
        f"With rotary embeddings one W_P is off by {rotary['one W_P']:.2f} in attention, one per offset is exact, and "
        "b_K matters.",
        when=max(gaps) < ROUNDING and rotary["rotary form"] < 1e-5 and min(rotary["no b_K"], rotary["one W_P"]) > 0.01
        and gpt2["no mask"].min() > 0.1)


@claim("P-22")
def merged_form_costs_more(m: Measured) -> Outcome:
    """The merged form costs more."""
    ratios = m.costs.ratios
    return conditional(
        f"For GPT-2's heads {m.costs.merged_short} to {m.costs.merged_long} times the multiply-adds and "
        f"{ratios['parameters']:.1f} times the parameters, but half the cache; cheaper for heads wider than "
        "(d+n)/(2d+n) of the stream.",
        when=min(ratios["short"], ratios["long"]) > 1 > ratios["wide head"]
        and all(count.counted == count.formula and count.error < ROUNDING for count in m.costs.counts.values()))
