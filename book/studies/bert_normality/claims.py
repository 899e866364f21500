"""The verdicts on what the paper says of normality, the cone index, singular values and entropy."""

from collections.abc import Sequence

import numpy as np

from analysis.statistics.intervals import Interval
from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.publish.phrases import enumerated
from book.studies.bert_normality.measure import Measured
from book.studies.bert_normality.released import SHARP
from book.studies.bert_normality.rows import PAPER_THRESHOLD, ROUNDING
from book.studies.shared.released_code import BINS


def decided(condition: bool, *intervals: Sequence[float] | np.ndarray) -> bool | None:
    """Return the condition, or ``None`` where it rests on an interval that a single text does not have."""
    return None if any(np.isnan(interval).any() for interval in intervals) else bool(condition)


@claim("B-72")
def rows_are_gaussian(m: Measured) -> Outcome:
    """Rows after the first LayerNorm are Gaussian; only a few fail."""
    trained, plain, control = (m.rows.failing[kind] for kind in ("trained", "plain", "control"))
    padded, unpadded = m.padding.rows["trained"]["with"][:, 0], m.padding.rows["trained"]["without"][:, 0]
    own, coded = m.released.failing["own"], m.released.failing["coded"]
    return not_reproduced(
        f"{trained[:, 0].min():.0%} to {trained[:, 0].max():.0%} of the trained rows fail, depending on the layer "
        f"(plain {plain[:, 0].min():.0%} to {plain[:, 0].max():.0%}). In the control {control[:, 0].min():.1%} to "
        f"{control[:, 0].max():.1%} do, the rate of chance: Gaussian rows are a mark of initialisation. With padding "
        f"rows {padded.min():.0%} to {padded.max():.0%} fail. The released code has no test; its rows 'after the "
        f"first LayerNorm' are not BERT's and pass more easily: {coded.min():.0%} to {coded.max():.0%} fail on six of "
        f"the texts, of BERT's own {own.min():.0%} to {own.max():.0%}.",
        when=decided((coded < own).all() and (padded > unpadded).all() and trained[:, 1].min() > 0.5
                     and plain[:, 1].min() > 0.2 and abs(control[:, 0] - 0.05).max() < 0.01, trained, plain))


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
    critical = m.threshold.critical
    last = trained[-1, 2] < critical < plain[-1, 1]
    last_padded = padded[-1, 1] > critical and fails["with"] > 0.5 > fails["without"]
    return not_reproduced(
        f"D of the sum is {trained[:-1, 0].min():.2f} or more in all layers but the last, against a critical value of "
        f"{critical:.3f}; the control has {control[:, 0].max():.3f} at most. The last layer passes with its gain "
        f"({trained[-1, 0]:.3f}) and fails without ({plain[-1, 0]:.2f}), and with its padding rows too "
        f"({padded[-1, 0]:.3f}, {fails['with']:.0%} of the texts).",
        when=decided(trained[:-1, 1].min() > critical and control[:, 2].max() < critical and last and last_padded,
                     trained, plain, control, padded))


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
    rise, climb, cosine = m.cone.rise["trained"], m.cone.climb, m.cone.cosine
    return conditional(
        f"As printed it does not rise (rank correlation with depth {rise['cone'].value:+.2f}); plain it does "
        f"({rise['cone_bare'].value:+.2f}). Mean cosine rises by {climb['trained']:.2f}, in the control by "
        f"{climb['control']:.2f}, but the control is more aligned in every layer, by its shared token-type vector.",
        when=decided(rise["cone"].high < 0.2 and rise["cone_bare"].low > 0.6 and climb["trained"] > 5 * climb["control"]
                     and (cosine["control"][:, 0] > cosine["trained"][:, 0]).all(), *rise.values()))


@claim("B-82")
def singular_values_rise(m: Measured) -> Outcome:
    """The largest singular value of head outputs rises with depth."""
    rise, rank = m.spectra.rise, m.spectra.stable_rank["trained"]
    return conditional(
        f"Rank correlation with depth {rise['trained'].value:+.2f} in the trained model, {rise['control'].value:+.2f} "
        f"in the control. But stable rank falls from {rank[1, 0]:.1f} in layer 1 to {rank[-1, 0]:.1f}: heads select "
        "one direction more, not fewer.",
        when=decided(rise["trained"].low > 0.7 and rise["control"].high < 0.5 and rank[1, 1] > rank[-1, 2],
                     *rise.values(), rank))


def _phrase(estimate: Interval) -> str:
    return f"{estimate.value:+.2f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"


@claim("B-84")
def low_entropy_is_information(m: Measured) -> Outcome:
    """The entropy of a map measures the information that its head has captured."""
    effects, first, last = m.effects, m.effects.within[0], m.effects.within[-1]
    linked, deep = effects.with_entropy["trained"], effects.with_depth
    sharp = max(m.entropies.ideal[name].row_entropy for name in ("directional", "open (identity)")) < 1e-9
    gates, noise = m.released.gates, m.released.noise
    closed, cluster, sharpest = gates["closed"].whole, gates["cluster"].whole, max(gates[name].whole for name in SHARP)
    faint, strong = noise[min(noise)].whole, noise[max(noise)].whole
    linked_layers = [layer for layer, estimate in enumerate(effects.within) if estimate.high < 0]
    return conditional(
        "Not by itself: directional gate and identity have entropy 0 and carry one vector, or nothing from "
        "elsewhere. The effect of making a head uniform goes with low entropy in the first and last layer "
        f"({_phrase(first)}, {_phrase(last)}, rank correlation, intervals over texts), in none between; over "
        f"{effects.sink.size} heads it is {_phrase(linked)}, with depth {deep['trained'].value:+.2f} (control "
        f"{deep['control'].value:+.2f}). That is of rows. By the released code's entropy, of the histogram of a map's "
        f"entries, the sharp gates have next to none ({sharpest:.3f} at most) and faint noise has most ({faint:.1f} "
        f"of {np.log(BINS):.1f}), as the paper wants; but the closed gate, which it calls the maximum, has "
        f"{closed:.0f}, and strong noise {strong:.2f}, less than a cluster ({cluster:.2f}).",
        when=decided(closed == 0 and sharpest < strong < cluster < faint and sharp
                     and linked_layers == [0, len(effects.within) - 1] and linked.low > -0.25
                     and deep["trained"].low > 0.5 and deep["control"].high < 0
                     and max(effects.chance[0], effects.chance[-1]) < 0.02,
                     *effects.within, linked, *deep.values()))


@claim("B-85")
def entropy_rises_with_depth(m: Measured) -> Outcome:
    """Lower layers have a low entropy, upper layers a high one."""
    trained, control = m.entropies.row["trained"], m.entropies.row["control"]
    keys, falling = m.released.minimal_keys, int((m.released.value_rises < 0).sum())
    return conditional(
        f"Relative row entropy by layer: {enumerated(trained[:, 0], '.2f')}. It rises from layer 1 on; the first "
        "layer is an exception, as spread out as the last. (Read as row entropy; the paper gives no formula.) The "
        f"control is at {control[:, 0].min():.3f} or more. The authors' own record of how many keys hold 0.90 of a "
        "row of recomputed maps says the same of their classifier: "
        f"{enumerated(keys, '.0f')} of 512 by layer, lowest in the third. By "
        "the released code's entropy it is the other way round on our variant classifier: it falls with depth in "
        f"{falling} of {len(m.released.value_rises)} classes.",
        when=decided(keys.argmin() == 2 and keys[-1] > keys[0] > keys[2] and falling > len(m.released.value_rises) / 2
                     and trained[0, 1] > trained[1:5, 2].max() and trained[-1, 1] > trained[1, 2], trained))


@claim("B-86")
def total_is_gaussian(m: Measured) -> Outcome:
    """The sum of all rows of all layers is normal and centred at zero."""
    D, padded, critical = m.total.D, m.total.D_padded["trained"], m.threshold.critical
    return not_reproduced(
        "Centred by arithmetic (plain rows have mean 0). Gaussian in "
        f"{(D['trained'] <= critical).mean():.0%} of the texts (D {D['trained'].mean():.3f}; with padding "
        f"{padded.mean():.3f}), in the control in {(D['control'] <= critical).mean():.0%}.",
        when=(D["trained"] > critical).all() and (padded > critical).all()
        and (D["control"] <= critical).mean() > 0.9 and m.total.plain_mean["trained"] < 1e-5)
