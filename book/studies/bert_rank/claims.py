"""The paper's claims on rank collapse and LayerNorm, each judged by what was measured."""

import math

from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.studies.bert_rank.measure import Measured
from book.studies.bert_rank.parts import NO_MLP, WHOLE
from book.studies.bert_rank.residuals import expected_factor, typical


@claim("B-25")
def attention_collapses(m: Measured) -> Outcome:
    """Pure multi-head attention drives the rank to 1."""
    o, slope = m.one_layer, m.one_layer.slopes["attention"].value
    hard, worst_end = typical(m.stacks.runs[2.0]["attention"], 6), max(f["attention"] for f in m.trained.final.values())
    return conditional(
        f"Attention alone cubes small residuals (slope {slope:.2f}, {m.stacks.seeds} seeds) and ends at "
        "rounding error in the trained model and in its control. The condition is bounded scores: rows "
        f"that attend to themselves alone keep rank {o.kept_rank} and residual {o.kept_residual:.3f} "
        f"for 12 layers, and random stacks of gain 2 still have {hard:.2f} after 6.",
        when=abs(slope - 3) < 0.05 and o.kept_rank == 4 and worst_end < 1e-9 and hard > 0.3,
    )


@claim("B-26")
def non_linearity_alone_prevents_collapse(m: Measured) -> Outcome:
    """The MLP is necessary against collapse and its non-linearity the only counter-force, as reported of [27]."""
    slopes = {name: slope.value for name, slope in m.one_layer.slopes.items()}
    factor, expected = math.exp(m.stacks.rate[1.0].value), expected_factor(1.0)
    at_twelve = {name: typical(run, 12) for name, run in m.stacks.runs[1.0].items()}
    final = m.trained.final["trained"]
    without_mlp, whole = final[NO_MLP], final[WHOLE]
    skip_slows = (
        abs(slopes["with skip"] - 1) < 0.05
        and abs(slopes["then MLP"] - 3) < 0.05
        and abs(factor - expected) < 0.05
        and m.stacks.most_left < 1e-2
    )
    mlp_is_not_needed = (
        m.stacks.linear_gain.low > 0
        and m.stacks.worst_without_skip < 1e-9
        and m.trained.most_without_skip < 1e-6
        and without_mlp > whole / 2  # nothing like a collapse
    )
    return not_reproduced(
        "The paper reports it of its reference [27], and reads collapse otherwise itself. The skip connection is the "
        f"first counter-force, and it only slows collapse: slope {slopes['with skip']:.2f} in place of 3, a factor "
        f"{factor:.2f} a layer at gain 1 ({expected:.2f} expected). An MLP without it changes nothing of that "
        f"(slope {slopes['then MLP']:.2f}), and behind skip connections a linear one leaves "
        f"{at_twelve['attention + skip + linear MLP']:.2f} after 12 random layers of gain 1, GELU "
        f"{at_twelve['attention + skip + MLP']:.2f}; nothing stops collapse there in {m.stacks.depth} layers. The "
        f"trained model stays at {without_mlp:.2f} without any MLP ({whole:.2f} as it is).",
        when=skip_slows and mlp_is_not_needed,
    )


@claim("B-27")
def layer_norm_of_a_row(m: Measured) -> Outcome:
    """LayerNorm maps a row to its distance from its mean over its standard deviation."""
    return corrected(
        "The printed map is LayerNorm with epsilon 0, gain 1 and bias 0 (to 1e-12); BERT's has all three.",
        when=max(m.norm.plain_error, m.norm.affine_error) < 1e-12 and m.norm.trained_gap > 0.01,
    )


@claim("B-28")
def layer_norm_and_rank(m: Measured) -> Outcome:
    """LayerNorm plays no role in the rank."""

    def change(tokens: int) -> str:
        before, after = (" or ".join(map(str, m.ranks.of(step, tokens))) for step in ("read", "centred"))
        return f"from {before} to {after} at $n={tokens}$"

    c = m.centred
    return conditional(
        "LayerNorm keeps the rank unless the all-one row lies in the row space; then it costs exactly "
        f"one. Of small matrices {c.losing} of {c.inside} lose one, {c.wide} of them with fewer rows "
        f"than columns, and {c.keeping} of the {c.outside} others keep theirs; the smallest that loses "
        f"is {m.examples.lost}. In the trained model, {change(m.ranks.short)}, "
        f"{change(m.ranks.limit)}, with $d={m.ranks.width}$.",
        when=c.decided and m.ranks.lawful and m.ranks.clear,
    )


@claim("B-29")
def rank_of_a_sum(m: Measured) -> Outcome:
    """The rank of a sum is at most the sum of the ranks, and equal to it where the spaces meet only in 0."""
    return reproduced(
        f"True for all {m.examples.pairs:,} pairs of small matrices that were tried: the inequality and "
        "its condition of equality.",
        when=m.examples.pairs_failing == 0,
    )


@claim("B-30")
def layer_norm_as_matrices(m: Measured) -> Outcome:
    """LayerNorm of the concatenated heads is D^-1 (X - 1 E^T)."""
    n = m.norm
    return corrected(
        r"Right with $E\mathbf 1_d^\mathsf T$ in place of $\mathbf 1E^\mathsf T$, which does not fit "
        r"($n\times n$ against $n\times d$). And BERT's LayerNorm reads $X+\mathrm{Conc}\,W_O+b_O$, not "
        "the concatenation: the skipped $X$ has entries up to "
        f"{n.skipped:.1f}.",
        when=n.matrix_error < 1e-12 and n.read_gap < 1e-9 and n.concatenation_gap > 0.01,
    )


@claim("B-31")
def division_keeps_the_rank(m: Measured) -> Outcome:
    """Multiplication by a nonsingular diagonal matrix keeps the rank."""
    return conditional(
        "The rank is the same before and after the division in every layer of both models. The printed "
        "$D$ has no epsilon, though: it is nonsingular only if no row is constant, whose deviation is "
        f"{m.norm.constant_deviation:.0f}. BERT's epsilon keeps it positive.",
        when=all(s.centred.rank == s.divided.rank for s in m.ranks.all_steps) and m.norm.constant_deviation == 0,
    )


@claim("B-32")
def space_of_the_means(m: Measured) -> Outcome:
    """The matrix 1 E^T of the means has rank 1, and its column space is that of E."""
    of_X, with_E = m.norm.with_means
    return corrected(
        r"The column space of $E\mathbf 1^\mathsf T$ is spanned by $E$ and lies inside that of $X$; that "
        r"of the printed $\mathbf 1E^\mathsf T$ is spanned by $\mathbf 1$. The rank is 1 unless all row "
        "means are 0, as for [[1, -1]].",
        when=m.norm.mean_spaces == (1, 2) and of_X == with_E == 3 and m.norm.zero_mean_rank == 0,
    )


@claim("B-33")
def first_inequality(m: Measured) -> Outcome:
    """Subtracting the means raises the rank by less than one."""
    (before, after), c = m.examples.gained_ranks, m.centred
    return corrected(
        r"True for $E\mathbf 1_d^\mathsf T$, where it says that the product $XC$ has no more rank than "
        f"$X$: of {c.inside + c.outside} small matrices {c.gaining} gain any. As printed it fits square "
        f"matrices only, and fails for {m.examples.gained}.",
        when=after == before + 1 and c.gaining == 0 and all(s.centred.rank <= s.read.rank for s in m.ranks.all_steps),
    )


@claim("B-34")
def update_of_rank_one(m: Measured) -> Outcome:
    """An update of rank one takes a rank away exactly if its vectors lie in the column and the row space."""
    e = m.examples
    return corrected(
        f"The inequality holds in all of {e.triples:,} small triples. The printed condition of equality "
        f"fails in {e.printed_failing:,} of them, each time because vectors from both spaces do not lower "
        "the rank; the smallest is $A=x=y=1$. It needs $1+y^\\mathsf TA^+x=0$ besides, and then fails in "
        f"{e.triples_failing}. And $x$ has $m$ entries, not $n$.",
        when=e.triples_failing == e.falls_by_more == e.drops_outside == 0 < e.printed_failing
        and e.update == ([[1]], [[1]], [[1]])
        and e.update_change > -1,
    )


@claim("B-35")
def second_inequality(m: Measured) -> Outcome:
    """Subtracting the means does not lower the rank."""
    r, c = m.ranks, m.centred
    return conditional(
        "True if and only if the all-one row is outside the row space: in "
        f"{c.keeping} of {c.outside} such small matrices. False in the {c.losing} others, as for "
        f"{m.examples.lost}, and in every layer of the model at $n={r.limit}$, $d={r.width}$.",
        when=c.decided and r.lawful and r.of("centred", r.limit) == [r.width - 1],
    )


@claim("B-36")
def both_inequalities_together(m: Measured) -> Outcome:
    """Both inequalities together prove that LayerNorm plays no part in a loss of rank."""
    r, c = m.ranks, m.centred
    return conditional(
        "They would, since no other whole number lies between $r-1$ and $r+1$. But the second holds "
        f"only where the all-one row is outside the row space: in the {c.inside} small matrices that "
        "have it inside, nothing is squeezed and LayerNorm costs a rank. Proposition 3.2.2 with the "
        "right vectors is in its case of equality exactly there.",
        when=c.decided and c.gaining == 0 and r.lawful,
    )


@claim("B-37")
def gain_and_bias(m: Measured) -> Outcome:
    """A gain without zeros keeps the rank, and a bias may add one."""
    of_trained, of_control, down = m.ranks.added_by_bias("trained"), m.ranks.added_by_bias("control"), m.norm.ranks_down
    last, dead = m.ranks.last, m.ranks.dead_gains
    return conditional(
        f"Where no gain is zero: then it keeps the rank, after attention in every layer. At "
        f"$n={m.ranks.limit}$ the trained bias adds {of_trained[-1]}, the control's zero bias "
        f"{of_control[-1]}. The last LayerNorm of the trained model has {dead} gains of nothing: there "
        f"the rank falls from {last.divided.rank} to {last.with_gain.rank} with the gain, and is "
        f"{last.with_bias.rank} with the bias. A bias can also take one away ({down[-2]} to {down[-1]} "
        "for a single row).",
        when=all(s.divided.rank == s.with_gain.rank for s in m.ranks.all_steps)
        and down[-1] == 0
        and of_trained == [1]
        and of_control == [0]
        and dead > 0
        and last.with_gain.rank < last.divided.rank,
    )
