"""The verdicts on what the paper says of normality, the cone index, singular values and entropy."""

from collections.abc import Sequence

import numpy as np

from analysis.statistics.intervals import Interval
from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.publish.phrases import enumerated
from book.studies.bert_normality.controls import LARGE, PERMUTED, SHARP
from book.studies.bert_normality.measure import Measured
from book.studies.bert_normality.released import SHARP as SHARP_GATES
from book.studies.bert_normality.rows import PAPER_THRESHOLD, ROUNDING
from book.studies.shared.documents import LADDER
from book.studies.shared.released_code import BINS


def decided(condition: bool, *intervals: Sequence[float] | np.ndarray) -> bool | None:
    """Return the condition, or ``None`` where it rests on an interval that a single text does not have."""
    return None if any(np.isnan(interval).any() for interval in intervals) else bool(condition)


@claim("B-72")
def rows_are_gaussian(m: Measured) -> Outcome:
    """Rows after the first LayerNorm are Gaussian; only a few fail."""
    trained, plain, control = (m.rows.failing[kind] for kind in ("trained", "plain", "control"))
    padded, unpadded = m.padding.rows["trained"]["with"][:, 0], m.padding.rows["trained"]["without"][:, 0]
    own, coded, classifier = m.released.failing["own"], m.released.failing["coded"], m.classifier.trained
    scaled = max(m.rungs["plain rows that fail"].range_of(rung)[1] for rung in (SHARP, LARGE))
    return conditional(
        "It holds where training has moved the rows little: in the classifier that was trained from random weights "
        f"{classifier['first_failing'].max():.0%} fail at most in a layer, its control "
        f"{m.classifier.control['first_failing'].max():.0%}. In MiniLM, trained on text as the authors' start was, "
        f"{trained[:, 0].min():.0%} to {trained[:, 0].max():.0%} fail, depending on the layer (plain "
        f"{plain[:, 0].min():.0%} to {plain[:, 0].max():.0%}); in its random control {control[:, 0].min():.1%} to "
        f"{control[:, 0].max():.1%}, with matrices as large as the trained {scaled:.0%} at most. With padding rows "
        f"{padded.min():.0%} to {padded.max():.0%} fail. The released code has no test; its rows 'after the first "
        f"LayerNorm' are not BERT's and pass more easily: {coded.min():.0%} to {coded.max():.0%} fail on six of the "
        f"texts, of BERT's own {own.min():.0%} to {own.max():.0%}.",
        when=decided((coded < own).all() and (padded > unpadded).all() and trained[:, 1].min() > 0.5
                     and plain[:, 1].min() > 0.2 and abs(control[:, 0] - 0.05).max() < 0.01 and scaled < 0.12
                     and classifier["first_failing"].max() < 0.15, trained, plain))


@claim("B-73")
def layer_norm_keeps_the_distribution(m: Measured) -> Outcome:
    """LayerNorm does not affect the distribution of a row."""
    return conditional(
        "Without gain and bias D is unchanged to 1e-12 (proposition). With them it changes by "
        f"{m.invariance.change:.3f} on average in layer 0, and failures go from {m.invariance.failing_before:.0%} to "
        f"{m.invariance.failing_after:.0%}.", when=m.invariance.plain_error < 1e-12 and m.invariance.change > 0.005)


@claim("B-74")
def critical_value_is_that_of_the_rule(m: Measured) -> Outcome:
    """The critical value of the statistic is 0.032."""
    test = m.threshold
    between = (test.paper > PAPER_THRESHOLD) & (test.paper < test.table)
    near = np.flatnonzero(abs(test.paper - test.table) <= ROUNDING)
    return corrected(
        f"0.886/sqrt(768) is {test.rule:.4f}; the 5 % point is {test.table:.4f} "
        f"(40,000 draws: {test.five_percent:.4f}), so 0.032 has a level of {test.level:.1%}. No value of table 1 "
        "as printed lies between the two; layer 3's 0.033, rounded, could.",
        when=abs(test.five_percent - test.table) < 2e-4 and test.level > 0.053 and not between.any()
        and near.tolist() == [2])


@claim("B-75")
def sums_show_correlation(m: Measured) -> Outcome:
    """The sum of the rows is not uniform, so the rows are correlated."""
    return not_reproduced(
        "Sums of independent Gaussian and of independent uniform rows are not uniform either (p < 0.001 each): the "
        "shape of the sum does not show correlation, its length does.",
        when=max(sample.p_uniform for sample in m.sums.independent.values()) < 1e-3)


@claim("B-76")
def sums_are_gaussian(m: Measured) -> Outcome:
    """The sum of a layer's rows is Gaussian in shape."""
    trained, plain, control = (m.sums.statistics[kind] for kind in ("trained", "plain", "control"))
    padded, fails = m.padding.sums["trained"]["with"], m.padding.last_sum_fails["trained"]
    critical, classifier, small = m.threshold.critical, m.classifier.trained["D_sum"], m.classifier.critical
    last = trained[-1, 2] < critical < plain[-1, 1]
    last_padded = padded[-1, 1] > critical and fails["with"] > 0.5 > fails["without"]
    scaled = max(m.rungs["sum"].controls[rung].mean(0).max() for rung in LADDER)
    return conditional(
        "In the classifier trained from random weights D of the sum is "
        f"{classifier.max():.3f} at most (critical value {small:.3f}): it passes in every layer. In MiniLM it is "
        f"{trained[:-1, 0].min():.2f} or more in all layers but the last, against {critical:.3f}; in the mean over "
        f"seeds no control, random, as large or permuted, has more than {scaled:.3f}. MiniLM's last layer passes with "
        f"its gain ({trained[-1, 0]:.3f}) and fails without ({plain[-1, 0]:.2f}), and with its padding rows too "
        f"({padded[-1, 0]:.3f}, {fails['with']:.0%} of the texts). The condition is how far training has moved the "
        "coordinates.",
        when=decided(trained[:-1, 1].min() > critical > scaled and control[:, 2].max() < critical and last
                     and last_padded and classifier.max() < small, trained, plain, control, padded))


@claim("B-78")
def extremes_make_rows_fail(m: Measured) -> Outcome:
    """Failures come from oversized extreme bins."""
    rows, kept, still = m.rows.failing["trained"][:, 0], m.rows.failing["kept"], m.sums.failing_kept[:-1]
    sums, sums_kept = (m.sums.statistics[kind][:-1, 0] for kind in ("trained", "kept"))
    return conditional(
        f"Without its extreme coordinates the sum of a layer has about half the D ({sums_kept.min():.3f} to "
        f"{sums_kept.max():.3f}), but {still.min():.0%} to {still.max():.0%} of the texts still fail. For rows: at "
        f"most {m.rows.most_outliers} coordinates stand out; without them failures fall, in the last layer from "
        f"{rows[-1]:.0%} to {kept[-1, 0]:.0%}, but nowhere below {kept[:, 0].min():.0%}.",
        when=decided((kept[:, 0] < rows).all() and kept[:, 1].min() > 0.3 and still.min() > 0.5
                     and (sums_kept < 0.65 * sums).all(), kept))


@claim("B-79")
def cone_index_is_a_length(m: Measured) -> Outcome:
    """The cone index of a layer is the length of the sum of its rows."""
    rise, per_token, ratio = m.cone.rise["trained"], m.cone.per_token["trained"][:, 0], m.padding.cone_ratio["trained"]
    first, last = m.cone.ends["trained"]["resultant"]
    return corrected(
        "The index of the released code, in all its versions, is the length of the sum of the unit rows, over all 512 "
        "rows, padding in; that is the number of rows times the resultant length, to "
        f"{m.released.index_error:.0e}. (5.1) sums the rows as they are. On our model the printed form falls from "
        f"{per_token[0]:.1f} to {per_token[-1]:.1f} a token (rank correlation with depth {rise['cone'].value:+.2f}), "
        f"because the last layer writes shorter rows; that of unit rows rises, from {first:.2f} to {last:.2f} "
        f"({rise['resultant'].value:+.2f}), as figure 10 does. Padding multiplies (5.1) by {ratio:.1f}.",
        when=decided(m.released.index_error < 1e-9 and rise["cone"].high < 0.2 and rise["resultant"].low > 0.6
                     and ratio > 2, *rise.values()))


@claim("B-80")
def cone_index_has_bounds(m: Measured) -> Outcome:
    """The index lies between 0 and the sum of the lengths, and its square is a sum over pairs of rows."""
    identities = m.cone.identities
    return reproduced(
        "Identity to the pairwise products and mean cosine from the resultant length to 1e-12; bounds and invariances "
        "are proved above and tested.",
        when=identities.square_error < 1e-12 and identities.cosine_error < 1e-12
        and identities.index <= identities.bound)


@claim("B-81")
def cone_index_rises(m: Measured) -> Outcome:
    """The cone index rises with depth, which shows that subspaces are learned."""
    rise, climb, cosine = m.cone.rise["trained"], m.cone.climb, m.rungs["mean cosine"]
    classifier = m.classifier.trained["cosine"]
    scaled = {rung: np.diff(cosine.controls[rung][:, [0, -1]]).min() for rung in (LARGE, PERMUTED)}
    return conditional(
        f"It rises in the classifier (mean cosine {classifier[0]:.2f} to {classifier[-1]:.2f}, control "
        f"{m.classifier.control['cosine'][0]:.2f} to {m.classifier.control['cosine'][-1]:.2f}). In MiniLM the printed "
        f"form does not (rank correlation with depth {rise['cone'].value:+.2f}), that of plain rows does "
        f"({rise['cone_bare'].value:+.2f}). But the rise shows no learning: the mean cosine climbs by "
        f"{climb['trained']:.2f} in MiniLM and by {climb['control']:.2f} in its random control, and by "
        f"{min(scaled.values()):.2f} or more with random or permuted weights as large as the trained ones. What "
        "training adds is that rows stay apart.",
        when=decided(rise["cone"].high < 0.2 and rise["cone_bare"].low > 0.6 and classifier[-1] > classifier[0] + 0.3
                     and min(scaled.values()) > 2 * climb["trained"] > 10 * climb["control"], *rise.values()))


@claim("B-82")
def singular_values_rise(m: Measured) -> Outcome:
    """The largest singular value of head outputs rises with depth."""
    rise, rank, largest = m.spectra.rise, m.spectra.stable_rank["trained"], m.rungs["largest singular value"]
    classifier, at_end = m.classifier.trained["largest"], largest.documents
    dips = (at_end[:, -1] < at_end[:, -2]).mean()
    scaled = {rung: np.diff(largest.controls[rung][:, [0, -1]]).min() for rung in (LARGE, PERMUTED)}
    return conditional(
        f"In the classifier from {classifier[0]:.0f} to {classifier[-1]:.0f} (control "
        f"{m.classifier.control['largest'][0]:.0f} to {m.classifier.control['largest'][-1]:.0f}). In MiniLM the rank "
        f"correlation with depth is {rise['trained'].value:+.2f} ({rise['control'].value:+.2f} in the random control), "
        f"but the last layer falls back in {dips:.0%} of the documents, and stable rank falls from {rank[1, 0]:.1f} in "
        f"layer 1 to {rank[-1, 0]:.1f}: heads select one direction more, not fewer. Nor is the rise learned: over the "
        f"root of the rows it is {np.diff(at_end.mean(0)[[0, -1]])[0]:.1f} in MiniLM and {min(scaled.values()):.1f} "
        "or more with weights as large, random or permuted.",
        when=decided(rise["trained"].low > 0.7 and rank[1, 1] > rank[-1, 2] and dips > 0.5
                     and classifier[-1] > 1.5 * classifier[0]
                     and min(scaled.values()) > 2 * np.diff(at_end.mean(0)[[0, -1]])[0], *rise.values(), rank))


def _phrase(estimate: Interval) -> str:
    return f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"


@claim("B-84")
def low_entropy_is_information(m: Measured) -> Outcome:
    """The entropy of a map measures the information that its head has captured."""
    effects, first, last = m.effects, m.effects.within[0], m.effects.within[-1]
    linked, deep = effects.with_entropy["trained"], effects.with_depth
    sharp = max(m.entropies.ideal[name].row_entropy for name in ("directional", "open (identity)")) < 1e-9
    gates, noise = m.released.gates, m.released.noise
    closed, cluster = gates["closed"].whole, gates["cluster"].whole
    sharpest = max(gates[name].whole for name in SHARP_GATES)
    faint, strong = noise[min(noise)].whole, noise[max(noise)].whole
    linked_layers = [layer for layer, estimate in enumerate(effects.within) if estimate.high < 0]
    return conditional(
        "Not by itself: directional gate and identity have entropy 0 and carry one vector, or nothing from "
        "elsewhere. The effect of making a head uniform goes with low entropy in the first and last layer "
        f"({_phrase(first)}, {_phrase(last)}, rank correlation, intervals over texts), in none between; over "
        f"{effects.sink.size} heads it is {_phrase(linked)}, with depth {deep['trained'].value:+.2f} (control "
        f"{deep['control'].value:+.2f}). Levelling measures the distance from uniform; silenced, heads of *high* "
        f"entropy matter more ({_phrase(m.silenced.zero)}, interval over heads). That is of rows. "
        "By the released code's entropy, of the histogram of a map's entries, the "
        f"sharp gates have next to none ({sharpest:.3f} at most) and faint noise has most ({faint:.1f} "
        f"of {np.log(BINS):.1f}), as the paper wants; but the closed gate, which it calls the maximum, has "
        f"{closed:.0f}, and strong noise {strong:.2f}, less than a cluster ({cluster:.2f}).",
        when=decided(closed == 0 and sharpest < strong < cluster < faint and sharp
                     and linked_layers == [0, len(effects.within) - 1] and linked.low > -0.25
                     and m.silenced.zero.low > 0
                     and deep["trained"].low > 0.5 and deep["control"].high < 0
                     and max(effects.chance[0], effects.chance[-1]) < 0.02,
                     *effects.within, linked, *deep.values()))


@claim("B-85")
def entropy_rises_with_depth(m: Measured) -> Outcome:
    """Lower layers have a low entropy, upper layers a high one."""
    trained, control = m.entropies.row["trained"], m.entropies.row["control"]
    keys, falling = m.released.minimal_keys, int((m.released.value_rises < 0).sum())
    ladder, classifier = m.rungs["row entropy"], m.classifier.trained["entropy"]
    sharp = ladder.controls[SHARP].mean(0)
    return conditional(
        f"Relative row entropy by layer: {enumerated(trained[:, 0], '.2f')}. It rises from layer 1 on; the first "
        "layer is an exception, as spread out as the last. (Read as row entropy; the paper gives no formula.) The "
        f"random control is at {control[:, 0].min():.3f} or more, and with queries and keys as large at "
        f"{sharp[0]:.2f} to {sharp[-1]:.2f}, rising too: the level is a matter of scale. The classifier is lowest in "
        f"the middle ({enumerated(classifier, '.2f')}). The authors' own record of how many keys hold 0.90 of a "
        "row of recomputed maps says the same of their classifier: "
        f"{enumerated(keys, '.0f')} of 512 by layer, lowest in the third. By "
        "the released code's entropy it is the other way round on our variant classifier: it falls with depth in "
        f"{falling} of {len(m.released.value_rises)} classes.",
        when=decided(keys.argmin() == 2 and keys[-1] > keys[0] > keys[2] and falling > len(m.released.value_rises) / 2
                     and trained[0, 1] > trained[1:5, 2].max() and trained[-1, 1] > trained[1, 2]
                     and sharp[-1] > sharp[0] + 0.1 and 3 <= classifier.argmin() <= 8, trained))


@claim("B-86")
def total_is_gaussian(m: Measured) -> Outcome:
    """The sum of all rows of all layers is normal and centred at zero."""
    D, padded, critical = m.total.D, m.total.D_padded["trained"], m.threshold.critical
    classifier = m.classifier.trained["D_total"].mean()
    scaled = max(values.max() for values in m.rungs["total"].controls.values())
    return conditional(
        "Centred by arithmetic (plain rows have mean 0). Gaussian in the classifier trained from random weights (D "
        f"{classifier:.3f}, critical value {m.classifier.critical:.3f}), in MiniLM in "
        f"{(D['trained'] <= critical).mean():.0%} of the texts (D {D['trained'].mean():.3f}; with padding "
        f"{padded.mean():.3f}), in its random control in {(D['control'] <= critical).mean():.0%}; random, as large or "
        f"permuted weights give {scaled:.3f} at most.",
        when=(D["trained"] > critical).all() and (padded > critical).all() and scaled < D["trained"].min()
        and (D["control"] <= critical).mean() > 0.9 and m.total.plain_mean["trained"] < 1e-5
        and classifier < m.classifier.critical)
