"""The claims about the ideal gates: what their formulas come to, and what a softmax can reach."""

import numpy as np

from book.publish import Outcome, claim, conditional, corrected, not_testable, reproduced
from book.studies.bert_gates.ideal_gates import LONG_CHANNELS, LONG_POSITIONS
from book.studies.bert_gates.measure import Measured

EXACT = 1e-12  # errors of sums and products of a few numbers in float64
APART = 1e-3  # two outputs that are not the same differ by more


@claim("B-38")
def entries_follow_the_rules(m: Measured) -> Outcome:
    """Entries of a pattern are as large as they can be, other entries of its rows are 0, all other rows are uniform."""
    printed = m.ideal.printed
    others = {name: count for name, count in printed.against_rules.items() if name != "cluster"}
    return reproduced(
        f"The rules make each of the {printed.all - printed.gates['cluster']} printed gates of 2 to 6 "
        "positions but the cluster, in whole fractions.",
        more=(
            "They are made from the cells of the pattern alone. The exception is the printed cluster, all "
            f"{printed.against_rules['cluster']} of them: its $k+1$ entries of a row are $1/k$, against the rule "
            "(B-55)."
        ),
        when=not any(others.values()) and printed.against_rules["cluster"] == printed.gates["cluster"] > 0,
    )


@claim("B-39")
def vertical_gate_is_an_outer_product(m: Measured) -> Outcome:
    """The vertical gate is 1 e_i^T."""
    column, printed = m.ideal.column, m.ideal.printed
    return reproduced(
        f"All {printed.gates['directional']} printed ones of 2 to 6 positions have rank 1 and copy one value, exactly.",
        more=(r"The outer product $\mathbf 1e_i^\mathsf T$ has entropy 0 in every row."),
        when=printed.ranks["directional"] == [1]
        and printed.wrong_outputs["directional"] == 0
        and column.form_error < EXACT
        and column.entropy == 0,
    )


@claim("B-40")
def vertical_gate_repeats_one_value(m: Measured) -> Outcome:
    """The output of the vertical gate is 1 (v^i)^T, of rank 1."""
    column = m.ideal.column
    return reproduced(
        "$SV$ repeats one value; rank 1 for a random $V$.", when=column.output_error < EXACT and column.output_rank == 1
    )


@claim("B-43")
def open_gate_changes_nothing(m: Measured) -> Outcome:
    """The open gate is the identity, and its output is V."""
    printed = m.ideal.printed
    return reproduced(
        "The printed $S$, for 2 to 6 positions, hands out $V$ itself for whole values, exactly; for 12 "
        "positions and random values to 1e-12.",
        when=printed.wrong_outputs["open"] == 0 and m.ideal.open.output_error < EXACT,
    )


@claim("B-44")
def open_gate_has_full_rank(m: Measured) -> Outcome:
    """The open gate has full rank, and changes neither rank nor entropy."""
    gate = m.ideal.open
    return reproduced(
        f"Rank {gate.rank} of {m.ideal.positions}, entropy 0 in every row, rank of $V$ kept.",
        when=gate.rank == m.ideal.positions and gate.entropy == 0 and gate.output_rank == gate.values_rank,
    )


@claim("B-47")
def sub_diagonal_ends_a_column_later(m: Measured) -> Outcome:
    """The last row of the sub-diagonal gate has its 1 in column n-j."""
    back = m.ideal.backward
    return corrected(
        "The last 1 stands in column $n-j+1$; from $(j,1)$ to the printed $(n,n-j)$ there is no diagonal, for any $j$.",
        when=(back.rows_down != back.columns_right).all()
        and (back.last_column == m.ideal.positions - back.j + 1).all(),
    )


@claim("B-48")
def sub_diagonal_moves_values_down(m: Measured) -> Outcome:
    """The output of the sub-diagonal gate is j-1 mean rows, then v^1 to v^{n-(j-1)}."""
    return reproduced(
        "$j-1$ mean rows, then the first $n-j+1$ values, for every $j$.", when=m.ideal.backward.output_error < EXACT
    )


@claim("B-49")
def sub_diagonal_lowers_the_rank_of_few_rows_only(m: Measured) -> Outcome:
    """The first j-1 rows are equal, and so the rank of V has strictly decreased."""
    back, n, values_rank = m.ideal.backward, m.ideal.positions, m.ideal.open.values_rank
    return conditional(
        f"The rank of $S$ is $n-j+2$, so $n$ for $j=2$, and that of $SV$ with {LONG_POSITIONS} rows in "
        f"{LONG_CHANNELS} stays {back.long_output_rank}.",
        more=(
            f"The first ranks of $S$ are {back.ranks[:3].tolist()}, $n={n}$. The rank of $SV$ falls below that of "
            "$V$ only if fewer independent rows are left than $V$ has dimensions."
        ),
        when=(back.ranks == n - back.j + 2).all()
        and back.long_output_rank == LONG_CHANNELS
        and back.few_rows_rank == 3 < values_rank,
    )


@claim("B-50")
def sub_diagonal_points_back_by_one_less(m: Measured) -> Outcome:
    """Attention points back by j positions."""
    printed = m.ideal.printed
    return corrected(
        f"By $j-1$, in every row of the pattern of all {printed.gates['backward']} printed gates of 2 to 6 positions.",
        more=(
            "The first 1 stands in row $j$ and column 1. The printed output, $v^1$ in row $j$, says the same and "
            "comes out exactly."
        ),
        when=printed.points_back == [-1] and printed.wrong_outputs["backward"] == 0,
    )


@claim("B-52")
def super_diagonal_ends_in_another_row(m: Measured) -> Outcome:
    """The last pattern row of the super-diagonal gate is row j."""
    ahead = m.ideal.forward
    fits = ahead.rows_down == ahead.columns_right
    return corrected(
        "The last pattern row is $n-j+1$; the printed label $j$ fits a diagonal only if $2j=n+1$.",
        when=(ahead.last_row == ahead.n - ahead.j + 1).all()
        and (fits == (2 * ahead.j == ahead.n + 1)).all()
        and fits.any(),
    )


@claim("B-53")
def super_diagonal_moves_values_up(m: Measured) -> Outcome:
    """The output of the super-diagonal gate is v^j to v^n, then j-1 mean rows; the rest is as for the sub-diagonal."""
    ahead = m.ideal.forward
    return reproduced(
        r"$v^j,\dots,v^n$, then $j-1$ mean rows, for every $j$; reversing both axes turns it into the "
        "sub-diagonal gate.",
        when=ahead.output_error < EXACT and ahead.flip_error < EXACT,
    )


@claim("B-55")
def block_has_one_column_more(m: Measured) -> Outcome:
    """A block of columns i to i+k has the entries 1/k."""
    block = m.ideal.block
    return corrected(
        "Columns $i$ to $i+k$ are $k+1$, so the entries must be $1/(k+1)$; with $1/k$ a row sums to "
        f"{block.printed_row_sums[0]:.2f} for $k={block.k}$.",
        when=np.allclose(block.printed_row_sums, (block.k + 1) / block.k) and block.rescaled_error < EXACT,
    )


@claim("B-56")
def block_rows_are_means(m: Measured) -> Outcome:
    """The block rows of the output are the mean of v^i to v^{i+k}, and only they carry processed information."""
    block = m.ideal.block
    return corrected(
        r"With entries $1/(k+1)$ block rows are the mean of $v^i,\dots,v^{i+k}$, all others the mean of all values; as "
        "printed they are $(k+1)/k$ times it.",
        when=block.output_error < EXACT and block.printed_output_error < EXACT,
    )


@claim("B-57")
def cluster_is_short_vertical_lines(m: Measured) -> Outcome:
    """A cluster is the coexistence of short vertical lines."""
    printed = m.ideal.printed
    return reproduced(
        f"All {printed.gates['cluster']} clusters of 2 to 6 positions are, exactly, the mean of their short "
        "vertical lines, each as high as the block.",
        more=("With the printed entries $1/k$ (B-55) none is."),
        when=printed.lines == 0
        and printed.printed_lines == printed.gates["cluster"]
        and m.ideal.block.lines_error < EXACT,
    )


@claim("B-59")
def instance_gate_has_one_sharp_row(m: Measured) -> Outcome:
    """Row j of the instance gate is e_i^T, all others are uniform."""
    point, printed = m.ideal.instance, m.ideal.printed
    return reproduced(
        f"All {printed.gates['instance']} printed ones of 2 to 6 positions are what the rules make of one "
        "cell, and have rank 2.",
        more=(rf"Entropy is 0 in {point.rows_without_entropy} row of {m.ideal.positions} and $\ln n$ in the others."),
        when=printed.against_rules["instance"] == 0
        and printed.ranks["instance"] == [2]
        and point.rows_without_entropy == 1
        and point.rows_of_largest_entropy == m.ideal.positions - 1,
    )


@claim("B-60")
def instance_sentence_swaps_the_indices(m: Measured) -> Outcome:
    """Row j of the output is (v^i)^T, "location (i) and components (j)"."""
    point = m.ideal.instance
    return corrected(
        "The formula holds, but the sentence swaps the indices: the place is $j$, the components are those of $v^i$.",
        more=("Row $j$ is $v^i$, the rest means."),
        when=point.output_error < EXACT and point.swapped_difference > APART,
    )


@claim("B-62")
def closed_gate_has_the_largest_entropy(m: Measured) -> Outcome:
    """The closed gate is uniform and has the largest entropy."""
    closed = m.ideal.closed
    return reproduced(
        r"Every row has entropy $\ln n$, the largest possible.",
        when=closed.entropy_error < EXACT and closed.other_entropy < np.log(m.ideal.positions),
    )


@claim("B-63")
def closed_output_is_the_mean(m: Measured) -> Outcome:
    """The output of the closed gate is the mean in every row, printed as S_P V."""
    printed = m.ideal.printed
    return corrected(
        "The right side is the output of $S_{ME}$, exactly; of the printed $S_PV$ it is so for "
        f"{printed.other_side['closed']} of {printed.gates['instance']} gates.",
        more=("These are the instance gates of 2 to 6 positions."),
        when=printed.wrong_outputs["closed"] == printed.other_side["closed"] == 0
        and m.ideal.closed.output_error < EXACT
        and m.ideal.closed.instance_difference > APART,
    )


@claim("B-65")
def outputs_of_mixtures_add(m: Measured) -> Outcome:
    """The output is linear, so overlapping patterns can be treated one by one."""
    mixture = m.ideal.mixture
    return reproduced(
        "The output is the sum of the outputs of the parts into which a map is decomposed, to 1e-12.",
        more="The weights of a decomposition sum to 1 in every row. Gates that are merely added are no map: rows of "
        f"the identity and a column add up to {mixture.plain_row_sum:.0f}.",
        when=mixture.output_error < EXACT and mixture.row_sum_error < EXACT,
    )


@claim("B-66")
def decomposition_is_a_convention(m: Measured) -> Outcome:
    """A decomposition into pure patterns suffices."""
    mixture = m.ideal.mixture
    return conditional(
        "Outputs add, but the parts are a convention: $S_{ME}$ is the mean of $n$ directional gates, any "
        "map a mixture of them.",
        more=("The entropy of a mixture exceeds that of its parts."),
        when=mixture.closed_of_columns_error < EXACT
        and mixture.mixture_of_columns_error < EXACT
        and mixture.entropy_gain > -EXACT,
    )


@claim("B-68")
def inverse_gate_has_one_row_of_few_entries(m: Measured) -> Outcome:
    """Only row j of the inverse directional gate differs from uniform, with a few non-zero entries."""
    inverse = m.ideal.inverse
    return corrected(
        r"The row needs $|\mathcal K|$ entries $1/|\mathcal K|$; with 1, as in the instance gate, it sums to "
        f"{inverse.ones_row_sum:.0f}.",
        more=("All other rows are uniform. (4.15) leaves the entries open."),
        when=inverse.entries == 3
        and inverse.row_sum_error < EXACT
        and inverse.other_rows_error < EXACT
        and inverse.ones_row_sum > 1 + APART,
    )


@claim("B-69")
def inverse_output_is_a_mean_of_few(m: Measured) -> Outcome:
    """Row j of the output is the mean over K, printed as S_P V."""
    inverse, printed = m.ideal.inverse, m.ideal.printed
    return corrected(
        r"Row $j$ of $S_HV$ is the mean over $\mathcal K$; the left side is printed $S_PV$, whose row is one "
        "value.",
        more=(
            f"That value is the mean {printed.other_side['inverse directional']} times, over all sets of two keys "
            "or more of up to 6 positions."
        ),
        when=inverse.output_error < EXACT
        and inverse.instance_difference > APART
        and printed.other_side["inverse directional"] == 0,
    )


@claim("B-70")
def inverse_gate_is_a_mean_of_instances(m: Measured) -> Outcome:
    """The inverse directional gate is better read as a composition of instances."""
    inverse, printed = m.ideal.inverse, m.ideal.printed
    return reproduced(
        r"$S_H$ is the mean of its $|\mathcal K|$ instance gates, exactly, for all sets of keys of up to 6 "
        "positions.",
        more=(r"It equals $S_P$ for $|\mathcal K|=1$. A plain sum of instances would be no map (B-65)."),
        when=printed.instances == 0 and inverse.instances_error < EXACT and inverse.one_key_error < EXACT,
    )


@claim("B-71")
def entries_are_0_and_1_in_the_limit(m: Measured) -> Outcome:
    """Entries are exactly 0 and 1."""
    softmax, sentence = m.ideal.softmax, m.sentence
    least, middle, most = softmax.off_pattern
    return conditional(
        f"In the limit only: cells off the pattern hold {least:.2f}, {middle:.2f}, {most:.3f} for scores "
        "times 1, 10, 100.",
        more=(
            f"In the sentence's maps one weight in {sentence.weights_for_each_near_one:,.0f} exceeds 0.99, and "
            "none is 0."
        ),
        when=(softmax.off_pattern <= softmax.bounds + EXACT).all() and sentence.smallest_weight > 0,
    )


@claim("B-110")
def output_of_rank_one_tells_the_column(m: Measured) -> Outcome:
    """The rank collapse of a vertical line conveys information content, and is anything but negative."""
    column, closed = m.ideal.column, m.ideal.closed
    return not_testable(
        "A vertical line's output of rank 1 tells which value it repeats; whether that helps would need the "
        "loss of the authors' model.",
        more="The output is the value of the column in every row, to 1e-12, so it differs from column to column. "
        "That of a closed gate has rank 1 as well and is the mean of all values, the same whatever the "
        "scores are, which the paper calls mere background noise. So rank alone says neither that "
        "information is lost nor that it is kept.",
        when=column.output_error < EXACT and column.output_rank == 1 and closed.output_error < EXACT,
    )


@claim("B-111")
def softmax_whitens_as_scores_grow(m: Measured) -> Outcome:
    """The softmax shows the selected direction and whitens the background noise."""
    softmax, sentence = m.ideal.softmax, m.sentence
    least, middle, most = softmax.off_pattern
    return conditional(
        f"Only as far as scores are large: cells off the pattern hold {least:.2f} of the attention, with "
        f"scores a hundred times as large {most:.3f}.",
        more=f"With scores ten times as large it is {middle:.2f}. A softmax raises large scores above small ones "
        "and gives none the weight 0: in the sentence's maps no weight is 0. As a rule of the ideal gates it "
        "is judged in B-71.",
        when=(softmax.off_pattern <= softmax.bounds + EXACT).all()
        and least > 0.5
        and most < 0.01
        and sentence.smallest_weight > 0,
    )
