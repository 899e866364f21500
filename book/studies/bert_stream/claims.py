"""The verdicts on what the paper says of the information stream."""

import numpy as np

from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.publish.phrases import enumerated
from book.studies.bert_stream.controls import LARGE
from book.studies.bert_stream.measure import Measured
from book.studies.shared.nearest_classifier import NEAREST, STAND_IN


@claim("B-87")
def columns_are_counted_by_block(m: Measured) -> Outcome:
    """Definition (5.3) says in which block a column of a concatenation lies, and where in it."""
    return corrected(
        "i = floor((k-1)/s) + 1 and column ((k-1) mod s) + 1; the printed i is a whole number for "
        f"{m.algebra.whole} of 768 columns.",
        more=("The corrected indices are right for all 768 columns."),
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
        "With a map for each head, W_O and b_O the formula is exact to 1e-4; one map for all heads is off by "
        f"{m.heads.one_map:.2f}.",
        more=(
            "It is held to the model's module; the error is a share of its size. Without W_O and b_O it is "
            f"{m.heads.without_output:.2f}."
        ),
        when=max(m.heads.errors.values()) < 1e-4 and off > 0.5,
    )


@claim("B-94")
def layer_norm_is_linear(m: Measured) -> Outcome:
    """Skip connection and LayerNorm are the linear transformation (5.9)."""
    norm = m.normalisation
    return corrected(
        "With the vector of ones on the right side, gain and bias, the formula is exact to 1e-10, but the "
        "step is not linear.",
        more=(
            "It is linear for given deviations, which hold for one input only. LN(2x) = LN(x), and additivity "
            f"fails by {norm.additivity_error:.2f} of its size."
        ),
        when=norm.formula_error < 1e-10 and norm.doubled_error < 1e-10 and norm.additivity_error > 0.2,
    )


@claim("B-95")
def layer_norm_writes_probabilities(m: Measured) -> Outcome:
    """LayerNorm projects rows into spaces of probabilities."""
    norm = m.normalisation
    return not_reproduced(
        f"The rows that BERT writes sum to anything from {norm.written_sums[0]:.1f} to "
        f"{norm.written_sums[1]:.1f}, and {norm.negative_written:.0%} of their entries are negative.",
        more=(f"Plain rows sum to 0, have squared length d, and {norm.negative:.0%} of their entries are negative."),
        when=norm.largest_row_sum < 1e-9 and norm.negative_written > 0.2 and norm.negative > 0.2,
    )


@claim("B-96")
def layer_norm_changes_little(m: Measured) -> Outcome:
    """LayerNorm changes values slightly and adds no context."""
    change = m.normalisation.change
    return conditional(
        f"It brings no context, exactly; but it changes rows by {change['trained']:.2f} of their length in "
        f"the trained model, by {change['control']:.2f} in the control.",
        more=("It works on each token alone. Only in the control is the change slight."),
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
        f"True without LayerNorm and W_O: LayerNorm alone puts {alone.max():.1%} of the Jacobian off the "
        f"blocks' diagonal, W_O at least {joined['trained'].min():.1%}.",
        more=(f"LayerNorm's part has rank two. W_O does so trained or not; fully mixed is {m.coupling.mixed:.1%}."),
        when=exact and full and m.coupling.off_diagonal("trained", "skip").max() < 1e-6 and alone.min() > 1e-3,
    )


@claim("B-98")
def perceptron_takes_a_maximum(m: Measured) -> Outcome:
    """The MLP's activation is the maximum with 0."""
    cosine = m.perceptron.relu_cosine
    return corrected(
        f"BERT has GELU; with ReLU in all layers the sentence has a cosine of {cosine['trained']:.3f} with its own.",
        more=(f"In the control it is {cosine['control']:.3f}. The mask form is exact for both."),
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
        f"The best sum of any functions of single blocks explains {additive.min():.0%} to "
        f"{additive.max():.0%} of the MLP's output, by layer; the rest is interaction.",
        more=(
            f"Y W_1 W_2 with the biases is off by {error.min():.1f} to {error.max():.1f} times the MLP's size. In "
            f"the control the best sum explains {m.sums.additive['control'].mean():.0%}. Interactions of two "
            f"blocks are {interaction.min():.2f} to {interaction.max():.2f} of a block's effect."
        ),
        when=error.min() > 1
        and additive.max() < 0.96
        and interaction.min() > 0.1
        and m.sums.interaction["control"].min() > 0.1,
    )


@claim("B-101")
def output_bias_is_redundant(m: Measured) -> Outcome:
    """The bias b_1 W_2 is anisotropic, the bias b_2 uniform and redundant."""
    return conditional(
        "b_2 can be folded into the LayerNorm before and b_1, exactly; set to zero it turns the sentence to "
        f"a cosine of {m.biases.zeroed_cosine:.3f}.",
        more=(
            "The fold is exact to 1e-9. Both biases are one row repeated; of b_1, what arrives varies with the "
            f"token ({m.biases.variation:.2f} of its size)."
        ),
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
        f"From the layer's output {blocks[:, 1].min():.0%} or more of every block's variance is read back "
        f"linearly, and {heads[:, 1].min():.0%} or more of every head's output.",
        more=(
            f"Shuffled it is {max(0, shuffled[:, 2].max()):.0%}. Only the numbering is free: input and W_1 "
            "permuted together give the same (1e-10), the input alone changes the output by "
            f"{m.order.permuted_change:.2f} of its size. Heads are functions of the input, which alone tells "
            f"{told.min():.0%} to {told.max():.0%}: the output tells more in all layers but "
            f"{enumerated(read.input_better)}, and adds {added.min():.0%} to {added.max():.0%} to it (control "
            f"{added_control.min():.0%} or more)."
        ),
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
        f"{NEAREST}the MLP adds anisotropy in every layer; in MiniLM on text in layer {top}, elsewhere it "
        "takes some away.",
        more=(
            f"It is not linear: the best linear map leaves {1 - linear.max():.0%} to {1 - linear.min():.0%} of "
            "the variance. What it adds in mean cosine is, in the fine-tuned model, "
            f"{enumerated(near.mean(0), '+.3f')} by layer; in MiniLM on text {a.mlp[top]:+.3f} in layer {top} "
            f"({a.mlp_rises[top]:.0%} of the documents) and {others.max():+.3f} to {others.min():+.3f} in the "
            "others. Most of the fall from the first LayerNorm to the second is that of the LayerNorm without an "
            f"MLP ({a.norm.max():+.2f} to {a.norm.min():+.2f}). On plain rows the second half raises the cosine "
            f"in layers {enumerated(np.flatnonzero(a.plain > 0))}. In random weights as large the MLP adds "
            f"{large.min():+.2f} or more in layer 0."
        ),
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
        f"The same input, by construction; not a mean, for heads' updates differ in length by a factor of {ratio:.1f}.",
        more=(
            f"The largest composition score of successive heads is {peaks['trained']:.1f} times the median "
            f"(control {peaks['control']:.1f})."
        ),
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
        "For rows of that form the substitution is exact; BERT's rows pass a skip connection and LayerNorm, "
        "which the formula leaves out.",
        more=(
            f"The formula has {count.terms} terms for {m.subject.heads} blocks, {count.vanishing} of which vanish "
            f"in the softmax. Of the {real.vanishing.size} terms of BERT's rows {real.vanishing.sum()} vanish, "
            f"and the key side of b_2 moves {real.moved:.1%} of the attention."
        ),
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
        f"Past MLP, skip connection and LayerNorm {trained.min():.0%} to {trained.max():.0%} of the coupling runs "
        f"between blocks; were the channels totally broken, it would be {m.coupling.mixed:.0%}.",
        more=(f"With random weights it is {control.max():.0%}. What mixes heads is W_O."),
        when=trained.max() < 0.6 and control.max() < 0.1,
    )


@claim("B-109")
def patterns_cover_all_attention(m: Measured) -> Outcome:
    """The model covers all possible patterns of attention."""
    trained, control, a = m.patterns.unexplained["trained"], m.patterns.unexplained["control"], m.algebra
    near = m.nearest.carries("residual").mean(1)
    return conditional(
        "Mixtures of directional gates make every map; of gates told from chance, the detector leaves "
        f"{trained[:, 0].min():.0%} to {trained[:, 0].max():.0%} of MiniLM's attention unexplained.",
        more=(
            "How much a full study covers is a matter of reading. With weights that differ by row the list "
            "covers every map, trivially (exactly, for a random one). As patterns that can be told from chance "
            f"it does not: unexplained are, by layer, those shares in MiniLM on text and {near.min():.0%} to "
            f"{near.max():.0%} of the attention of {STAND_IN} (control {control[:, 0].max():.0%}, nearly all of "
            "whose attention is uniform). That part is the detector's, not a map outside the list."
        ),
        when=trained[:, 1].min() > 0.08 and near.max() > 0.05 and a.mixture_error < 1e-12,
    )


@claim("B-112")
def search_is_unbiased_by_construction(m: Measured) -> Outcome:
    """The search of the next layer is free of an architectural artifice and selects unbiasedly."""
    peaks = {name: m.composition.peak(name) for name in m.composition.scores}
    return conditional(
        f"With random weights the largest composition score of successive heads is {peaks['control']:.1f} times the "
        f"median, so the architecture prefers none; with trained ones {peaks['trained']:.1f} times.",
        more="The search is unbiased by construction, and is not what training makes of it: trained heads read some "
        "heads before them more than others. Which of the two the paper means is a matter of reading. That the MLP "
        "brings it about, by breaking the channels, is judged in B-108.",
        when=peaks["control"] < 1.3 and peaks["trained"] > 2,
    )
