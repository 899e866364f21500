"""The verdicts on the claims of the document on attention as a weighted mean."""

import numpy as np

from book.publish import Outcome, claim, conditional, not_testable, reproduced
from book.studies.weighted_mean.identities import ONE_MAP
from book.studies.weighted_mean.measure import Measured

# What the document prints for the word 'bab'.
PRINTED_ROWS = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0]])
PRINTED_MEAN = np.array([1, 2, 0]) / 3
PRINTED_WEIGHTS = np.array([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
PRINTED_PRODUCT = np.array([[0, 1, 0], [1 / 2, 1 / 2, 0], [1 / 3, 2 / 3, 0]])
ROUNDING = 1e-12


def differ(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference between two arrays."""
    return float(np.abs(one - other).max())


@claim("M-01")
def weighted_mean_of_values(m: Measured) -> Outcome:
    """Attention is a weighted mean of the inputs, with a weight on each prior token."""
    return conditional(
        "Where W_V W_O = I and the biases vanish it is (M-24); else a map follows: a random layer's first "
        "row is not its input.",
        more=(
            "That condition is the chapter's own, given under its technical details. The weights of a random "
            "layer are positive and sum to 1 over the position itself and those before it; what is averaged are "
            "values, inputs after a map that can be moved out of the mean (M-21). A mean of one input is that "
            f"input; the first output row is off by {m.random.first_row_off:.1f}."
        ),
        when=m.random.visible.min() > 0
        and m.random.future.max() == 0
        and m.random.errors["row sums"] < ROUNDING
        and max(m.mean_layer.error, m.mean_layer.one_head_error) < ROUNDING
        and m.random.first_row_off > 0.1,
    )


@claim("M-02")
def mean_is_sum_over_count(m: Measured) -> Outcome:
    """The mean of the rows is their sum over N."""
    return reproduced(
        "The mean of the rows equals the sum over N on random input.", when=m.random.errors["mean"] < 1e-15
    )


@claim("M-03")
def word_is_three_one_hot_rows(m: Measured) -> Outcome:
    """The word 'bab' becomes three one-hot rows."""
    return reproduced(
        "One-hot rows of b, a, b in the alphabet a, b and one more letter.",
        when=np.array_equal(m.word.rows, PRINTED_ROWS),
    )


@claim("M-04")
def mean_counts_letters(m: Measured) -> Outcome:
    """The mean of the rows of 'bab' holds the frequencies of its letters."""
    return reproduced(
        "The mean of the three rows is (1/3, 2/3, 0).", when=differ(m.word.rows.mean(0), PRINTED_MEAN) < 1e-15
    )


@claim("M-05")
def uniform_weights_are_possible(m: Measured) -> Outcome:
    """There are parameters with which all weights are uniform."""
    cases = m.cases.values()
    count = sum(case.uniform for case in cases)
    return reproduced(
        "GPT2Attention with W_Q = W_K = 0 gives 1/i exactly.",
        more=(f"Of the {len(cases)} cases above {count} are uniform, and they are those whose two sizes vanish."),
        when=m.mean_layer.attention_error < ROUNDING
        and 0 < count < len(cases)
        and all((max(case.content, case.constant) < 1e-9) == case.uniform for case in cases),
    )


@claim("M-06")
def shape_is_kept(m: Measured) -> Outcome:
    """Attention returns as many rows of the same width as it reads: a mean for each prefix, not one in all."""
    shape_in, shape_out = m.mean_layer.shapes
    return reproduced(
        "Shape in equals shape out, on the example, on random layers and in the module.",
        when=shape_in == shape_out and m.word.product.shape == m.word.rows.shape and m.mean_layer.rows_apart > 1e-3,
    )


@claim("M-07")
def rows_are_running_means(m: Measured) -> Outcome:
    """Row i of the output is the mean of the first i rows."""
    return reproduced(
        "Running means and the triangular product agree to 1e-12 on random input.",
        when=m.random.errors["running means"] < ROUNDING,
    )


@claim("M-08")
def product_is_as_printed(m: Measured) -> Outcome:
    """The output for 'bab' has the three printed rows."""
    return reproduced("The three printed rows come out.", when=differ(m.word.product, PRINTED_PRODUCT) < 1e-15)


@claim("M-09")
def weights_are_as_printed(m: Measured) -> Outcome:
    """The weights are 1/i for j up to i and 0 beyond."""
    return reproduced("Entries 1/i for j up to i and 0 beyond.", when=np.array_equal(m.word.weights, PRINTED_WEIGHTS))


@claim("M-10")
def last_row_is_the_mean(m: Measured) -> Outcome:
    """The last row of the weights gives the mean of all rows, each with weight 1/N."""
    last = m.word.weights[-1]
    return reproduced(
        "The last row times X is the mean of X, each weight 1/3.",
        when=differ(last @ m.word.rows, m.word.rows.mean(0)) < 1e-15 and (last == 1 / 3).all(),
    )


@claim("M-11")
def product_equals_loop(m: Measured) -> Outcome:
    """The output is the product of the weights with the inputs."""
    return reproduced(
        "WX equals the loop over prefixes on random input.", when=m.random.errors["loop over prefixes"] < ROUNDING
    )


@claim("M-12")
def rows_sum_to_one(m: Measured) -> Outcome:
    """Every row of the weights sums to 1."""
    least, most = m.dropout.row_sums
    return reproduced(
        "They do, to 1e-12, after the softmax, which is how the document's weights are computed.",
        more=(f"Outside of that it fails: with a tenth of the weights dropped, rows sum to {least:.2f} to {most:.2f}."),
        when=m.random.errors["row sums"] < ROUNDING,
    )


@claim("M-13")
def first_listing_runs(m: Measured) -> Outcome:
    """The first listing computes the weights and the output."""
    return reproduced(
        "The numpy expression gives the printed W, and W X the printed Y.",
        when=differ(m.word.listing_weights, PRINTED_WEIGHTS) < 1e-15
        and differ(m.word.listing_product, PRINTED_PRODUCT) < 1e-15,
    )


@claim("M-14")
def values_have_a_bias(m: Measured) -> Outcome:
    """The values are X W_V + b_V."""
    return reproduced(
        "Values X W_V + b_V, head by head, reproduce the module's output with M-15.",
        when=m.folding.random["gpt2"]["sum over heads"] < ROUNDING,
    )


@claim("M-15")
def output_is_projected_mean(m: Measured) -> Outcome:
    """The output is (W V) W_O + b_O."""
    gaps = [gap["sum over heads"] for gap in (*m.folding.random.values(), *m.folding.one_head.values())]
    return reproduced(
        "The modules' output with one head, to 1e-12; with several it is the sum over heads of (A_h V_h) W_O_h (random "
        "layers and GPT-2).",
        when=max(*gaps, m.folding.gpt2["sum over heads"].max(), m.random.errors["sum over heads"]) < ROUNDING,
    )


@claim("M-16")
def many_have_no_output_projection(m: Measured) -> Outcome:
    """Many implementations have no output projection."""
    counts = m.survey.counts
    return not_testable(
        f"That would need a census of implementations; in one library, transformers {counts['transformers']}, "
        f"{counts['none']} of {counts['modules']} attention modules has none.",
        more=(
            f"{counts['beside']} of them keep it in another class. Which implementations are meant the chapter "
            "does not say; attention with one head is often written without the projection."
        ),
        when=counts["none"] < 0.01 * counts["modules"],
    )


@claim("M-17")
def output_projection_follows_concatenation(m: Measured) -> Outcome:
    """The output projection serves after the concatenation of the heads."""
    return reproduced(
        "Concatenation times the stacked W_O equals the sum over heads to 1e-12.",
        when=m.random.errors["concatenation"] < ROUNDING,
    )


@claim("M-18")
def chain_of_equalities(m: Measured) -> Outcome:
    """W (X W_V + b_V) W_O + b_O is (W X) W_V W_O + b_V W_O + b_O."""
    missed = m.folding.gpt2[ONE_MAP].min()
    return reproduced(
        "For the document's one head the chain is exact, to 1e-12.",
        more=(
            f"With several heads each needs its own W: one averaged W misses GPT-2's output by {missed:.0%} or more."
        ),
        when=max(gap[ONE_MAP] for gap in m.folding.one_head.values()) < ROUNDING,
    )


@claim("M-19")
def output_from_weighted_inputs(m: Measured) -> Outcome:
    """The output can be written in terms of the weighted inputs."""
    return reproduced(
        "Output from weighted inputs equals the modules (random GPT-2 and BERT, twelve real layers) to 1e-12.",
        when=m.folding.rewriting_error() < ROUNDING,
    )


@claim("M-20")
def weighted_bias_is_the_bias(m: Measured) -> Outcome:
    """W b_V = b_V, because the rows sum to 1."""
    return reproduced(
        "With rows that sum to 1 the folded forms equal the modules to 1e-12.",
        more=(
            f"The condition is needed: with dropped weights they are off by {m.dropout.error:.2f}, by exactly the "
            "missing term."
        ),
        when=m.folding.rewriting_error() < ROUNDING and m.dropout.error > 0.01 and m.dropout.repaired < ROUNDING,
    )


@claim("M-21")
def weighting_inputs_or_values(m: Measured) -> Outcome:
    """Weighting the transformed inputs is the same as weighting the original inputs."""
    return reproduced(
        "Weighting inputs then mapping equals mapping then weighting, to 1e-12, head by head.",
        when=m.random.errors["weighted inputs"] < ROUNDING,
    )


@claim("M-22")
def value_bias_is_not_needed(m: Measured) -> Outcome:
    """The value bias can be folded into the output bias."""
    return reproduced(
        "The modules with b_V = 0 and b_O = b_VO give the same output to 1e-12, with one head and with several.",
        more=("With several heads b_VO sums over heads. It is the theorem of K-09."),
        when=m.folding.rewriting_error() < ROUNDING,
    )


@claim("M-23")
def folding_saves_multiplications(m: Measured) -> Outcome:
    """The identity reduces multiplications."""
    return conditional(
        f"For one head of full width merging multiplies the work by {m.merging.one_head:g}; for twelve heads, "
        f"which the chapter prepares for, by {m.merging.twelve_heads:g}.",
        more=(
            "Folding b_V alone saves additions only. P-22 says the opposite of this claim, and depends on the "
            "same condition."
        ),
        when=m.merging.one_head < 1 < m.merging.twelve_heads,
    )


@claim("M-24")
def layer_can_be_a_mean(m: Measured) -> Outcome:
    """W_V W_O = I and a zero effective bias return only the uniformly weighted inputs."""
    return reproduced(
        "GPT2Attention gives the running means to 1e-12, with the document's head of full width and with "
        "three heads of a third.",
        more=(
            f"Two of these three reach rank {m.mean_layer.narrow_rank} of 12 only. The stream behind the layer "
            "adds the input."
        ),
        when=max(m.mean_layer.error, m.mean_layer.one_head_error) < ROUNDING,
    )


@claim("M-25")
def second_listing_runs(m: Measured) -> Outcome:
    """The second listing, with VO = I and bo = 0, returns the running means."""
    return reproduced(
        "With VO = I and bo = 0 the expression returns the running means; with bo = 1 it does not.",
        when=differ(m.word.folded, PRINTED_PRODUCT) < 1e-15 < differ(m.word.shifted, PRINTED_PRODUCT),
    )
