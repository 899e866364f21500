"""The paper's claims on rank collapse and LayerNorm, each judged by what was measured."""

import math

from book.publish import Outcome, claim, conditional, corrected, not_reproduced, reproduced
from book.studies.bert_rank.measure import Measured
from book.studies.bert_rank.stacks import NO_MLP, WHOLE, expected_factor, typical


@claim("B-25")
def attention_collapses(m: Measured) -> Outcome:
    """Pure multi-head attention drives the rank to 1."""
    o, slope = m.one_layer, m.one_layer.slopes["attention"].value
    hard, worst_end = typical(m.stacks.runs[2.0]["attention"], 6), max(f["attention"] for f in m.trained.final.values())
    return conditional(
        f"Attention alone cubes small residuals (slope {slope:.2f}), but rows that attend to themselves alone "
        f"keep rank {o.kept_rank}: scores must be bounded.",
        more=(
            f"The slope is over {m.stacks.seeds} seeds; attention alone ends at rounding error in the trained "
            f"model and in its control. Rows that attend to themselves alone keep residual {o.kept_residual:.3f} "
            f"for 12 layers, and random stacks of gain 2 still have {hard:.2f} after 6."
        ),
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
        f"The skip connection is the first counter-force, and MiniLM keeps a residual of {without_mlp:.2f} without any "
        f"MLP ({whole:.2f} as it is).",
        more=(
            "The paper reports the claim of its reference [27], and reads collapse otherwise itself. In random "
            f"networks the skip connection only slows collapse: slope {slopes['with skip']:.2f} in place of 3, a "
            f"factor {factor:.2f} a layer at gain 1 ({expected:.2f} expected). An MLP without it changes nothing of "
            f"that (slope {slopes['then MLP']:.2f}), and behind skip connections a linear one leaves "
            f"{at_twelve['attention + skip + linear MLP']:.2f} after 12 random layers of gain 1, GELU "
            f"{at_twelve['attention + skip + MLP']:.2f}; nothing stops collapse there in {m.stacks.depth} layers."
        ),
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
        "LayerNorm keeps the rank unless the all-one row lies in the row space; then it costs exactly one.",
        more=(
            f"Of small matrices {c.losing} of {c.inside} lose one, {c.wide} of them with fewer rows than columns, "
            f"and {c.keeping} of the {c.outside} others keep theirs; the smallest that loses is "
            f"{m.examples.lost}. In the trained model, {change(m.ranks.short)}, {change(m.ranks.limit)}, with "
            f"$d={m.ranks.width}$."
        ),
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
        r"It needs $E\mathbf 1_d^\mathsf T$ in place of $\mathbf 1E^\mathsf T$, and BERT's LayerNorm reads "
        r"$X+\mathrm{Conc}\,W_O+b_O$, not the concatenation.",
        more=(
            r"The printed term does not fit ($n\times n$ against $n\times d$). The skipped $X$ has entries up to "
            f"{n.skipped:.1f}."
        ),
        when=n.matrix_error < 1e-12 and n.read_gap < 1e-9 and n.concatenation_gap > 0.01,
    )


@claim("B-31")
def division_keeps_the_rank(m: Measured) -> Outcome:
    """Multiplication by a nonsingular diagonal matrix keeps the rank."""
    return conditional(
        "The rank is the same before and after the division in every layer, but the printed $D$ is singular "
        "where a row is constant.",
        more=(
            "That is in both models. The printed $D$ has no epsilon, and a constant row's deviation is "
            f"{m.norm.constant_deviation:.0f}. BERT's epsilon keeps it positive."
        ),
        when=all(s.centred.rank == s.divided.rank for s in m.ranks.all_steps) and m.norm.constant_deviation == 0,
    )


@claim("B-32")
def space_of_the_means(m: Measured) -> Outcome:
    """The matrix 1 E^T of the means has rank 1, and its column space is that of E."""
    of_X, with_E = m.norm.with_means
    return corrected(
        r"The column space of $E\mathbf 1^\mathsf T$ is spanned by $E$; that of the printed $\mathbf "
        r"1E^\mathsf T$ is spanned by $\mathbf 1$.",
        more=("The first lies inside that of $X$. The rank is 1 unless all row means are 0, as for [[1, -1]]."),
        when=m.norm.mean_spaces == (1, 2) and of_X == with_E == 3 and m.norm.zero_mean_rank == 0,
    )


@claim("B-33")
def first_inequality(m: Measured) -> Outcome:
    """Subtracting the means raises the rank by less than one."""
    (before, after), c = m.examples.gained_ranks, m.centred
    return corrected(
        rf"True for $E\mathbf 1_d^\mathsf T$: of {c.inside + c.outside} small matrices {c.gaining} gain any "
        f"rank; as printed it fails for {m.examples.gained}.",
        more=(
            "There it says that the product $XC$ has no more rank than $X$. As printed it fits square matrices only."
        ),
        when=after == before + 1 and c.gaining == 0 and all(s.centred.rank <= s.read.rank for s in m.ranks.all_steps),
    )


@claim("B-34")
def update_of_rank_one(m: Measured) -> Outcome:
    """An update of rank one takes a rank away exactly if its vectors lie in the column and the row space."""
    e = m.examples
    return corrected(
        f"The inequality holds in all {e.triples:,} small triples; the printed condition of equality fails in "
        f"{e.printed_failing:,}, the smallest being $A=x=y=1$.",
        more=(
            r"It fails each time because vectors from both spaces do not lower the rank. It needs $1+y^\mathsf "
            f"TA^+x=0$ besides, and then fails in {e.triples_failing}. And $x$ has $m$ entries, not $n$."
        ),
        when=e.triples_failing == e.falls_by_more == e.drops_outside == 0 < e.printed_failing
        and e.update == ([[1]], [[1]], [[1]])
        and e.update_change > -1,
    )


@claim("B-35")
def second_inequality(m: Measured) -> Outcome:
    """Subtracting the means does not lower the rank."""
    r, c = m.ranks, m.centred
    return conditional(
        "True if and only if the all-one row is outside the row space; false in the model's layers at "
        f"$n={r.limit}$, $d={r.width}$.",
        more=(
            f"It is true in {c.keeping} of {c.outside} small matrices with that row outside, and false in the "
            f"{c.losing} others, as for {m.examples.lost}, and in every layer of the model at that size."
        ),
        when=c.decided and r.lawful and r.of("centred", r.limit) == [r.width - 1],
    )


@claim("B-36")
def both_inequalities_together(m: Measured) -> Outcome:
    """Both inequalities together prove that LayerNorm plays no part in a loss of rank."""
    r, c = m.ranks, m.centred
    return conditional(
        "They would, but the second holds only where the all-one row is outside the row space; elsewhere "
        "LayerNorm costs a rank.",
        more=(
            f"They would, since no other whole number lies between $r-1$ and $r+1$. In the {c.inside} small "
            "matrices that have the row inside, nothing is squeezed. Proposition 3.2.2 with the right vectors is "
            "in its case of equality exactly there."
        ),
        when=c.decided and c.gaining == 0 and r.lawful,
    )
