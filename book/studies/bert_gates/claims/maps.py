"""The claims about the patterns in the maps of trained models, and about what their heads do."""

import numpy as np

from analysis.maps import gates
from analysis.models.controls import RUNGS, SHARP
from analysis.statistics.intervals import FEWEST
from book.publish import Outcome, claim, conditional, holds_on_a_stand_in, not_reproduced
from book.publish.phrases import enumerated, percent
from book.studies.bert_gates.gate_census import GateCensus
from book.studies.bert_gates.measure import Measured
from book.studies.shared.documents import LADDER
from book.studies.shared.map_counts import PRESENT
from book.studies.shared.nearest_classifier import NEAREST, START, Nearest


def too_few_texts(census: GateCensus, *names: str) -> str:
    """Say which of the ratios have too few texts for an interval; empty where all have enough."""
    few = {name: ratio for name in names if (ratio := census.trained.ratios[name]).texts < FEWEST}
    shares = {name: "" if np.isnan(ratio.value) else f"{ratio.value:.0%} " for name, ratio in few.items()}
    ratios = ", ".join(
        f"{name} {shares[name]}({ratio.texts} of {len(census.trained.lengths)} texts)" for name, ratio in few.items()
    )
    return f"Too few texts to tell, an interval needs {FEWEST}: {ratios}." if few else ""


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
        f"{NEAREST}{near_ratio(m.nearest, 'short_columns')} of the columns' attention lies on lines under "
        "half the height.",
        more=(
            "With clusters counted as short columns side by side (B-57) it is "
            f"{near_ratio(m.nearest, 'short_verticals')}. In MiniLM on text it is {columns.value:.0%} and "
            f"{verticals.value:.0%} ({verticals.low:.0%} to {verticals.high:.0%}). Random weights show neither; "
            f"with W_Q and W_K as large they have columns ({sharp['columns']:.0%} of the attention), and "
            f"next to no clusters ({sharp['clusters']:.1%})."
        ),
        when=max(each.high for each in near) < 0.5
        and max(columns.high, verticals.high) < 0.5
        and sharp["columns"] > 0.1 > 10 * sharp["clusters"] / 2,
    )


@claim("B-45")
def diagonals_do_not_break_at_their_end(m: Measured) -> Outcome:
    """The diagonal breaks in the last dozen tokens."""
    if note := too_few_texts(m.census, "end_of_diagonal"):
        return not_reproduced(note, when=None)
    end, counts, near = m.census.trained.ratios["end_of_diagonal"], m.census.trained.counts, m.nearest
    weight = near.ratios["end_of_diagonal"]
    return not_reproduced(
        f"{NEAREST}the last dozen cells of the diagonal hold more, not less: {weight.value:.1f} times the "
        "others' weight.",
        more=(
            f"The interval is {weight.low:.1f} to {weight.high:.1f}, over maps with an open share of 5 % "
            f"({near.counts['open_maps']} of {near.counts['maps']}). In MiniLM on text ({counts['open_maps']} of "
            f"{counts['maps']}) it is {end.value:.0%} ({end.low:.0%} to {end.high:.0%}): no interruption. No "
            "control has such maps, nor has the classifier trained from random weights."
        ),
        when=min(weight.low, end.low) > 0.6
        and m.classifier.diagonals < PRESENT
        and all(near.control_gates[rung][..., gates.GATES.index("open")].max() < PRESENT for rung in RUNGS),
    )


@claim("B-51")
def sub_diagonals_are_shorter_than_their_line(m: Measured) -> Outcome:
    """The sub-diagonal is usually shorter than n-(j-1)."""
    if note := too_few_texts(m.census, "run_covers"):
        return holds_on_a_stand_in(note, when=None)
    run, near = m.census.trained.ratios["run_covers"], m.nearest
    return holds_on_a_stand_in(
        f"{NEAREST}the longest run covers {near_ratio(near, 'run_covers')} of its line on average.",
        more=(
            f"These are {near.counts['lines']} lines; in MiniLM on text it is {run.value:.0%} ({run.low:.0%} to "
            f"{run.high:.0%}). The detector does not break lines: of full diagonals that were drawn it finds "
            f"{m.covered:.0%}. The classifier trained from random weights has no such lines, "
            "nor have the controls."
        ),
        when=max(near.ratios["run_covers"].high, run.high) < 0.95 < m.covered
        and m.census.control.counts["lines"] == 0
        and m.classifier.diagonals < PRESENT,
    )


@claim("B-54")
def sub_and_super_diagonals_come_with_each_other(m: Measured) -> Outcome:
    """Sub- and super-diagonals usually do not occur alone, but with the main diagonal."""
    if note := too_few_texts(m.census, "in_company"):
        return conditional(note, when=None)
    trained, near = m.census.trained, m.nearest
    diagonal, company = (trained.ratios[name] for name in ("open_with_either", "in_company"))
    return conditional(
        f"{NEAREST}{percent(near.ratios['in_company'].value)} of such maps have another diagonal, but "
        f"{percent(near.ratios['open_with_either'].value)} the main one, which the paper calls usual.",
        more=(
            f"Of {near.counts['either']} maps with a sub- or super-diagonal {near_ratio(near, 'in_company')} have "
            f"the other of the two or the main diagonal, and {near_ratio(near, 'open_with_either')} the main "
            f"diagonal. In MiniLM on text, of {trained.counts['either']}, it is {company.value:.0%} "
            f"({company.low:.0%} to {company.high:.0%}) and {diagonal.value:.0%}: most occur alone. The "
            "classifier trained from random weights and the random control have none."
        ),
        when=near.ratios["in_company"].low > 0.5 > near.ratios["open_with_either"].high
        and near.ratios_by_seed["in_company"].min() > 0.5 > near.ratios_by_seed["open_with_either"].max()
        and company.high < 0.5
        and m.census.control.counts["either"] == 0
        and m.classifier.diagonals < PRESENT,
    )


@claim("B-61")
def points_are_of_little_weight_and_rare(m: Measured) -> Outcome:
    """Sparse low points are common and less significant."""
    if note := too_few_texts(m.census, "weak_points"):
        return not_reproduced(note, when=None)
    weak, mass, on_a_map = (m.census.trained.ratios[name] for name in ("weak_points", "point_mass", "points_a_map"))
    near, by_seed = m.nearest.ratios, m.nearest.ratios_by_seed["points_a_map"]
    controls = max(m.nearest.control_ratios[rung]["points_a_map"].max() for rung in RUNGS)
    return not_reproduced(
        f"{NEAREST}such points are of little weight, but rare: {enumerated(by_seed, '.2f')} a map in two trainings.",
        more=(
            f"These exceed the tail of their map's noise; {on_a_map.value:.2f} do in MiniLM on text and at most "
            f"{controls:.2f} in a control. They carry {near['point_mass'].value:.2%} of the attention, in MiniLM "
            f"{mass.value:.2%}; {near_ratio(m.nearest, 'weak_points')} of them hold less than half of their row, "
            f"in MiniLM {weak.value:.0%}. Fainter points cannot be told from chance."
        ),
        when=max(by_seed.max(), near["points_a_map"].high, on_a_map.high) < 0.5
        and max(mass.value, near["point_mass"].value) < 0.001,
    )


@claim("B-64")
def closed_heads_are_not_idle(m: Measured) -> Outcome:
    """A closed gate conveys no information, its head plays no helpful role, and the skip connection carries on."""
    ablation, median, control = m.ablation, m.ablation.medians, m.ablation.effects["control"]
    if not (ablation.closed_heads and ablation.others_in_first_layer):
        return conditional("Nothing to compare: no head is half closed, or all heads of layer 0 are.", when=None)
    return conditional(
        f"A closed map carries little, but silencing its head moves the embedding by {median.zero_closed:.4f} "
        f"(its peers {median.zero_peers:.4f}): its mean is used.",
        more=(
            f"Levelling moves the embedding by {median.level_closed:.4f}, but so does levelling other heads of "
            f"layer 0 ({median.level_peers:.4f}), where all closed heads are."
        ),
        when=ablation.closed_in_first_layer == ablation.closed_heads
        and median.zero_closed > 2 * median.level_closed
        and median.zero_closed > 0.5 * median.zero_peers
        and control["uniform"].max() < 0.1 * control["zero"].min(),
    )


@claim("B-67")
def most_maps_are_compositions(m: Measured) -> Outcome:
    """Compositions are the most common case."""
    if note := too_few_texts(m.census, "composed"):
        return holds_on_a_stand_in(note, when=None)
    composed, ladder, near = m.census.trained.ratios["composed"], m.rungs["maps with two or more"], m.nearest
    most = max(ladder.range_of(rung)[1] for rung in LADDER)
    own = {rung: ratios["composed"] for rung, ratios in near.control_ratios.items()}
    return holds_on_a_stand_in(
        f"{NEAREST}{near_ratio(near, 'composed')} of the maps hold two or more gates of 5 %.",
        more=(
            "A gate counts when it carries 5 % of a map's attention. Of its start, before any gene, "
            f"{percent(own[START].mean())} do: compositions come with the text. In MiniLM on text "
            f"{composed.value:.0%} do; in no seed of any control more than "
            f"{max(most, *(own[rung].max() for rung in RUNGS)):.0%}. In the classifier trained from random "
            f"weights the most common case is one pattern: {m.classifier.composed:.0%} of its maps hold two or "
            f"more, {m.classifier.patterned:.0%} one or more."
        ),
        when=near.ratios["composed"].low > 0.5
        and near.ratios_by_seed["composed"].min() > 0.5 < composed.low
        and max(most, *(own[rung].max() for rung in RUNGS)) < 0.5,
    )
