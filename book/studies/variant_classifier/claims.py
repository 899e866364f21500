"""The verdicts on what "The geometry of BERT" says of its own classifier: its recipe, its head, single heads' maps."""

from collections.abc import Iterable

import numpy as np

from analysis.maps.gates import GATES, PATTERNS
from analysis.representations import normality
from analysis.statistics.intervals import Interval, share_interval
from book.publish import Outcome, claim, conditional, not_testable, reproduced
from book.publish.phrases import enumerated, percent, with_interval
from book.studies.variant_classifier.depth import FIRST
from book.studies.variant_classifier.maps import PAPER_WIDTH
from book.studies.variant_classifier.measure import Measured

EPOCHS, BATCH = 2, 4
NEAREST = ("Needs the authors' weights, which are published by link and could not be reached from here. The nearest "
           "test, a classifier trained on the same task: ")
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
        f"The released code takes the library's classifier with the weights of {authors.start}, a model of English "
        "text. Built with the authors' vocabulary it has the stated sizes, GELU and dropout, and "
        f"{authors.parameters} M parameters. {EPOCHS} epochs of {authors.training:,} sequences in batches of {BATCH} "
        f"are {base.steps:,} updates, {base.warmup:,} of them a warm-up, at a rate of {authors.rate}. Our recipe "
        "variant-bert-base has the same sizes and begins with random weights; this page measures a smaller one: "
        f"width {m.recipe.width}, no dropout, {m.recipe.steps} updates.",
        when=all((each.layers, each.heads, each.width, each.feed_forward, each.positions) == (12, 12, 768, 3072, 512)
                 and each.dropout == (0.1,) and each.gelu_error < 1e-6 and each.batch == BATCH
                 for each in (base, m.full_size))
        and authors.epochs == EPOCHS and base.steps == EPOCHS * (authors.training // BATCH) and base.warmup > 0
        and m.recipe.dropout == 0)


@claim("B-10")
def head_reads_the_class_token(m: Measured) -> Outcome:
    """The head takes the row of [CLS] through a layer with tanh and one output a class to a softmax."""
    head = m.head
    return reproduced(
        "The library's logits equal tanh([CLS] W + b) W' + b' to 1e-4; [CLS] stands first, one output a class. Its "
        "loss is minus the logarithm of their softmax, and our predictions are this softmax, both to 1e-4. The "
        f"authors' recorded outputs are the softmax of their recorded logits to {m.authors.softmax_error:.0e}.",
        when=m.authors.softmax_error < 1e-6 and max(head.logits, head.loss, head.probabilities) < 1e-4
        and head.class_token_first and head.hidden_units == m.example.width and head.outputs == len(m.classes))


@claim("B-12")
def keys_have_the_largest_weights(m: Measured) -> Outcome:
    """In head 4 of layer 1 the largest singular values of W_Q, W_K and W_V are 1.72, 2.68 and 0.98."""
    weights = m.weights
    largest, over = weights.largest["trained"], weights.over_random["trained"]
    own = "; ".join(f"{enumerated(times, '.2f')} ({enumerated(values, '.2f')})"
                    for times, values in zip(over[:, :, 0, 3].T, largest[:, :, 0, 3].T))
    most = over.max((1, 2, 3))
    return not_testable(
        f"{NEAREST}in the same head Q, K and V (values in brackets) are {own} times those of random weights in three "
        f"seeds; the paper's are {enumerated(weights.paper, '.2f')} times, V the smallest. Over all heads and seeds "
        f"ours are at most {enumerated(most, '.2f')} times. The paper's order is that of "
        f"{enumerated(weights.paper_order['trained'])} of {HEADS} heads (control "
        f"{enumerated(weights.paper_order['control'])}). The width, {m.example.width}, and the length of training "
        "differ. The only released code that prints such numbers takes columns of the stored weights, no head's: over "
        f"our heads the two go together at rank correlations {enumerated(m.authors.slices, '+.2f')} for Q, K and V. "
        "The public weights of bert-base-cased would tell which of them has the numbers.",
        when=abs(m.authors.slices).max() < 0.3 and (most < weights.paper).all()
        and weights.paper_order["trained"].max() < HEADS // 2)


@claim("B-42")
def head_of_figure_3_is_directional(m: Measured) -> Outcome:
    """Head 9 of layer 4 is a directional gate."""
    gates, head = m.gates, m.gates.heads["directional"]
    most, control = (scores[..., GATES.index("directional")] for scores in (gates.by_seed, gates.control))
    return not_testable(
        f"{NEAREST}directional gates are learned, up to {', '.join(percent(scores.max()) for scores in most)} of a "
        f"head's attention in three seeds (control {percent(control.max(), 1)}). The head that the paper names has "
        f"{', '.join(map(percent, head.carried))}, rank {enumerated(head.ranks)} of {HEADS}: which head it is is an "
        "accident of the seed. (The released script draws means over a class, [SEP] blanked.)",
        when=most.max((1, 2)).min() > 0.3 and control.max() < 0.05 and min(head.ranks) > TENTH)


@claim("B-46")
def head_of_figure_4_is_open(m: Measured) -> Outcome:
    """Head 4 of layer 2 is an open gate."""
    diagonal, control = (scores[..., GATES.index("open")] for scores in (m.gates.by_seed, m.gates.control))
    return not_testable(
        f"{NEAREST}the diagonal carries {percent(diagonal.max(), 2)} of a head's attention at most, over all heads of "
        f"three seeds, in the head that the paper names {percent(m.gates.heads['open'].carried.max(), 4)}; in no "
        f"control more than {percent(control.max(), 4)}.",
        when=diagonal.max() < 0.05)


@claim("B-58")
def clusters_come_with_other_gates(m: Measured) -> Outcome:
    """Head 1 of layer 2 holds clusters, which usually come with other gates."""
    gates, phases, head = m.gates, m.phases, m.gates.heads["clusters"]
    sequences = len(m.classes)  # one of each class
    fewest = share_interval(int(gates.clustered_sequences.min()), sequences)
    company = [mixture.company for mixture in gates.mixtures]
    return conditional(
        "The named head is the authors' own, but that clusters come with other gates can be tested on a classifier "
        "trained on the same task. Clusters are learned: in three seeds some map holds one in "
        f"{gates.clustered} of {sequences} sequences (share for the fewest {with_interval(fewest)}), in the controls "
        f"in none. Of the maps that do, {', '.join(map(with_interval, company))} hold another gate as well: about "
        f"half, and {sequences} sequences do not say on which side of it. They depend on deletions that shift words: "
        f"{phases.hold} of the maps in classes whose phase changes, {phases.hold_still} in the others. The head that "
        f"the paper names is rank {enumerated(head.ranks)} of {HEADS}.",
        when=gates.control_maps[..., :len(PATTERNS)].max() < 0.05 and fewest.low > 0.05
        and all(share.low < 0.5 < share.high for share in company) and min(head.ranks) > TENTH
        and (phases.holding_unchanged < 0.25 * phases.holding_changed).all())


@claim("B-77")
def first_layers_fail_and_last_ones_pass(m: Measured) -> Outcome:
    """The sums of the rows of the first four layers fail the test of normality, those of the last eight pass."""
    table, difference = m.table.first_layers, m.table.first_layers.difference.mean()
    thresholds = PAPER_THRESHOLD, normality.critical_value(PAPER_WIDTH)
    return not_testable(
        f"The table agrees with itself: its first four values exceed {PAPER_THRESHOLD}, the others do not. No such "
        f"test is in the released code. {NEAREST}{', '.join(map(percent, table.failing))} of the sums of the first "
        f"four layers fail in three seeds, where the paper's shapes would give {percent(table.expected_failing)} at "
        f"this width. Mean D of the first four layers less that of the others is {difference:+.4f}; the paper's "
        f"shapes would give {table.expected:+.4f}, {table.expected / table.error:.1f} standard errors of untrained "
        f"models. This rests on tails like Student's t, at width {m.example.width}.",
        when=all(np.array_equal(np.flatnonzero(m.table.paper > threshold), range(FIRST)) for threshold in thresholds)
        and table.expected / table.error > 3 and table.expected - difference > 2 * table.error
        and table.failing.max() < table.expected_failing)


@claim("B-83")
def largest_singular_value_rises_with_depth(m: Measured) -> Outcome:
    """In the histograms of three heads' singular values the largest one rises with depth."""
    rises, largest, stable = m.depth.rises["largest"], m.depth.largest, m.depth.stable_rank
    trained, control = rises["trained"].factor, rises["control"].factor
    return not_testable(
        f"{NEAREST}in the same three heads the largest value is {_rows(largest['trained'])} in three seeds (over the "
        f"root of n; control {_rows(largest['control'])}). Over all heads its last four layers have "
        f"{_values(trained)} times that of the first (control {_values(control)}); by rank correlation with depth the "
        f"control may rise as well ({_values(rises['control'].correlation)}). And each histogram is one value: the "
        f"stable rank is at most {stable['trained'].max():.2f} in any layer, in the control "
        f"{stable['control'].max():.2f}. By the released code the histograms are of another product, with other "
        "columns and no mask: over our heads its largest value goes with that of S V at a rank correlation of "
        f"{m.authors.head_outputs:+.2f}.",
        when=m.authors.head_outputs < 0.7 and all(heads[0] < heads[1:].min() for heads in largest["trained"])
        and min(factor.low for factor in trained) > max(factor.high for factor in control)
        and stable["trained"].max() < 1.2)


def _rows(table: np.ndarray) -> str:
    return "; ".join(enumerated(row, ".2f") for row in table)


def _values(intervals: Iterable[Interval]) -> str:
    return enumerated((interval.value for interval in intervals), ".2f")
