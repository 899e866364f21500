"""The verdicts on what the paper says of the information stream."""

import numpy as np

from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.publish.phrases import enumerated
from book.studies.bert_stream.controls import LARGE
from book.studies.bert_stream.measure import Measured
from book.studies.shared.nearest_classifier import NEAREST


@claim("B-87")
def columns_are_counted_by_block(m: Measured) -> Outcome:
    """Definition (5.3) says in which block a column of a concatenation lies, and where in it."""
    return corrected(
        "i = floor((k-1)/s) + 1, column ((k-1) mod s) + 1, right for all 768 columns. The printed i is a whole number "
        f"for {m.algebra.whole} of 768.",
        when=m.algebra.wrong_columns == 0 and m.algebra.whole == 0,
    )


@claim("B-88")
def concatenation_is_horizontal(m: Measured) -> Outcome:
    """Conc puts its blocks side by side."""
    return reproduced(
        "Conc is horizontal concatenation, by definition and in all 768 columns.", when=m.algebra.wrong_columns == 0
    )


@claim("B-89")
def product_enters_the_blocks(m: Measured) -> Outcome:
    """A product with a concatenation is the concatenation of the products."""
    return reproduced("Proved; random matrices agree to 1e-13.", when=m.algebra.product_error < 1e-13)


@claim("B-90")
def rows_are_counted_by_block(m: Measured) -> Outcome:
    """Definition (5.6) says in which block a row of a transposed concatenation lies, and where in it."""
    return corrected(
        "As B-87 with rows for columns; right for all 768 rows.",
        when=m.algebra.wrong_rows == 0 and m.algebra.whole == 0,
    )


@claim("B-91")
def transposed_concatenation_is_vertical(m: Measured) -> Outcome:
    """The transposed Conc puts its blocks one under another."""
    return reproduced(
        "The transposed Conc is vertical concatenation, by definition and in all 768 rows.",
        when=m.algebra.wrong_rows == 0,
    )


@claim("B-92")
def product_of_concatenations_is_a_sum(m: Measured) -> Outcome:
    """A concatenation times a transposed one is the sum of the products of their blocks."""
    return reproduced("Proved; random matrices agree to 1e-13.", when=m.algebra.sum_error < 1e-13)


@claim("B-93")
def attention_concatenates_its_heads(m: Measured) -> Outcome:
    """The result of attention is the concatenation of S V, with one S for all heads."""
    off = min(m.heads.without_output, m.heads.one_map)
    return corrected(
        "With a map for each head, W_O and b_O the formula equals the model's module to 1e-4. Without W_O and b_O it "
        f"is off by {m.heads.without_output:.2f} of its size, with one map for all heads by {m.heads.one_map:.2f}.",
        when=max(m.heads.errors.values()) < 1e-4 and off > 0.5,
    )


@claim("B-94")
def layer_norm_is_linear(m: Measured) -> Outcome:
    """Skip connection and LayerNorm are the linear transformation (5.9)."""
    norm = m.normalisation
    return corrected(
        'With the vector of ones on the right side, gain and bias, the formula is exact to 1e-10. The word "linear" '
        "needs correcting as well: linear for given deviations, which hold for one input only. LN(2x) = LN(x), and "
        f"additivity fails by {norm.additivity_error:.2f} of its size.",
        when=norm.formula_error < 1e-10 and norm.doubled_error < 1e-10 and norm.additivity_error > 0.2,
    )


@claim("B-95")
def layer_norm_writes_probabilities(m: Measured) -> Outcome:
    """LayerNorm projects rows into spaces of probabilities."""
    norm = m.normalisation
    return not_reproduced(
        f"The rows that BERT writes sum to anything from {norm.written_sums[0]:.1f} to {norm.written_sums[1]:.1f} and "
        f"have {norm.negative_written:.0%} negative entries; plain rows sum to 0, have squared length d, and "
        f"{norm.negative:.0%} of their entries are negative.",
        when=norm.largest_row_sum < 1e-9 and norm.negative_written > 0.2 and norm.negative > 0.2,
    )


@claim("B-96")
def layer_norm_changes_little(m: Measured) -> Outcome:
    """LayerNorm changes values slightly and adds no context."""
    change = m.normalisation.change
    return conditional(
        f"Token-wise, so it brings no context: exact. But it changes rows by {change['trained']:.2f} of their length "
        f"in the trained model; only in the control is that slight ({change['control']:.2f}).",
        when=m.normalisation.other_rows == 0 and change["trained"] > 0.2 and change["control"] < 0.1,
    )


@claim("B-97")
def blocks_stay_apart_until_the_perceptron(m: Measured) -> Outcome:
    """After skip connection and LayerNorm, a block depends on its head's output and on its own input only."""
    alone = m.coupling.off_diagonal("trained", "LN")
    joined = {network: m.coupling.off_diagonal(network, "W_O and LN") for network in ("trained", "control")}
    exact = m.normalisation.jacobian_error < 1e-10 and m.normalisation.third_singular < 1e-9
    full = all(abs(share - m.coupling.mixed).max() < 0.02 for share in joined.values())
    return conditional(
        f"True without LayerNorm and W_O. LayerNorm alone puts {alone.max():.1%} of the Jacobian off the blocks' "
        f"diagonal (rank two), W_O at least {joined['trained'].min():.1%}, trained or not; fully mixed is "
        f"{m.coupling.mixed:.1%}.",
        when=exact and full and m.coupling.off_diagonal("trained", "skip").max() < 1e-6 and alone.min() > 1e-3,
    )


@claim("B-98")
def perceptron_takes_a_maximum(m: Measured) -> Outcome:
    """The MLP's activation is the maximum with 0."""
    cosine = m.perceptron.relu_cosine
    return corrected(
        f"BERT has GELU. With ReLU in all layers the sentence has a cosine of {cosine['trained']:.3f} with its own "
        f"(control {cosine['control']:.3f}); the mask form is exact for both.",
        when=m.perceptron.mask_error < 1e-10 and cosine["trained"] < 0.99,
    )


@claim("B-99")
def first_matrix_acts_by_blocks(m: Measured) -> Outcome:
    """The product with W_1 is the sum of the products of its blocks."""
    return reproduced(
        "W_1 by blocks agrees with the product in the real layer to 1e-10.", when=m.perceptron.blocks_error < 1e-10
    )


@claim("B-100")
def perceptron_is_a_sum_over_blocks(m: Measured) -> Outcome:
    """The MLP is a sum over blocks, since the maximum only selects."""
    error, additive = m.sums.product_error["trained"], m.sums.additive["trained"]
    interaction = m.sums.interaction["trained"]
    return not_reproduced(
        f"Y W_1 W_2 with the biases is off by {error.min():.1f} to {error.max():.1f} times the MLP's size. The "
        f"best sum of any functions of single blocks explains {additive.min():.0%} to {additive.max():.0%} (control "
        f"{m.sums.additive['control'].mean():.0%}); interactions of two blocks are {interaction.min():.2f} to "
        f"{interaction.max():.2f} of a block's effect.",
        when=error.min() > 1
        and additive.max() < 0.96
        and interaction.min() > 0.1
        and m.sums.interaction["control"].min() > 0.1,
    )


@claim("B-101")
def output_bias_is_redundant(m: Measured) -> Outcome:
    """The bias b_1 W_2 is anisotropic, the bias b_2 uniform and redundant."""
    return conditional(
        "b_2 can be folded into the LayerNorm before and b_1, exactly (1e-9); set to zero it turns the sentence to a "
        f"cosine of {m.biases.zeroed_cosine:.3f}. Both biases are one row repeated; of b_1, what arrives varies with "
        f"the token ({m.biases.variation:.2f} of its size).",
        when=m.biases.fold_error < 1e-9 and m.biases.zeroed_cosine < 0.999 and m.biases.variation > 0.2,
    )


@claim("B-102")
def order_of_heads_is_deleted(m: Measured) -> Outcome:
    """After the MLP the order of heads is lost."""
    read, added, added_control = m.read_back, m.read_back.added(), m.read_back.added("control")
    blocks, heads = read.band("first", "second"), read.band("heads", "second")
    shuffled, told = read.band("first", "shuffled"), read.band("heads", "x")[:, 0]
    exact = m.order.renumbered_error < 1e-10 and m.order.permuted_change > 0.5
    readable = blocks[:, 1].min() > 0.5 and heads[:, 1].min() > 0.05 and shuffled[:, 2].max() < 0.02
    return not_reproduced(
        "Only the numbering is free: input and W_1 permuted together give the same (1e-10), the input alone changes "
        f"the output by {m.order.permuted_change:.2f} of its size. From the layer's output {blocks[:, 1].min():.0%} or "
        f"more of every block's variance is read back linearly, of every head's output {heads[:, 1].min():.0%} or "
        f"more; shuffled {max(0, shuffled[:, 2].max()):.0%}. Heads are functions of the input, which alone tells "
        f"{told.min():.0%} to {told.max():.0%}: the output tells more in all layers but "
        f"{enumerated(read.input_better)}, and adds {added.min():.0%} to {added.max():.0%} to it (control "
        f"{added_control.min():.0%} or more).",
        when=exact
        and readable
        and read.input_better.tolist() == [4]
        and added.min() > 0.05
        and added_control.min() > 0.1,
    )


@claim("B-103")
def perceptron_adds_anisotropy(m: Measured) -> Outcome:
    """The MLP acts non-linearly and adds anisotropy."""
    linear, a = m.sums.linear["trained"], m.anisotropy
    top = int(a.mlp.argmax())
    others = np.delete(a.mlp, top)
    large, near = m.rungs["added by the MLP"].controls[LARGE][:, 0], m.nearest.by_mlp
    return conditional(
        f"Not linear: the best linear map leaves {1 - linear.max():.0%} to {1 - linear.min():.0%} of the variance. "
        f"{NEAREST}it adds anisotropy in every layer ({enumerated(near.mean(0), '+.3f')} in mean cosine). In MiniLM on "
        f"text it does in layer {top}, by {a.mlp[top]:+.3f} ({a.mlp_rises[top]:.0%} of the "
        f"documents), and takes it away in the others, by {others.max():+.3f} to {others.min():+.3f}. Most of the fall "
        f"from the first LayerNorm to the second is that of the LayerNorm without an MLP ({a.norm.max():+.2f} to "
        f"{a.norm.min():+.2f}). On plain rows the second half raises the cosine in layers "
        f"{enumerated(np.flatnonzero(a.plain > 0))}. In random weights as large the MLP adds {large.min():+.2f} "
        "or more in layer 0.",
        when=linear.max() < 0.99
        and near.min() > 0
        and a.mlp[top] > 0.01
        and a.mlp_rises[top] > 0.9
        and others.max() < 0
        and a.norm.max() < 0
        and large.min() > 0,
    )


@claim("B-104")
def next_heads_read_the_mean(m: Measured) -> Outcome:
    """Every head of the next layer gets the same input, the mean of the heads before."""
    ratio, peaks = m.composition.length_ratio, {name: m.composition.peak(name) for name in m.composition.scores}
    return conditional(
        f"The same input, by construction. Not a mean: heads' updates differ in length by a factor of {ratio:.1f}, and "
        f"the largest composition score of successive heads is {peaks['trained']:.1f} times the median (control "
        f"{peaks['control']:.1f}).",
        when=ratio > 1.5 and peaks["trained"] > 2 and peaks["control"] < 1.3,
    )


@claim("B-105")
def score_has_four_terms(m: Measured) -> Outcome:
    """A score with biases is a sum of four terms."""
    return reproduced(
        "The four terms sum to the score for random matrices of the paper's size, to 1e-12.",
        when=m.algebra.four_terms_error < 1e-12,
    )


@claim("B-106")
def score_expands_into_blocks(m: Measured) -> Outcome:
    """The MLP as a sum of blocks and constants can be inserted into the four terms."""
    count, real = m.expansion, m.real_rows
    return conditional(
        f"For rows of that form the substitution is exact: {count.terms} terms for {m.subject.heads} blocks, "
        f"{count.vanishing} of which vanish in the softmax. BERT's rows pass a skip connection and LayerNorm: of their "
        f"{real.vanishing.size} terms {real.vanishing.sum()} vanish, and the key side of b_2 moves {real.moved:.1%} of "
        "the attention.",
        when=count.sum_error < 1e-12
        and count.vanishing == 3 * (m.subject.heads + 3)
        and real.sum_error < 1e-10
        and real.vanishing.sum() == 12
        and real.moved > 1e-4,
    )


@claim("B-107")
def contextual_term_is_a_double_sum(m: Measured) -> Outcome:
    """The contextual term is the double sum (5.17) over blocks."""
    return corrected(
        "The second factor needs a transpose; then the double sum is exact to 1e-12.",
        when=m.algebra.printed_context_error > 0.5 and m.expansion.context_error < 1e-12,
    )


@claim("B-108")
def perceptron_breaks_the_channels(m: Measured) -> Outcome:
    """The structure of channels is totally broken by the MLP."""
    trained, control = (m.coupling.off_diagonal(network, "MLP, skip and LN") for network in ("trained", "control"))
    return not_reproduced(
        f"Past MLP, skip connection and LayerNorm {trained.min():.0%} to {trained.max():.0%} of the coupling is "
        f"off the diagonal (control {control.max():.0%}); broken would be {m.coupling.mixed:.0%}. What mixes heads is "
        "W_O.",
        when=trained.max() < 0.6 and control.max() < 0.1,
    )


@claim("B-109")
def patterns_cover_all_attention(m: Measured) -> Outcome:
    """The model covers all possible patterns of attention."""
    trained, control, a = m.patterns.unexplained["trained"], m.patterns.unexplained["control"], m.algebra
    near = m.nearest.carries("residual").mean(1)
    return conditional(
        "With weights that differ by row it does so trivially: every map is a mixture of directional gates "
        "(exactly, for a random one). As patterns that can be told from chance it does not: the gate "
        f"detector leaves {trained[:, 0].min():.0%} to {trained[:, 0].max():.0%} of MiniLM's attention unexplained, "
        f"depending on the layer, and {near.min():.0%} to {near.max():.0%} of that of the nearest model to the "
        f"paper's, fine-tuned on genes (control {control[:, 0].max():.0%}, nearly all of whose attention is uniform); "
        "that part is the detector's, not a map outside the list.",
        when=trained[:, 1].min() > 0.08 and near.max() > 0.05 and a.mixture_error < 1e-12,
    )
