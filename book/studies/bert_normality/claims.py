"""The verdicts on what the paper says of normality, the cone index, singular values and entropy."""

from collections.abc import Sequence

import numpy as np

from analysis.models.controls import LARGE, PERMUTED, RANDOM, SHARP
from analysis.statistics.intervals import Interval
from book.publish import Outcome, claim, conditional, corrected, holds_on_a_stand_in, not_reproduced, not_testable
from book.publish.phrases import enumerated, percent
from book.studies.bert_normality.measure import Measured
from book.studies.bert_normality.released import SHARP as SHARP_GATES
from book.studies.bert_normality.rows import PAPER_THRESHOLD, ROUNDING
from book.studies.shared.documents import LADDER
from book.studies.shared.nearest_classifier import NEAREST, STAND_IN, START
from book.studies.shared.released_code import BINS

SCALED = (RANDOM, LARGE)
"""The rungs of the nearest model's ladder whose weights are random."""

CHANCE = 0.05
"""The usual level of a test: what shuffled heads reach more often than this is no link."""


def decided(condition: bool, *intervals: Sequence[float] | np.ndarray) -> bool | None:
    """Return the condition, or ``None`` where it rests on an interval that a single text does not have."""
    return None if any(np.isnan(interval).any() for interval in intervals) else bool(condition)


@claim("B-72")
def rows_are_gaussian(m: Measured) -> Outcome:
    """Rows after the first LayerNorm are Gaussian; only a few fail."""
    near, trained = m.nearest, m.rows.failing["trained"]
    own, coded, classifier = m.released.failing["own"], m.released.failing["coded"], m.classifier.trained
    scaled = max(near.rung("first_failing", rung).max() for rung in SCALED)
    few = near.by_seed["first_failing"][:, :-1].min()
    return not_testable(
        f"Needs the authors' model; in {STAND_IN} {percent(near.layers['first_failing'][:, 0].min())} to "
        f"{percent(near.layers['first_failing'][:, 0].max())} of the rows fail, by layer.",
        more=(
            f"By layer it is {near.shares('first_failing')}, with padding {near.shares('padded_first_failing')}; "
            "few only in the last layer of one of two trainings "
            f"({enumerated(map(percent, near.by_seed['first_failing'][:, -1]))}). In MiniLM on text "
            f"{trained[:, 0].min():.0%} to {trained[:, 0].max():.0%} fail. Few fail where nothing or little was "
            f"trained: about the test's 5 % with random weights ({scaled:.0%} at most if these are as large), "
            f"{classifier['first_failing'].max():.0%} at most in a classifier trained from random weights; with "
            f"the trained entries permuted up to {near.rung('first_failing', PERMUTED).max():.0%}. So it depends "
            "on the training, and the authors' images of three layers are of a model that could not be reached "
            "from here. The test is of the distribution of one row's coordinates, not of multivariate normality."
        ),
        when=decided(
            few > 0.2
            and near.layers["padded_first_failing"][:-1, 1].min() > 0.2
            and scaled < 0.15
            and (coded < own).all()
            and trained[:, 1].min() > 0.5
            and classifier["first_failing"].max() < 0.15,
            trained,
        ),
    )


@claim("B-73")
def layer_norm_keeps_the_distribution(m: Measured) -> Outcome:
    """LayerNorm does not affect the distribution of a row."""
    return conditional(
        "Without gain and bias D is unchanged to 1e-12; with them failures go from "
        f"{m.invariance.failing_before:.0%} to {m.invariance.failing_after:.0%} in layer 0.",
        more=(f"The first is a proposition. With gain and bias D changes by {m.invariance.change:.3f} on average."),
        when=m.invariance.plain_error < 1e-12 and m.invariance.change > 0.005,
    )


@claim("B-74")
def critical_value_is_that_of_the_rule(m: Measured) -> Outcome:
    """The critical value of the statistic is 0.032."""
    test = m.threshold
    between = (test.paper > PAPER_THRESHOLD) & (test.paper < test.table)
    near = np.flatnonzero(abs(test.paper - test.table) <= ROUNDING)
    return corrected(
        f"The 5 % point is {test.table:.4f}, and 0.886/sqrt(768) is {test.rule:.4f}, so 0.032 has a level of "
        f"{test.level:.1%}.",
        more=(
            f"In 40,000 draws the point is {test.five_percent:.4f}. No value of table 1 as printed lies between "
            "the two; layer 3's 0.033, rounded, could."
        ),
        when=abs(test.five_percent - test.table) < 2e-4
        and test.level > 0.053
        and not between.any()
        and near.tolist() == [2],
    )


@claim("B-75")
def sums_show_correlation(m: Measured) -> Outcome:
    """The sum of the rows is not uniform, so the rows are correlated."""
    return not_reproduced(
        "Sums of independent rows, Gaussian or uniform, are not uniform either (p < 0.001 each): the shape "
        "of a sum shows no correlation.",
        more=("Its length does."),
        when=max(sample.p_uniform for sample in m.sums.independent.values()) < 1e-3,
    )


@claim("B-76")
def sums_are_gaussian(m: Measured) -> Outcome:
    """The sum of a layer's rows is Gaussian in shape."""
    near, trained, critical = m.nearest, m.sums.statistics["trained"], m.threshold.critical
    classifier, small = m.classifier.trained["D_sum"], m.classifier.critical
    scaled = max(m.rungs["sum"].controls[rung].mean(0).max() for rung in LADDER)
    documents = m.rungs["sum"].documents.mean(0)
    first, others = near.failing_sums[:2], near.failing_sums[2:]
    return conditional(
        f"{NEAREST}sums of the first two layers fail in at least {percent(first.min())}, the others in at most "
        f"{percent(others.max())}.",
        more=(
            f"Of the sequences, {enumerated(map(percent, first))} fail in the first two layers (D by layer "
            f"{near.phrase('D_sum', '.3f')}, critical value {near.critical:.3f}); the paper's first four of twelve "
            f"fail as well (B-77). Trained from random weights D is {classifier.max():.3f} at most (critical value "
            f"{small:.3f}): it passes everywhere. In MiniLM on text, in all layers but the last, it is "
            f"{documents[:-1].min():.3f} to {documents[:-1].max():.3f} on the 24 documents, where no control of its "
            f"ladder has more than {scaled:.3f}, mean over seeds, and {trained[:-1, 0].min():.3f} to "
            f"{trained[:-1, 0].max():.3f} on the 48 passages (critical value {critical:.3f}). The condition is how far "
            "training has moved the coordinates."
        ),
        when=decided(
            first.min() > 0.5 > others.max()
            and near.by_seed["D_sum"][:, :2].min() > near.critical
            and near.layers["D_sum"][2:, 0].max() < near.critical
            and trained[:-1, 1].min() > critical > scaled
            and documents[:-1].min() > critical
            and classifier.max() < small,
            trained,
        ),
    )


@claim("B-78")
def extremes_make_rows_fail(m: Measured) -> Outcome:
    """Failures come from oversized extreme bins."""
    near, rows, kept = m.nearest, m.rows.failing["trained"][:, 0], m.rows.failing["kept"]
    (*still, last), failing = m.sums.failing_kept, near.failing_sums > 0.5
    without = near.failing_sums_kept[failing]
    return conditional(
        f"{NEAREST}extremes decide some failures: without them sums of the first two layers fail in at most "
        f"{percent(without.max())}.",
        more=(
            f"With them {enumerated(map(percent, near.failing_sums[failing]))} of the sequences fail, without them "
            f"{enumerated(map(percent, without))}; of the rows {near.shares('failing_kept')} fail by layer without "
            f"them, in place of {near.shares('first_failing')}. In MiniLM on text {min(still):.0%} to {max(still):.0%} "
            f"of the sums still fail in all layers but the last ({last:.0%} there, where "
            f"{m.sums.failing['trained'][-1]:.0%} fail with them), and of the rows at least {kept[:, 0].min():.0%}. So "
            "extremes are one cause."
        ),
        when=decided(
            without.max() > 0.2
            and without.min() < near.failing_sums[failing].min()
            and (near.layers["failing_kept"][:-1, 0] < near.layers["first_failing"][:-1, 0]).all()
            and near.layers["failing_kept"][:2, 1].min() > 0.1
            and (kept[:, 0] < rows).all()
            and kept[:, 1].min() > 0.3
            and min(still) > 0.5,
            kept,
        ),
    )


@claim("B-79")
def cone_index_is_a_length(m: Measured) -> Outcome:
    """The cone index of a layer is the length of the sum of its rows."""
    rise, per_token, ratio = m.cone.rise["trained"], m.cone.per_token["trained"][:, 0], m.padding.cone_ratio["trained"]
    first, last = m.cone.ends["trained"]["resultant"]
    near = {name: m.nearest.layers[name][:, 0] for name in ("cone", "resultant")}
    falls = {name: int((np.diff(values) < 0).sum()) for name, values in near.items()}
    return corrected(
        f"The released code sums unit rows, (5.1) rows as they are, which in {STAND_IN} falls in "
        f"{falls['cone']} of {len(near['cone']) - 1} steps.",
        more=(
            "The index of the released code, in all its versions, is the length of the sum of the unit rows, "
            "over all 512 rows, padding in; that is the number of rows times the resultant length, to "
            f"{m.released.index_error:.0e}. In the fine-tuned model that falls in {falls['resultant']} steps from "
            f"layer to layer ({enumerated(near['resultant'], '.2f')} a row), as figure 10 rises throughout. In "
            f"MiniLM on text the printed form goes from {per_token[0]:.1f} to {per_token[-1]:.1f} a token, "
            f"because the last layer writes shorter rows, that of unit rows from {first:.2f} to {last:.2f}. "
            f"Padding multiplies (5.1) by {ratio:.1f}."
        ),
        when=decided(
            m.released.index_error < 1e-9
            and falls["resultant"] == 0 < falls["cone"]
            and rise["cone"].high < 0.2
            and rise["resultant"].low > 0.6
            and ratio > 2,
            *rise.values(),
        ),
    )


@claim("B-81")
def cone_index_rises(m: Measured) -> Outcome:
    """The cone index rises with depth, which shows that subspaces are learned."""
    near, rise, cosine, classifier = m.nearest, m.cone.rise["trained"], m.rungs["mean cosine"], m.classifier
    own = near.layers["cosine"][:, 0]
    start, scaled = (near.rung("cosine", rung)[[0, -1]] for rung in (START, LARGE))
    family = {rung: np.diff(cosine.controls[rung][:, [0, -1]]).min() for rung in (LARGE, PERMUTED)}
    return conditional(
        f"{NEAREST}the mean cosine rises from {near.phrase_ends('cosine')}, but in random weights as large it "
        "rises untrained too.",
        more=(
            "That is with unit rows, as in the released code; (5.1) as printed rises up to the last layer and "
            f"falls there (rank correlation with depth {enumerated(near.rises('cone'), '+.2f')} in two "
            f"trainings). The genes put it there, for the start stays at {start[0]:.2f} and {start[1]:.2f}. But a "
            f"rise does not show selection: random weights as large have it untrained ({scaled[0]:.2f} to "
            f"{scaled[1]:.2f}). Trained from random weights it goes from {classifier.trained['cosine'][0]:.2f} to "
            f"{classifier.trained['cosine'][-1]:.2f} (control {classifier.control['cosine'][0]:.2f} to "
            f"{classifier.control['cosine'][-1]:.2f}). In MiniLM on text the printed form does not rise "
            f"({rise['cone'].value:+.2f}), and the mean cosine by {m.cone.climb['trained']:.2f} only, by "
            f"{min(family.values()):.2f} or more with weights as large, random or permuted."
        ),
        when=decided(
            min(near.rises("resultant")) > 0.95 > max(near.rises("cone"))
            and own[-1] > own[0] + 0.3
            and abs(start[1] - start[0]) < 0.1
            and np.diff(scaled)[0] > 0.3
            and rise["cone"].high < 0.2
            and min(family.values()) > 2 * m.cone.climb["trained"],
            *rise.values(),
        ),
    )


@claim("B-82")
def singular_values_rise(m: Measured) -> Outcome:
    """The largest singular value of head outputs rises with depth."""
    near, rise, largest = m.nearest, m.spectra.rise, m.rungs["largest singular value"]
    classifier, at_end = m.classifier.trained["largest"], largest.documents
    dips = (at_end[:, -1] < at_end[:, -2]).mean()
    scaled, permuted, start = (near.rung("largest", rung) for rung in (LARGE, PERMUTED, START))
    (*_, high), (_, low, _) = near.layers["largest"][[0, -1]]
    return holds_on_a_stand_in(
        f"{NEAREST}it is {near.phrase('largest', '.0f')} by layer; random weights as large rise as well.",
        more=(
            f"These are means over heads; the rank correlation with depth is "
            f"{enumerated(near.rises('largest'), '+.2f')} in two trainings. Before fine-tuning they are "
            f"{start[0]:.0f} to {start[-1]:.0f}. The rise alone shows no learning: random weights as large have "
            f"{scaled[0]:.0f} to {scaled[-1]:.0f}, the trained entries permuted {permuted[0]:.0f} to "
            f"{permuted[-1]:.0f}. Trained from random weights it goes from {classifier[0]:.0f} to "
            f"{classifier[-1]:.0f} (control {m.classifier.control['largest'][0]:.0f} to "
            f"{m.classifier.control['largest'][-1]:.0f}). In MiniLM on the 48 passages the rank correlation with depth "
            f"is {rise['trained'].value:+.2f} ({rise['control'].value:+.2f} in the random control); on the 24 "
            f"documents, another sample, the last layer falls back in {dips:.0%}."
        ),
        when=decided(
            min(near.rises("largest")) > 0.9
            and low > 2 * high
            and scaled[-1] > 1.5 * scaled[0]
            and permuted[-1] > 1.5 * permuted[0]
            and start[-1] < 1.5 * start[0]
            and classifier[-1] > 1.5 * classifier[0]
            and rise["trained"].low > 0.7,
            *rise.values(),
        ),
    )


def _phrase(estimate: Interval) -> str:
    return f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"


@claim("B-84")
def low_entropy_is_information(m: Measured) -> Outcome:
    """The entropy of a map measures the information that its head has captured."""
    effects, first, last, near = m.effects, m.effects.within[0], m.effects.within[-1], m.nearest
    linked, deep = effects.with_entropy["trained"], effects.with_depth
    sharp = max(m.entropies.ideal[name].row_entropy for name in ("directional", "open (identity)")) < 1e-9
    gates, noise = m.released.gates, m.released.noise
    closed, cluster = gates["closed"].whole, gates["cluster"].whole
    sharpest = max(gates[name].whole for name in SHARP_GATES)
    faint, strong = noise[min(noise)].whole, noise[max(noise)].whole
    linked_layers = [layer for layer, estimate in enumerate(effects.within) if estimate.high < 0]
    return conditional(
        "Not by itself: directional gate and identity have entropy 0 and carry one vector, or nothing from elsewhere.",
        more=f"{NEAREST}the effect of making a head uniform goes with low entropy in some layers (rank "
        f"correlations from {near.effect_within.min():+.2f} to {near.effect_within.max():+.2f}), over all heads at "
        f"{near.effect_with_entropy:+.2f}, with depth {near.effect_with_depth:+.2f}. In MiniLM on text it does "
        f"in the first and last layer ({_phrase(first)}, {_phrase(last)}, intervals over texts), in none between; over "
        f"{effects.sink.size} heads it is {_phrase(linked)}, with depth {deep['trained'].value:+.2f} (control "
        f"{deep['control'].value:+.2f}). Silenced instead of levelled, a head matters by its layer "
        f"({m.silenced.depth:+.2f} with depth); within layers effect and entropy are linked by "
        f"{m.silenced.within.value:+.2f} (as far from 0 in {m.silenced.within.chance:.0%} of the shuffles of heads "
        f"within layers), over all heads by {m.silenced.zero.value:+.2f}, of which such shuffles keep "
        f"{m.silenced.within.shuffled.value:+.2f}. That is of rows. "
        "By the released code's entropy, of the histogram of a map's entries, the "
        f"sharp gates have next to none ({sharpest:.3f} at most) and faint noise has most ({faint:.1f} "
        f"of {np.log(BINS):.1f}), as the paper wants; but the closed gate, which it calls the maximum, has "
        f"{closed:.0f}, and strong noise {strong:.2f}, less than a cluster ({cluster:.2f}).",
        when=decided(
            closed == 0
            and sharpest < strong < cluster < faint
            and sharp
            and linked_layers == [0, len(effects.within) - 1]
            and linked.low > -0.25
            and m.silenced.within.chance > CHANCE
            and m.silenced.within.shuffled.low > 0
            and near.effect_within.min() < -0.3
            and near.effect_within.max() > 0.3
            and near.effect_with_entropy > -0.25
            and near.effect_with_depth > 0.3
            and deep["trained"].low > 0.5
            and deep["control"].high < 0
            and max(effects.chance[0], effects.chance[-1]) < 0.02,
            *effects.within,
            linked,
            *deep.values(),
        ),
    )


@claim("B-85")
def entropy_rises_with_depth(m: Measured) -> Outcome:
    """Lower layers have a low entropy, upper layers a high one."""
    trained, control = m.entropies.row["trained"], m.entropies.row["control"]
    keys, falling = m.released.minimal_keys, int((m.released.value_rises < 0).sum())
    ladder, classifier, near = m.rungs["row entropy"], m.classifier.trained["entropy"], m.nearest
    sharp, seeds = ladder.controls[SHARP].mean(0), near.by_seed["entropy"]
    return conditional(
        f"{NEAREST}row entropy is lowest in the second layer, but the first is as spread out as the last.",
        more=(
            f"Relative row entropy is {near.phrase('entropy')} by layer. (Read as row entropy; the paper gives no "
            "formula.) Its start and MiniLM on text have the same shape: it is the text's. Random controls are "
            f"at {control[:, 0].min():.3f} or more, and with W_Q and W_K as large at {sharp[0]:.2f} to "
            f"{sharp[-1]:.2f}, rising too, but with longer queries and keys than MiniLM's. Trained from random "
            "weights it is lowest in the middle. The authors' own record of how many of 512 keys hold 0.90 of a row of "
            f"recomputed maps says the same of their classifier: {keys[0]:.0f} in the first layer, {keys[2]:.0f} "
            f"in the third, {keys[-1]:.0f} in the last. By the released code's entropy it is the other way round "
            f"on our variant classifier: it falls with depth in {falling} of {len(m.released.value_rises)} "
            "classes."
        ),
        when=decided(
            keys.argmin() == 2
            and keys[-1] > keys[0] > keys[2]
            and falling > len(m.released.value_rises) / 2
            and (seeds.argmin(1) == 1).all()
            and (seeds[:, [0, 4, 5]].min(1) > seeds[:, 1:3].max(1)).all()
            and trained[0, 1] > trained[1:5, 2].max()
            and trained[-1, 1] > trained[1, 2]
            and near.rung("entropy", START).argmin() == 1
            and sharp[-1] > sharp[0] + 0.1
            and 3 <= classifier.argmin() <= 8,
            trained,
        ),
    )


@claim("B-86")
def total_is_gaussian(m: Measured) -> Outcome:
    """The sum of all rows of all layers is normal and centred at zero."""
    D, critical, near = m.total.D, m.threshold.critical, m.nearest
    classifier, random = m.classifier.trained["D_total"].mean(), near.control_D_total["random"]
    passing = (near.D_total <= near.critical).mean()
    return conditional(
        f"{NEAREST}the sum passes the test in {near.total_passes} of {near.sequences} sequences; centred it "
        "is by arithmetic.",
        more=(
            f"Plain rows have mean 0; as written the mean is at most {abs(near.mean_total).max():.2f} of the "
            f"deviation. D is {near.D_total.min():.3f} to {near.D_total.max():.3f} (critical value "
            f"{near.critical:.3f}); in its start none pass, with random weights all. Trained from random weights "
            f"D is {classifier:.3f} (critical value {m.classifier.critical:.3f}). MiniLM on text passes in "
            f"{(D['trained'] <= critical).mean():.0%} of the texts (D {D['trained'].mean():.3f}), its random "
            f"control in {(D['control'] <= critical).mean():.0%}."
        ),
        when=0 < passing < 1
        and abs(near.mean_total).max() < 0.1
        and near.control_D_total[START].min() > near.critical
        and (random <= near.critical).all()
        and (D["trained"] > critical).all()
        and (D["control"] <= critical).mean() > 0.9
        and m.total.plain_mean["trained"] < 1e-5
        and classifier < m.classifier.critical,
    )
