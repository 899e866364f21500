"""The claims of Kamoda's page on GPT-2's attention biases, in its order."""

import numpy as np
from matplotlib import colormaps

from analysis.plotting import style
from book.publish import Outcome, claim, conditional, corrected, not_testable, reproduced
from book.publish.phrases import enumerated
from book.studies.semi_bias.measure import Measured
from book.studies.semi_bias.tilt import range_of_median_head

ROUNDING = 1e-12
OFF = 0.1  # an error beyond this share of the largest value is no rounding


@claim("K-01")
def output_matrix_is_stacked_by_rows(m: Measured) -> Outcome:
    """W_O holds the heads' W_O one under the other."""
    shape = (len(m.sentence.ids), m.mini.weights.model)
    return reproduced(
        f"The rows of W_O in blocks of {m.mini.weights.channel} are the heads' W_O; x is {shape}.",
        when=m.sentence.identities.output_rows == 0,
    )


@claim("K-02")
def input_matrices_stand_side_by_side(m: Measured) -> Outcome:
    """W_Q, W_K and W_V hold the heads' matrices side by side."""
    weights = m.mini.weights
    return reproduced(
        f"Columns of c_attn in blocks of a head's width are each head's W_Q, W_K, W_V; {weights.heads} heads "
        f"of {weights.channel} make the stream's {weights.model}.",
        when=m.sentence.identities.input_columns == 0 and weights.heads * weights.channel == weights.model,
    )


@claim("K-03")
def attention_is_the_modules(m: Measured) -> Outcome:
    """The attention weights are the softmax of scaled scores."""
    return reproduced(
        "Attention equals the transformers module on GPT-2 and gpt2-mini, error below 1e-12.",
        when=m.largest_error("attention") < ROUNDING,
    )


@claim("K-04")
def queries_keys_values_are_the_modules(m: Measured) -> Outcome:
    """Queries, keys and values are affine maps of the input."""
    return reproduced(
        "Queries, keys and values so defined give the module's output, error below 1e-12.",
        when=m.largest_error("output") < ROUNDING,
    )


@claim("K-05")
def heads_are_concatenated(m: Measured) -> Outcome:
    """The layer's output is the concatenation of the heads times W_O, plus b_O."""
    return reproduced(
        "Concatenated heads times W_O plus b_O equal the module's output.",
        when=m.largest_error("output") < ROUNDING and m.sentence.identities.concatenation < ROUNDING,
    )


@claim("K-06")
def heads_are_summed(m: Measured) -> Outcome:
    """The output is also a sum over heads."""
    return reproduced(
        "The sum over heads equals the concatenation, to 1e-12.", when=m.sentence.identities.sum_over_heads < ROUNDING
    )


@claim("K-07")
def value_belongs_to_the_key(m: Measured) -> Outcome:
    """A head sums the values of the keys, where the page prints that of the query."""
    return corrected(
        f"The value is $v(x_j)$; with the printed $v(x_i)$ GPT-2's output is off by "
        f"{m.errors['GPT-2']['value_at_query']:.0%} of its scale.",
        when=m.smallest_error("value_at_query") > OFF and m.largest_error("output") < ROUNDING,
    )


@claim("K-08")
def folded_value_belongs_to_the_key(m: Measured) -> Outcome:
    """The line that writes the values out prints the query's row where it needs the key's."""
    return corrected(
        "x_i must be x_j, as in line 3 (K-07): with the query's own row GPT-2's output is off by "
        f"{m.errors['GPT-2']['value_at_query']:.0%} of its scale.",
        more=(
            "The bias stands behind the sum over j, as the page's next line shows; read so, the line with x_j is "
            "exact below 1e-12."
        ),
        when=m.smallest_error("value_at_query") > OFF and m.largest_error("value_folded") < ROUNDING,
    )


@claim("K-09")
def value_bias_is_an_output_bias(m: Measured) -> Outcome:
    """b_V can be folded into the output bias."""
    return reproduced(
        "b_V folded into the output bias leaves the output unchanged, error below 1e-12.",
        when=m.largest_error("value_folded") < ROUNDING,
    )


@claim("K-10")
def both_matrices_and_biases_merge(m: Measured) -> Outcome:
    """W_V W_O is one matrix per head, and b_VO one bias for all."""
    return reproduced(
        "With W_VO = W_V W_O and b_VO = b_V W_O + b_O, undefined on the page, the line holds to 1e-12 with x_j.",
        more=("The missing index is that of line 3 (K-07). The bias stands behind both sums."),
        when=m.largest_error("bias_outside") < ROUNDING,
    )


@claim("K-11")
def later_keys_get_no_weight(m: Measured) -> Outcome:
    """The mask leaves the weights of the keys up to the query, which sum to 1."""
    return reproduced(
        "Weights of later keys are exactly 0 and rows sum to 1.",
        when=m.sentence.identities.later_keys == 0 and m.sentence.identities.row_sums < ROUNDING,
    )


@claim("K-12")
def score_has_four_parts(m: Measured) -> Outcome:
    """A score is content, key semi-bias and two constants of its row."""
    return reproduced(
        "The four expanded parts sum to the scores, error below 1e-12.", when=m.largest_error("four_terms") < ROUNDING
    )


@claim("K-13")
def key_bias_is_constant_along_rows(m: Measured) -> Outcome:
    """The two parts with b_K do not depend on the key."""
    return reproduced(
        "What b_K adds varies along no row, to 1e-12.", when=m.sentence.identities.key_bias_along_rows < ROUNDING
    )


@claim("K-14")
def softmax_ignores_a_shift(m: Measured) -> Outcome:
    """A constant that is added to a row of scores changes no weight."""
    return reproduced(
        "Adding 3 to every score changes no weight by more than 1e-12.",
        when=m.sentence.identities.shifted_scores < ROUNDING,
    )


@claim("K-15")
def key_bias_cancels(m: Measured) -> Outcome:
    """b_K has no effect on the output, while b_Q has one."""
    return reproduced(
        "The transformers module with b_K = 0 gives the same output, error below 1e-12; "
        f"with b_Q = 0 too, GPT-2's differs by {m.errors['GPT-2']['no_query_bias']:.0%}.",
        when=m.largest_error("no_key_bias") < ROUNDING and m.smallest_error("no_query_bias") > 0.01,
    )


@claim("K-16")
def two_parts_give_the_attention(m: Measured) -> Outcome:
    """Content and semi-bias alone decide the attention."""
    return reproduced(
        "Content and semi-bias alone, over sqrt(c), give the module's attention, error below 1e-12.",
        when=m.largest_error("two_terms") < ROUNDING,
    )


@claim("K-17")
def content_leaves_the_biases_out(m: Measured) -> Outcome:
    """The first part is the similarity of query and key vectors, once their biases are taken away."""
    found = m.sentence.identities
    return reproduced(
        "The term is the inner product of query and key without their biases, to 1e-12.",
        more=(
            "It is a similarity in that sense: a large product of two vectors, not a symmetric measure of two "
            f"tokens. In gpt2-mini content less its transpose has {found.content_asymmetry:.0%} of the norm of "
            "content. With the biases that belong to the page's query and key, the product differs by "
            f"{found.content_with_biases:.0%} of its scale; these are the other terms."
        ),
        when=found.content_without_biases < ROUNDING,
    )


@claim("K-18")
def semi_bias_is_the_same_for_every_query(m: Measured) -> Outcome:
    """What b_Q adds depends on the key alone."""
    return reproduced(
        "The rest of the scores is the same for every query, to 1e-12, and dropping b_Q moves "
        f"GPT-2's output by {m.errors['GPT-2']['no_query_bias']:.0%}.",
        when=m.sentence.identities.query_bias_across_queries < ROUNDING and m.smallest_error("no_query_bias") > 0.01,
    )


@claim("K-19")
def positions_are_learned(m: Measured) -> Outcome:
    """GPT-2's positions are a table of learned parameters."""
    last = m.table.norm_last / m.table.norm_median
    return reproduced(
        f"wpe is a table of 1,024 x 768 parameters; its last row, hardly ever trained, has {last:.0%} "
        "of the median norm.",
        when=(m.table.places, m.table.width) == (1024, 768) and last < 0.1,
    )


@claim("K-20")
def heat_map_of_positions_is_nearly_blank(m: Measured) -> Outcome:
    """The heat map of the table shows a few stripes."""
    return reproduced(
        f"The heat map is nearly blank: {m.table.pale:.0%} of entries lie within a tenth of its scale, "
        "the rest in stripes.",
        when=m.table.pale > 0.6,
    )


@claim("K-21")
def table_can_be_interpreted(m: Measured) -> Outcome:
    """Not much can be interpreted from the heat map, but its principal components say a lot."""
    return reproduced(
        f"The heat map is nearly blank; three principal axes carry {m.table.pc3:.0%} of the table: a circle, "
        f"and a ramp with rank correlation {m.table.pc_ramp:.2f} with position.",
        more=(
            f"Of the heat map's entries {m.table.pale:.0%} lie within a tenth of its scale. The page goes on to "
            "what can be computed from the table, and so does this chapter."
        ),
        when=m.table.pale > 0.6 and m.table.pc3 > 0.85 and m.table.pc_ramp > 0.95,
    )


@claim("K-22")
def map_is_that_of_the_module(m: Measured) -> Outcome:
    """The map of b_Q W_K^T P^T is what the module computes key by key."""
    ranges = np.ptp(m.tilt.raw, axis=1)
    return reproduced(
        f"{m.tilt.heads} x {m.table.places:,} values from the parameters equal the transformers module's with "
        "every key formed, error below 1e-12.",
        more=(f"Heads range over {ranges.min():.0f} to {ranges.max():.0f} nats, by the formula."),
        when=m.errors["GPT-2"]["map"] < ROUNDING,
    )


@claim("K-23")
def purple_is_negative_and_green_positive(m: Measured) -> Outcome:
    """The map is purple where the semi-bias is negative, at the left, and green where it is positive."""
    rising = m.tilt.raw[list(m.tilt.rising_heads)]
    early, late = rising[:, m.tilt.marks.early], rising[:, m.tilt.marks.late]
    return reproduced(
        "The map is purple below 0 and green above; "
        f"{len(rising)} heads are negative at position 100 and positive at 1,000.",
        when=_goes_from_purple_to_green(style.SCORE_CMAP) and (early < 0).all() and (late > 0).all(),
    )


def _goes_from_purple_to_green(name: str) -> bool:
    low, high = (colormaps[name](value) for value in (0.1, 0.9))
    return low[1] < min(low[0], low[2]) and high[1] > max(high[0], high[2])


@claim("K-24")
def later_keys_score_higher(m: Measured) -> Outcome:
    """The semi-bias gives close keys larger weights than distant ones."""
    near, uniform = np.median(m.locality.mass[1, 1, 0]), m.locality.uniform[1]
    first = m.first_key
    return conditional(
        f"T^p, tokens as wide as a position, rises in {len(m.tilt.rising_heads)} of 12 heads, but position 0 "
        f"weighs most up to query {first.first_low} to {first.first_high}.",
        more=(
            f"In head 11, where the rise is weak, up to {first.first_weak}; head 5 falls. With tokens twice as wide "
            f"position 0 never weighs most in head {first.first_wide_never}, and in the others up to query "
            f"{first.first_wide_least} to {first.first_wide_high}. Over all queries the "
            f"semi-bias puts {near:.0%} of the weight on the nearest 50 keys, where equal weights put "
            f"{uniform:.1%}."
        ),
        when=len(m.tilt.rising_heads) == 11
        and m.tilt.falling_heads == (5,)
        and near > 2 * uniform
        and 0 < first.first_low <= first.first_high < m.table.places / 2
        and (first.until_wide < first.until_without_tokens)[list(m.tilt.rising_heads)].all(),
    )


@claim("K-25")
def semi_bias_alone_joins_no_pieces(m: Measured) -> Outcome:
    """The semi-bias supports detokenization."""
    alone, both = (np.median(m.locality.mass[1, 0, part]) for part in (0, 2))
    return conditional(
        f"Not by the semi-bias alone: it puts {alone:.0%} of the weight on the nearest 3 keys, and with "
        f"position against position {both:.0%}.",
        more=(f"More than a third only in heads {' and '.join(enumerated(m.locality.local_heads).rsplit(', ', 1))}."),
        when=alone < 0.1 and m.locality.local_heads == (3, 4, 7),
    )


@claim("K-27")
def token_norm_and_semi_bias_are_related(m: Measured) -> Outcome:
    """GPT-2's token norms are related to its tokens' semi-bias; the nearest test is on gpt2-mini."""
    if m.tokens.gpt2 is not None:
        values, low, high = m.tokens.gpt2.correlations
        return reproduced(
            f"In GPT-2, {len(m.tokens.gpt2.norm):,} tokens and {len(values)} heads, correlations are "
            f"{values.min():.2f} to {values.max():.2f}; no interval holds 0.",
            when=_away_from_0(low, high),
        )
    values, low, high = m.tokens.correlations
    return not_testable(
        f"Needs GPT-2's token table; the same code on gpt2-mini gives correlations of {values.min():.2f} to "
        f"{values.max():.2f}, and no interval holds 0.",
        more=(f"These are {len(m.mini.tokens):,} tokens and {len(values)} heads."),
        when=_away_from_0(low, high),
    )


def _away_from_0(low: np.ndarray, high: np.ndarray) -> bool:
    return bool(((low > 0) | (high < 0)).all())


@claim("K-28")
def correlation_is_positive_in_most_heads(m: Measured) -> Outcome:
    """The correlation is positive in most heads of GPT-2; on gpt2-mini it is, until frequency is held equal."""
    if m.tokens.gpt2 is not None:
        low, heads = m.tokens.gpt2.correlations[1], len(m.tokens.gpt2.scores)
        return reproduced(
            f"In GPT-2 {(low > 0).sum()} of {heads} heads are positive, intervals above 0.",
            when=(low > 0).sum() > heads / 2,
        )
    count, heads, tokens, seeds = m.tokens.tok_positive, m.mini.weights.heads, m.tokens, m.endings
    standard_error = 1 / np.sqrt(len(m.mini.tokens) - 3)
    return not_testable(
        f"Needs GPT-2's token table; in gpt2-mini the correlation is positive in {count} of {heads} heads, and among "
        f"tokens of equal frequency in {tokens.tok_partial_positive}.",
        more=(
            f"Over its training seeds it is in {seeds.end_positive_low} to {seeds.end_positive_high} heads, at equal "
            f"frequency in {seeds.end_partial_low} to {seeds.end_partial_high}. In the bundled seed the correlations "
            f"at equal frequency are {tokens.tok_partial_low:.2f} to {tokens.tok_partial_high:.2f}, all beyond "
            "five standard errors."
        ),
        when=count > heads / 2 > tokens.tok_partial_positive
        and seeds.end_positive_low > heads / 2
        and np.abs(tokens.at_equal_frequency).min() > 5 * standard_error,
    )


@claim("K-29")
def layer_reads_the_normalised_sum(m: Measured) -> Outcome:
    """The first layer reads LN(e + p), not p."""
    raw, folded, over_sigma = map(range_of_median_head, (m.tilt.raw, m.tilt.folded, m.tilt.over_sigma))
    shrunk = np.abs(m.tilt.folded).max(axis=1) < np.abs(m.tilt.raw).max(axis=1)
    return corrected(
        f"Layer 0 reads LN(e + p): folding shrinks the median range from {raw:.0f} to {folded:.1f} nats, and "
        f"dividing by sigma(p) restores it to {over_sigma:.0f}.",
        more=("The six terms of LN(e + p) are exact below 1e-12."),
        when=m.largest_error("six_terms") < ROUNDING and shrunk.all(),
    )


@claim("K-30")
def scores_are_divided_by_the_root_of_the_width(m: Measured) -> Outcome:
    """Scores without 1 / sqrt(c) do not give the attention."""
    return corrected(
        "Scores need 1 / sqrt(64): without it a weight of GPT-2's is off by "
        f"{m.errors['GPT-2']['two_terms_unscaled']:.2f}, with it by less than 1e-12.",
        more=("By its formula the figure is 8 times what the softmax reads."),
        when=m.smallest_error("two_terms_unscaled") > OFF and m.largest_error("two_terms") < ROUNDING,
    )
