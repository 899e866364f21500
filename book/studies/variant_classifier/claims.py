"""The verdicts on what "The geometry of BERT" says of its own classifier: its recipe, its head, single heads' maps."""

from collections.abc import Iterable

import numpy as np

from analysis.maps.gates import GATES, PATTERNS
from analysis.statistics import normality
from analysis.statistics.intervals import Interval, share_interval
from book.publish import Outcome, claim, holds_on_a_stand_in, not_testable, reproduced
from book.publish.phrases import enumerated, percent, with_interval
from book.studies.shared.nearest_classifier import NEAREST, STAND_IN
from book.studies.variant_classifier.depth import FIRST
from book.studies.variant_classifier.maps import PAPER_WIDTH
from book.studies.variant_classifier.measure import Measured

EPOCHS, BATCH = 2, 4
UNSEEN = "The authors' weights are published by link and could not be reached from here."
PAPER_THRESHOLD = 0.032
"""The critical value of table 1, as the paper has it."""
HEADS = 144
"""The heads of the classifier, as of BERT_BASE."""
TENTH = HEADS // 10
"""A head stands out when it is among the first tenth of all."""


@claim("B-08")
def recipe_is_bert_base(m: Measured) -> Outcome:
    """BERT_BASE with dropout 0.1 was trained for 2 epochs in batches of 4, with AdamW and a warm-up."""
    authors, base = m.authors, m.authors.recipe
    return reproduced(
        f"The released code builds the stated model: {EPOCHS} epochs of {authors.training:,} sequences in "
        f"batches of {BATCH} are {base.steps:,} updates, {base.warmup:,} of them a warm-up.",
        more=(
            f"It takes the library's classifier with the weights of {authors.start}, a model of English text. "
            "Built with the authors' vocabulary it has the stated sizes, GELU and dropout, and "
            f"{authors.parameters} M parameters; the rate is {authors.rate}. Our recipe variant-bert-base has the "
            "same sizes and begins with random weights; this page measures a smaller one: width "
            f"{m.recipe.width}, no dropout, {m.recipe.steps} updates."
        ),
        when=all(
            (each.layers, each.heads, each.width, each.feed_forward, each.positions) == (12, 12, 768, 3072, 512)
            and each.dropout == (0.1,)
            and each.gelu_error < 1e-6
            and each.batch == BATCH
            for each in (base, m.full_size)
        )
        and authors.epochs == EPOCHS
        and base.steps == EPOCHS * (authors.training // BATCH)
        and base.warmup > 0
        and m.recipe.dropout == 0,
    )


@claim("B-10")
def head_reads_the_class_token(m: Measured) -> Outcome:
    """The head takes the row of [CLS] through a layer with tanh and one output a class to a softmax."""
    head = m.head
    return reproduced(
        "The library's logits equal tanh([CLS] W + b) W' + b' to 1e-4, and the authors' recorded outputs are "
        "the softmax of theirs.",
        more=(
            "[CLS] stands first, one output a class. The loss is minus the logarithm of the softmax, and our "
            "predictions are this softmax, both to 1e-4. The authors' recorded outputs are the softmax of their "
            f"recorded logits to {m.authors.softmax_error:.0e}."
        ),
        when=m.authors.softmax_error < 1e-6
        and max(head.logits, head.loss, head.probabilities) < 1e-4
        and head.class_token_first
        and head.hidden_units == m.example.width
        and head.outputs == len(m.classes),
    )


@claim("B-12")
def keys_have_the_largest_weights(m: Measured) -> Outcome:
    """In head 4 of layer 1 the largest singular values of W_Q, W_K and W_V are 1.72, 2.68 and 0.98."""
    weights, (q, k, v) = m.weights, m.nearest.largest_weights
    over = weights.over_random["trained"]
    own = over[:, :, 0, 3]
    order, most = (k > q) & (q > v), over.max((1, 2, 3))
    return not_testable(
        f"Needs the authors' weights; in {STAND_IN} the same head has "
        f"{enumerated((each[0, 3] for each in (q, k, v)), '.2f')}, in another order.",
        more=(
            f"{UNSEEN} The order of the paper is that of {order.sum()} of {order.size} heads of the fine-tuned "
            f"model. Trained from random weights, they are {own.min():.2f} to {own.max():.2f} times those of "
            f"random matrices in three seeds, and over all heads at most {enumerated(most, '.2f')} times for Q, K "
            f"and V; the paper's are {enumerated(weights.paper, '.2f')} times. The only released code that prints "
            "such numbers takes columns of the stored weights, no head's: over our heads the two go together at "
            f"rank correlations {enumerated(m.authors.slices, '+.2f')} for Q, K and V. The public weights of "
            "bert-base-cased would tell which of them has the numbers."
        ),
        when=abs(m.authors.slices).max() < 0.3
        and (most < weights.paper).all()
        and not order[0, 3]
        and order.sum() < order.size / 2,
    )


@claim("B-42")
def head_of_figure_3_is_directional(m: Measured) -> Outcome:
    """Head 9 of layer 4 is a directional gate."""
    gates, head, near = m.gates, m.gates.heads["directional"], m.nearest.carries("directional")
    most, control = (scores[..., GATES.index("directional")] for scores in (gates.by_seed, gates.control))
    rank = place(near, head.head)
    return not_testable(
        f"Needs the authors' weights; in {STAND_IN} directional gates carry {percent(near[head.head])} of the "
        f"named head's attention, rank {rank} of {near.size}.",
        more=(
            f"{UNSEEN} In other heads of the fine-tuned model they carry up to {percent(near.max())}. Trained "
            f"from random weights it is up to {', '.join(percent(scores.max()) for scores in most)} in three "
            f"seeds (control {percent(control.max(), 1)}), in the named head "
            f"{', '.join(map(percent, head.carried))}, rank {enumerated(head.ranks)} of {HEADS}. Directional "
            "gates are learned; which head has them is an accident. (The released script draws means over a "
            "class, [SEP] blanked.)"
        ),
        when=near.max() > 0.5
        and rank > near.size // 10
        and most.max((1, 2)).min() > 0.3
        and control.max() < 0.05
        and min(head.ranks) > TENTH,
    )


def place(scores: np.ndarray, head: tuple[int, int]) -> int:
    """Return the rank of a head among all, the largest first.

    >>> place(np.array([[0.5, 0.1], [0.2, 0.3]]), (1, 1))
    2
    """
    return 1 + int((scores > scores[head]).sum())


@claim("B-46")
def head_of_figure_4_is_open(m: Measured) -> Outcome:
    """Head 4 of layer 2 is an open gate."""
    diagonal, control = (scores[..., GATES.index("open")] for scores in (m.gates.by_seed, m.gates.control))
    near, head = m.nearest.carries("open"), m.gates.heads["open"]
    return not_testable(
        f"Needs the authors' weights; in {STAND_IN} the diagonal carries {percent(near[head.head], 2)} of the "
        f"named head's attention, nowhere more than {percent(near.max())}.",
        more=(
            f"{UNSEEN} Trained from random weights it is {percent(diagonal.max(), 2)} at most over three seeds, "
            f"in the named head {percent(head.carried.max(), 4)}; in no control more than "
            f"{percent(control.max(), 4)}. No classifier here has an open gate."
        ),
        when=diagonal.max() < 0.05 and near.max() < 0.2,
    )


@claim("B-58")
def head_of_figure_6_has_clusters(m: Measured) -> Outcome:
    """Head 1 of layer 2 holds clusters."""
    cluster, head = m.nearest.carries("cluster"), m.gates.heads["clusters"]
    return not_testable(
        f"Needs the authors' weights; in {STAND_IN} the named head has {percent(cluster[head.head])} of its "
        f"attention in clusters, rank {place(cluster, head.head)} of {cluster.size}.",
        more=(
            f"{UNSEEN} Which head of a model has which pattern is an accident of its training (B-42), so that "
            "this is no evidence for the head of the paper."
        ),
        when=cluster[head.head] > 0.05,
    )


@claim("B-113")
def clusters_come_with_other_gates(m: Measured) -> Outcome:
    """Clusters usually come with other gates."""
    gates, phases, near = m.gates, m.phases, m.nearest.company
    fewest = share_interval(int(gates.clustered_sequences.min()), len(m.classes))
    company = [mixture.company for mixture in gates.mixtures]
    return holds_on_a_stand_in(
        f"{NEAREST}{with_interval(near)} of the maps with a cluster hold another gate as well.",
        more=f"That is a mean over {m.nearest.sequences} sequences. Its start, before any gene, has clusters as often. "
        f"Trained from random weights {', '.join(map(with_interval, company))} do, about half. There clusters depend "
        f"on deletions that shift words: {phases.hold} of the maps hold one in classes whose phase changes, "
        f"{phases.hold_still} in the others, and in the controls none.",
        when=near.low > 0.5
        and m.nearest.clusters_at_start
        and gates.control_maps[..., : len(PATTERNS)].max() < 0.05
        and fewest.low > 0.05
        and (phases.holding_unchanged < 0.25 * phases.holding_changed).all(),
    )


@claim("B-77")
def first_layers_fail_and_last_ones_pass(m: Measured) -> Outcome:
    """The sums of the rows of the first four layers fail the test of normality, those of the last eight pass."""
    table, near = m.table.first_layers, m.nearest
    third = len(near.failing_sums) * FIRST // len(m.table.paper)
    thresholds = PAPER_THRESHOLD, normality.critical_value(PAPER_WIDTH)
    return not_testable(
        f"Needs the authors' model; in {STAND_IN} the course is alike: the first {third} of "
        f"{len(near.failing_sums)} layers fail, the others pass.",
        more=(
            f"{UNSEEN} In the fine-tuned model D is {near.phrase('D_sum', '.3f')} by layer, in the mean over "
            f"sequences, against {near.critical:.3f}, and {', '.join(map(percent, near.failing_sums))} of "
            f"{near.sequences} sequences fail. The printed values agree with themselves, as the first four exceed "
            f"{PAPER_THRESHOLD} and the others do not. No such test is in the released code. Trained from random "
            f"weights {', '.join(map(percent, table.failing))} of the sums of the first four layers fail in three "
            f"seeds, where the paper's shapes would give {percent(table.expected_failing)} at that width."
        ),
        when=all(np.array_equal(np.flatnonzero(m.table.paper > threshold), range(FIRST)) for threshold in thresholds)
        and near.layers["D_sum"][:third, 1].min() > near.critical
        and near.failing_sums[third:].max() < 0.5
        and near.layers["D_sum"][third:, 0].max() < near.critical
        and table.failing.max() < table.expected_failing,
    )


@claim("B-83")
def largest_singular_value_rises_with_depth(m: Measured) -> Outcome:
    """In the histograms of three heads' singular values the largest one rises with depth."""
    rises, largest, stable = m.depth.rises["largest"], m.depth.largest, m.depth.stable_rank
    trained, control = rises["trained"].factor, rises["control"].factor
    near = m.nearest
    return not_testable(
        f"The histograms are the authors' model's own; in {STAND_IN} the largest value rises from "
        f"{near.layers['largest'][0, 0]:.0f} to {near.layers['largest'][-1, 0]:.0f} with depth.",
        more=(
            f"{UNSEEN} By layer and mean over heads the largest value of a head's output is "
            f"{near.phrase('largest', '.0f')} in the fine-tuned model (rank correlation "
            f"{near.rise('largest'):+.2f}). Trained from random weights it is in the paper's three heads "
            f"{_ranges(largest['trained'])} in three seeds (over the root of n; control "
            f"{_ranges(largest['control'])}); over all heads its last four layers have {_values(trained)} times "
            f"that of the first (control {_values(control)}). Each histogram is one value: the stable rank falls "
            f"to {near.layers['stable_rank'][-1, 0]:.2f}. By the released code the histograms are of another "
            "product, with other columns and no mask: over our heads its largest value goes with that of S V at "
            f"a rank correlation of {m.authors.head_outputs:+.2f}."
        ),
        when=m.authors.head_outputs < 0.7
        and near.rise("largest") > 0.8
        and near.layers["largest"][-1, 1] > near.layers["largest"][0, 2]
        and all(heads[0] < heads[1:].min() for heads in largest["trained"])
        and min(factor.low for factor in trained) > max(factor.high for factor in control)
        and stable["trained"].max() < 1.2,
    )


def _ranges(by_seed: np.ndarray) -> str:
    """Write the range over seeds of each head."""
    return enumerated(f"{head.min():.2f} to {head.max():.2f}" for head in np.transpose(by_seed))


def _values(intervals: Iterable[Interval]) -> str:
    return enumerated((interval.value for interval in intervals), ".2f")
