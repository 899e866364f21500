"""The claims of section 4 of "The geometry of BERT" about the patterns of attention maps."""

import numpy as np

from analysis.maps import gates
from analysis.models.controls import RUNGS
from analysis.statistics.intervals import FEWEST
from analysis.surveys.map_counts import PRESENT
from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.publish.phrases import enumerated, percent
from book.studies.bert_gates.controls import SHARP
from book.studies.bert_gates.gate_census import GateCensus
from book.studies.bert_gates.ideal_gates import LONG_CHANNELS, LONG_POSITIONS
from book.studies.bert_gates.measure import Measured
from book.studies.shared.documents import LADDER
from book.studies.shared.nearest_classifier import NEAREST, START, Nearest

EXACT = 1e-12       # errors of sums and products of a few numbers in float64
APART = 1e-3        # two outputs that are not the same differ by more


def too_few_texts(census: GateCensus, *names: str) -> str:
    """Say which of the ratios have too few texts for an interval; empty where all have enough."""
    few = {name: ratio for name in names if (ratio := census.trained.ratios[name]).texts < FEWEST}
    shares = {name: "" if np.isnan(ratio.value) else f"{ratio.value:.0%} " for name, ratio in few.items()}
    ratios = ", ".join(f"{name} {shares[name]}({ratio.texts} of {len(census.trained.lengths)} texts)"
                       for name, ratio in few.items())
    return f"Too few texts to tell, an interval needs {FEWEST}: {ratios}." if few else ""


@claim("B-38")
def entries_follow_the_rules(m: Measured) -> Outcome:
    """Entries of a pattern are as large as they can be, other entries of its rows are 0, all other rows are uniform."""
    printed = m.ideal.printed
    others = {name: count for name, count in printed.against_rules.items() if name != "cluster"}
    return reproduced(
        f"Made by the rules from the cells of its pattern alone, each of the {printed.all - printed.gates['cluster']} "
        "gates of 2 to 6 positions is the printed one, in whole fractions. The exception is the printed cluster, all "
        f"{printed.against_rules['cluster']} of them: its k + 1 entries of a row are 1/k, against the rule (B-55).",
        when=not any(others.values()) and printed.against_rules["cluster"] == printed.gates["cluster"] > 0)


@claim("B-39")
def vertical_gate_is_an_outer_product(m: Measured) -> Outcome:
    """The vertical gate is 1 e_i^T."""
    column, printed = m.ideal.column, m.ideal.printed
    return reproduced(
        f"All {printed.gates['directional']} printed ones of 2 to 6 positions have rank 1 and copy one value, exactly; "
        "the outer product 1 e_i^T has entropy 0 in every row.",
        when=printed.ranks["directional"] == [1] and printed.wrong_outputs["directional"] == 0
        and column.form_error < EXACT and column.entropy == 0)


@claim("B-40")
def vertical_gate_repeats_one_value(m: Measured) -> Outcome:
    """The output of the vertical gate is 1 (v^i)^T, of rank 1."""
    column = m.ideal.column
    return reproduced("S V repeats one value; rank 1 for a random V.",
                      when=column.output_error < EXACT and column.output_rank == 1)


@claim("B-43")
def open_gate_changes_nothing(m: Measured) -> Outcome:
    """The open gate is the identity, and its output is V."""
    printed = m.ideal.printed
    return reproduced("The printed S, for 2 to 6 positions, hands out V itself for whole values, exactly; for 12 "
                      "positions and random values to 1e-12.",
                      when=printed.wrong_outputs["open"] == 0 and m.ideal.open.output_error < EXACT)


@claim("B-44")
def open_gate_has_full_rank(m: Measured) -> Outcome:
    """The open gate has full rank, and changes neither rank nor entropy."""
    gate = m.ideal.open
    return reproduced(
        f"Rank {gate.rank} of {m.ideal.positions}, entropy 0 in every row, rank of V kept.",
        when=gate.rank == m.ideal.positions and gate.entropy == 0 and gate.output_rank == gate.values_rank)


@claim("B-47")
def sub_diagonal_ends_a_column_later(m: Measured) -> Outcome:
    """The last row of the sub-diagonal gate has its 1 in column n-j."""
    back = m.ideal.backward
    return corrected(
        "The last 1 stands in column n-j+1; from (j, 1) to the printed (n, n-j) there is no diagonal, for any j.",
        when=(back.rows_down != back.columns_right).all()
        and (back.last_column == m.ideal.positions - back.j + 1).all())


@claim("B-48")
def sub_diagonal_moves_values_down(m: Measured) -> Outcome:
    """The output of the sub-diagonal gate is j-1 mean rows, then v^1 to v^{n-(j-1)}."""
    return reproduced("j-1 mean rows, then the first n-j+1 values, for every j.",
                      when=m.ideal.backward.output_error < EXACT)


@claim("B-49")
def sub_diagonal_lowers_the_rank_of_few_rows_only(m: Measured) -> Outcome:
    """The first j-1 rows are equal, and so the rank of V has strictly decreased."""
    back, n, values_rank = m.ideal.backward, m.ideal.positions, m.ideal.open.values_rank
    return conditional(
        f"rank S = n-j+2: n for j = 2 (ranks {back.ranks[:3].tolist()}, n = {n}). The rank of S V falls below that of "
        f"V only if fewer independent rows are left than V has dimensions: with {LONG_POSITIONS} rows in "
        f"{LONG_CHANNELS} it stays {back.long_output_rank}.",
        when=(back.ranks == n - back.j + 2).all() and back.long_output_rank == LONG_CHANNELS
        and back.few_rows_rank == 3 < values_rank)


@claim("B-50")
def sub_diagonal_points_back_by_one_less(m: Measured) -> Outcome:
    """Attention points back by j positions."""
    printed = m.ideal.printed
    return corrected(
        f"By j-1, in every row of the pattern of all {printed.gates['backward']} printed gates of 2 to 6 positions: "
        "the first 1 stands in row j and column 1. The printed output, v^1 in row j, says the same and comes out "
        "exactly.",
        when=printed.points_back == [-1] and printed.wrong_outputs["backward"] == 0)


@claim("B-52")
def super_diagonal_ends_in_another_row(m: Measured) -> Outcome:
    """The last pattern row of the super-diagonal gate is row j."""
    ahead = m.ideal.forward
    fits = ahead.rows_down == ahead.columns_right
    return corrected("The last pattern row is n-j+1; the printed label j fits a diagonal only if 2j = n+1.",
                     when=(ahead.last_row == ahead.n - ahead.j + 1).all()
                     and (fits == (2 * ahead.j == ahead.n + 1)).all() and fits.any())


@claim("B-53")
def super_diagonal_moves_values_up(m: Measured) -> Outcome:
    """The output of the super-diagonal gate is v^j to v^n, then j-1 mean rows; the rest is as for the sub-diagonal."""
    ahead = m.ideal.forward
    return reproduced(
        "v^j..v^n, then j-1 mean rows, for every j; reversing both axes turns it into the sub-diagonal gate.",
        when=ahead.output_error < EXACT and ahead.flip_error < EXACT)


@claim("B-55")
def block_has_one_column_more(m: Measured) -> Outcome:
    """A block of columns i to i+k has the entries 1/k."""
    block = m.ideal.block
    return corrected(
        f"Columns i..i+k are k+1; with entries 1/k a row sums to {block.printed_row_sums[0]:.2f} for k = {block.k}. "
        "Entries 1/(k+1).",
        when=np.allclose(block.printed_row_sums, (block.k + 1) / block.k) and block.rescaled_error < EXACT)


@claim("B-56")
def block_rows_are_means(m: Measured) -> Outcome:
    """The block rows of the output are the mean of v^i to v^{i+k}, and only they carry processed information."""
    block = m.ideal.block
    return corrected(
        "With entries 1/(k+1) block rows are the mean of v^i..v^{i+k}, all others the mean of all values; as printed "
        "they are (k+1)/k times it.",
        when=block.output_error < EXACT and block.printed_output_error < EXACT)


@claim("B-57")
def cluster_is_short_vertical_lines(m: Measured) -> Outcome:
    """A cluster is the coexistence of short vertical lines."""
    printed = m.ideal.printed
    return reproduced(
        f"All {printed.gates['cluster']} clusters of 2 to 6 positions are, exactly, the mean of their short vertical "
        "lines, each as high as the block. With the printed entries 1/k (B-55) none is.",
        when=printed.lines == 0 and printed.printed_lines == printed.gates["cluster"]
        and m.ideal.block.lines_error < EXACT)


@claim("B-59")
def instance_gate_has_one_sharp_row(m: Measured) -> Outcome:
    """Row j of the instance gate is e_i^T, all others are uniform."""
    point, printed = m.ideal.instance, m.ideal.printed
    return reproduced(
        f"All {printed.gates['instance']} printed ones of 2 to 6 positions are what the rules make of one cell, and "
        f"have rank 2. Entropy is 0 in {point.rows_without_entropy} row of {m.ideal.positions} and ln n in the others.",
        when=printed.against_rules["instance"] == 0 and printed.ranks["instance"] == [2]
        and point.rows_without_entropy == 1 and point.rows_of_largest_entropy == m.ideal.positions - 1)


@claim("B-60")
def instance_sentence_swaps_the_indices(m: Measured) -> Outcome:
    """Row j of the output is (v^i)^T, "location (i) and components (j)"."""
    point = m.ideal.instance
    return corrected(
        "The formula holds: row j is v^i, the rest means. The sentence swaps the indices: the place is j, the "
        "components are those of i.",
        when=point.output_error < EXACT and point.swapped_difference > APART)


@claim("B-62")
def closed_gate_has_the_largest_entropy(m: Measured) -> Outcome:
    """The closed gate is uniform and has the largest entropy."""
    closed = m.ideal.closed
    return reproduced("Every row has entropy ln n, the largest possible.",
                      when=closed.entropy_error < EXACT and closed.other_entropy < np.log(m.ideal.positions))


@claim("B-63")
def closed_output_is_the_mean(m: Measured) -> Outcome:
    """The output of the closed gate is the mean in every row, printed as S_P V."""
    printed = m.ideal.printed
    return corrected(
        "The right side is the output of S_ME, exactly. Of the left side as printed, S_P V, it is so for "
        f"{printed.other_side['closed']} of {printed.gates['instance']} gates of 2 to 6 positions.",
        when=printed.wrong_outputs["closed"] == printed.other_side["closed"] == 0
        and m.ideal.closed.output_error < EXACT and m.ideal.closed.instance_difference > APART)


@claim("B-65")
def outputs_of_mixtures_add(m: Measured) -> Outcome:
    """The output is linear, so overlapping patterns can be treated one by one."""
    mixture = m.ideal.mixture
    return conditional("The output is the sum of the outputs where the parts have convex weights in every row. A plain "
                       f"sum of gates is no map: rows of the identity and a column add up to "
                       f"{mixture.plain_row_sum:.0f}.",
                       when=mixture.output_error < EXACT and mixture.row_sum_error < EXACT
                       and mixture.plain_row_sum > 1 + APART)


@claim("B-66")
def decomposition_is_a_convention(m: Measured) -> Outcome:
    """A decomposition into pure patterns suffices."""
    mixture = m.ideal.mixture
    return conditional(
        "Outputs add, but the parts are a convention: S_ME is the mean of n directional gates, any map a mixture of "
        "them; and entropy exceeds that of the parts.",
        when=mixture.closed_of_columns_error < EXACT and mixture.mixture_of_columns_error < EXACT
        and mixture.entropy_gain > -EXACT)


@claim("B-68")
def inverse_gate_has_one_row_of_few_entries(m: Measured) -> Outcome:
    """Only row j of the inverse directional gate differs from uniform, with a few non-zero entries."""
    inverse = m.ideal.inverse
    return corrected(
        "One row with |K| entries 1/|K|, all others uniform. (4.15) leaves the entries open; with 1, as in the "
        f"instance gate, the row sums to {inverse.ones_row_sum:.0f}.",
        when=inverse.entries == 3 and inverse.row_sum_error < EXACT and inverse.other_rows_error < EXACT
        and inverse.ones_row_sum > 1 + APART)


@claim("B-69")
def inverse_output_is_a_mean_of_few(m: Measured) -> Outcome:
    """Row j of the output is the mean over K, printed as S_P V."""
    inverse, printed = m.ideal.inverse, m.ideal.printed
    return corrected(
        "Row j of S_H V is the mean over K. The left side is printed S_P V, whose row is one value and never the mean: "
        f"{printed.other_side['inverse directional']} times, over all sets of two keys or more of up to 6 positions.",
        when=inverse.output_error < EXACT and inverse.instance_difference > APART
        and printed.other_side["inverse directional"] == 0)


@claim("B-70")
def inverse_gate_is_a_mean_of_instances(m: Measured) -> Outcome:
    """The inverse directional gate is better read as a composition of instances."""
    inverse, printed = m.ideal.inverse, m.ideal.printed
    return reproduced(
        "S_H is the mean of its |K| instance gates, exactly, for all sets of keys of up to 6 positions, and equals S_P "
        "for |K| = 1. A plain sum of them would be no map (B-65).",
        when=printed.instances == 0 and inverse.instances_error < EXACT and inverse.one_key_error < EXACT)


@claim("B-71")
def entries_are_0_and_1_in_the_limit(m: Measured) -> Outcome:
    """Entries are exactly 0 and 1."""
    softmax, sentence = m.ideal.softmax, m.sentence
    least, middle, most = softmax.off_pattern
    return conditional(
        f"In the limit only: cells off the pattern hold {least:.2f}, {middle:.2f}, {most:.3f} for scores times 1, 10, "
        f"100. In the sentence's maps one weight in {sentence.weights_for_each_near_one:,.0f} exceeds 0.99, and none "
        "is 0.",
        when=(softmax.off_pattern <= softmax.bounds + EXACT).all() and sentence.smallest_weight > 0)


def near_ratio(near: Nearest, name: str, digits: int = 0) -> str:
    """Write a share of what was counted on the nearest model's maps, with its interval over sequences."""
    ratio = near.ratios[name]
    return f"{percent(ratio.value, digits)} ({percent(ratio.low, digits)} to {percent(ratio.high, digits)})"


@claim("B-41")
def vertical_lines_are_mostly_long(m: Measured) -> Outcome:
    """Vertical lines are usually short blocks."""
    if note := too_few_texts(m.census, "short_columns", "short_verticals"):
        return not_reproduced(note, when=None)
    columns, verticals = (m.census.trained.ratios[name] for name in ("short_columns", "short_verticals"))
    near = [m.nearest.ratios[name] for name in ("short_columns", "short_verticals")]
    sharp = {name: m.rungs[name].controls[SHARP].mean() for name in ("columns", "clusters")}
    return not_reproduced(
        f"{NEAREST}{near_ratio(m.nearest, 'short_columns')} of what columns carry lies on lines under half of the "
        "map's height; with clusters counted as short columns side by side (B-57) "
        f"{near_ratio(m.nearest, 'short_verticals')}. In MiniLM on text it is {columns.value:.0%} and "
        f"{verticals.value:.0%} ({verticals.low:.0%} to {verticals.high:.0%}). Random weights show neither; with "
        f"queries and keys as large they have columns ({sharp['columns']:.0%} of the attention), and next to no "
        f"clusters ({sharp['clusters']:.1%}).",
        when=max(each.high for each in near) < 0.5 and max(columns.high, verticals.high) < 0.5
        and sharp["columns"] > 0.1 > 10 * sharp["clusters"] / 2)


@claim("B-45")
def diagonals_do_not_break_at_their_end(m: Measured) -> Outcome:
    """The diagonal breaks in the last dozen tokens."""
    if note := too_few_texts(m.census, "end_of_diagonal"):
        return not_reproduced(note, when=None)
    end, counts, near = m.census.trained.ratios["end_of_diagonal"], m.census.trained.counts, m.nearest
    weight = near.ratios["end_of_diagonal"]
    return not_reproduced(
        f"{NEAREST}maps with an open share of 5 % ({near.counts['open_maps']} of {near.counts['maps']}) hold more, not "
        f"less, in the last dozen cells of the diagonal: {weight.value:.1f} times the others' weight ({weight.low:.1f} "
        f"to {weight.high:.1f}). In MiniLM on text ({counts['open_maps']} of {counts['maps']}) it is {end.value:.0%} "
        f"({end.low:.0%} to {end.high:.0%}): no interruption. No control has such maps, nor has the classifier trained "
        "from random weights.",
        when=min(weight.low, end.low) > 0.6 and m.classifier.diagonals < PRESENT
        and all(near.control_gates[rung][..., gates.GATES.index("open")].max() < PRESENT for rung in RUNGS))


@claim("B-51")
def sub_diagonals_are_shorter_than_their_line(m: Measured) -> Outcome:
    """The sub-diagonal is usually shorter than n-(j-1)."""
    if note := too_few_texts(m.census, "run_covers"):
        return reproduced(note, when=None)
    run, near = m.census.trained.ratios["run_covers"], m.nearest
    return reproduced(
        f"{NEAREST}the longest run covers {near_ratio(near, 'run_covers')} of its line on average "
        f"({near.counts['lines']} lines), in MiniLM on text {run.value:.0%} ({run.low:.0%} to {run.high:.0%}). "
        f"The detector does not break lines: of full diagonals that were drawn it finds "
        f"{m.calibration.covered.min():.0%}. The classifier trained from random weights has no such lines, nor have "
        "the controls.",
        when=max(near.ratios["run_covers"].high, run.high) < 0.95 < m.calibration.covered.min()
        and m.census.control.counts["lines"] == 0 and m.classifier.diagonals < PRESENT)


@claim("B-54")
def sub_and_super_diagonals_come_with_each_other(m: Measured) -> Outcome:
    """Sub- and super-diagonals usually do not occur alone, but with the main diagonal."""
    if note := too_few_texts(m.census, "in_company"):
        return conditional(note, when=None)
    trained, near = m.census.trained, m.nearest
    diagonal, company = (trained.ratios[name] for name in ("open_with_either", "in_company"))
    return conditional(
        f"Not alone, but not usually with the main diagonal either. {NEAREST}of {near.counts['either']} maps with a "
        f"sub- or super-diagonal {near_ratio(near, 'in_company')} have the other of the two or the main diagonal, and "
        f"{near_ratio(near, 'open_with_either')} the main diagonal, which the paper calls the usual case. In MiniLM on "
        f"text, of {trained.counts['either']}, it is {company.value:.0%} ({company.low:.0%} to {company.high:.0%}) and "
        f"{diagonal.value:.0%}: most occur alone. The classifier trained from random weights and the random control "
        "have none.",
        when=near.ratios["in_company"].low > 0.5 > near.ratios["open_with_either"].high
        and near.ratios_by_seed["in_company"].min() > 0.5 > near.ratios_by_seed["open_with_either"].max()
        and company.high < 0.5 and m.census.control.counts["either"] == 0 and m.classifier.diagonals < PRESENT)


@claim("B-61")
def points_are_low_and_not_always_common(m: Measured) -> Outcome:
    """Sparse low points are common and less significant."""
    if note := too_few_texts(m.census, "weak_points"):
        return conditional(note, when=None)
    weak, mass, on_a_map = (m.census.trained.ratios[name] for name in ("weak_points", "point_mass", "points_a_map"))
    near, by_seed = m.nearest.ratios, m.nearest.ratios_by_seed["points_a_map"]
    controls = max(m.nearest.control_ratios[rung]["points_a_map"].max() for rung in RUNGS)
    by_chance = m.census.trained.shuffled_shares[:, gates.GATES.index("instance")].mean()
    return conditional(
        f"Of low value they are. {NEAREST}{near_ratio(m.nearest, 'weak_points')} of the points hold less than half of "
        f"their row, and all together {near['point_mass'].value:.2%} of the attention; in MiniLM on text "
        f"{weak.value:.0%} and {mass.value:.2%}, less than shuffled rows give them ({by_chance:.2%}). Common they are "
        f"in one of two trainings: {enumerated(by_seed, '.2f')} a map exceed the tail of their map's noise, "
        f"{on_a_map.value:.2f} in MiniLM and at most {controls:.2f} in a control.",
        when=min(weak.low, near["weak_points"].low) > 0.5 and by_seed.max() > 1 > by_seed.min() > controls
        and on_a_map.high < 0.5 and max(mass.value, near["point_mass"].value) < by_chance)


@claim("B-64")
def closed_heads_are_not_idle(m: Measured) -> Outcome:
    """A closed gate conveys no information, its head plays no helpful role, and the skip connection carries on."""
    ablation, median, control = m.ablation, m.ablation.medians, m.ablation.effects["control"]
    if not (ablation.closed_heads and ablation.others_in_first_layer):
        return conditional("Nothing to compare: no head is half closed, or all heads of layer 0 are.", when=None)
    return conditional(
        f"A closed map carries little: levelling moves the embedding by {median.level_closed:.4f}, but so does "
        f"levelling other heads of layer 0 ({median.level_peers:.4f}), where all closed heads are. The head is not "
        f"idle: silencing moves it by {median.zero_closed:.4f} (its peers {median.zero_peers:.4f}). Its mean is used.",
        when=ablation.closed_in_first_layer == ablation.closed_heads
        and median.zero_closed > 2 * median.level_closed and median.zero_closed > 0.5 * median.zero_peers
        and control["uniform"].max() < 0.1 * control["zero"].min())


@claim("B-67")
def most_maps_are_compositions(m: Measured) -> Outcome:
    """Compositions are the most common case."""
    if note := too_few_texts(m.census, "composed"):
        return reproduced(note, when=None)
    composed, ladder, near = m.census.trained.ratios["composed"], m.rungs["maps with two or more"], m.nearest
    most = max(ladder.range_of(rung)[1] for rung in LADDER)
    own = {rung: ratios["composed"] for rung, ratios in near.control_ratios.items()}
    return reproduced(
        f"{NEAREST}{near_ratio(near, 'composed')} of the maps hold two gates or more of at least 5 %, and of its "
        f"start, before any gene, {percent(own[START].mean())}: compositions come with the text. In MiniLM on text "
        f"{composed.value:.0%} do; in no seed of any control more than "
        f"{max(most, *(own[rung].max() for rung in RUNGS)):.0%}. In the classifier trained from random weights the "
        f"most common case is one pattern: {m.classifier.composed:.0%} of its maps hold two or more, "
        f"{m.classifier.patterned:.0%} one or more.",
        when=near.ratios["composed"].low > 0.5 and near.ratios_by_seed["composed"].min() > 0.5 < composed.low
        and max(most, *(own[rung].max() for rung in RUNGS)) < 0.5)
