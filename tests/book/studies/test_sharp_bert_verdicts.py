"""The conditions of the claims on BERT, one at a time: the least change that turns a verdict, and what may not turn it.

A case is the id of a claim, changes of the book's own measurement as `counterfeits.forge` takes them, and whether the
verdict still holds. The other conditions of the claim hold in every case.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from book.publish.claims import claim_functions
from book.studies.bert_normality import claims as normality_claims
from book.studies.bert_rank import claims as rank_claims
from book.studies.bert_similarity import claims as similarity_claims
from book.studies.bert_stream import claims as stream_claims
from book.studies.bert_stream.survey import COUPLINGS, READ_BACK
from tests.book.studies.counterfeits import forge, put
from tests.book.studies.measurements import measurement

MODULES = {
    "bert_normality": normality_claims,
    "bert_rank": rank_claims,
    "bert_similarity": similarity_claims,
    "bert_stream": stream_claims,
}
ALL = slice(None)


def judged(study, claim_id, changes):
    """Judge a forged measurement; a change that is a function of two arguments is given the measurement as well."""
    measured = measurement(study)
    given = {path: each(measured) if getattr(each, "of_all", False) else each for path, each in changes.items()}
    (function,) = (each for each in claim_functions(MODULES[study]) if each.claim_id == claim_id)
    return function(forge(measured, given))


def of_all(function):
    """Mark a function that makes a change from the whole measurement."""
    function.of_all = True
    return function


def to(index, value):
    """Put a value at an index, or what a function takes it from in the whole measurement."""
    return of_all(lambda m: put(index, value(m))) if callable(value) else put(index, value)


def check(study, cases):
    return [pytest.param(study, *case, id=f"{case[0]}-{k}") for k, case in enumerate(cases)]


# ---- rank


def at_layer(size, name="attention", gain=2.0, layer=6, of="stacks.runs"):
    """Let all random stacks of one kind have one residual after one layer."""

    def change(runs):
        run = runs[gain][name].copy()
        run[:, layer] = size
        return {**runs, gain: {**runs[gain], name: run}}

    return {of: change}


def a_layer_loses(factor):
    return {"stacks.rate": lambda rate: {**rate, 1.0: rate[1.0]._replace(value=math.log(factor))}}


def as_much_as_gelu(more):
    """Let a linear MLP leave so much more than GELU, in every stack."""

    def change(runs):
        of = runs[1.0]
        linear = of["attention + skip + linear MLP"].copy()
        linear[:, 12] = of["attention + skip + MLP"][:, 12] + more
        return {**runs, 1.0: {**of, "attention + skip + linear MLP": linear}}

    return {"stacks.runs": change}


def one_rank(step, change, which=0, **other):
    """Change one rank of the last layer for one model and input, or how clear it is."""

    def forged(through):
        key = list(through)[which]
        *others, last = through[key]
        count = getattr(last, step)
        return {**through, key: [*others, last._replace(**{step: replace(count, rank=count.rank + change, **other)})]}

    return {"ranks.through": forged}


EXPECTED = 2**-0.5  # of a random layer of gain 1 with a skip connection
RANK = [
    ("B-25", at_layer(0.31), True),
    ("B-25", at_layer(0.29), False),
    *[("B-26", a_layer_loses(EXPECTED + off), True) for off in (-0.0495, 0.0495)],
    *[("B-26", a_layer_loses(EXPECTED + off), False) for off in (-0.0505, 0.0505)],
    *[
        ("B-26", at_layer(size, "attention + skip + MLP", 1.0, -1, "stacks.deep"), size < 0.01)
        for size in (0.0099, 0.0101)
    ],
    *[("B-26", at_layer(size, "attention + MLP", 1.0), size < 1e-9) for size in (0.99e-9, 1.01e-9)],
    ("B-26", as_much_as_gelu(0.01), True),
    ("B-26", as_much_as_gelu(0.0), False),
    ("B-28", one_rank("centred", -1), False),
    ("B-28", one_rank("divided", 0, kept=1e-10), False),
    ("B-28", one_rank("divided", 0, kept=1e-8), True),
    ("B-31", one_rank("divided", -1), False),
    ("B-33", one_rank("centred", 1), False),
    ("B-35", one_rank("centred", -1), False),
    ("B-35", {"centred.losing": lambda count: count - 1}, False),
]

# ---- similarity


def exceeding(count, below=0.999, above=1.001):
    """Let so many of the 72 heads have a largest singular value above 1 for V."""
    return {"nearest.largest_weights": put((2, ALL), np.where(np.arange(72) < count, above, below).reshape(6, 12))}


def median_of_values(m):
    return float(np.median(m.nearest.largest_weights[2].astype(float)))


def attention_of(symmetric):
    """Let content have an asymmetry of a half in every layer, and its symmetric part so much at the same spread."""
    shares = {"content alone": 0.5, "content less its common part, equal spread": 0.375}
    shares["symmetric part of M, equal spread"] = symmetric
    return {f"asymmetry.attention.{name}": put(ALL, share) for name, share in shares.items()}


SIMILARITY = [
    ("B-02", {"architecture.states": lambda sizes: (sizes[0] - 1, *sizes[1:])}, False),
    ("B-02", {"architecture.limit": 511}, False),
    ("B-02", {"architecture.accepts_limit": False}, False),
    ("B-13", exceeding(36), False),
    ("B-13", exceeding(38), True),
    ("B-13", exceeding(72, above=1.0), False),
    ("B-13", {"nearest.largest_weights": to((1, ALL), median_of_values)}, False),
    ("B-13", {"stretching.largest.control": put((1, 50), 1.0)}, False),
    ("B-13", {"classifier.largest": put((1, 100), 1.0)}, False),
    *[("B-14", {"nearest.grown": put((2, 1, 1), share)}, share < 0.5) for share in (0.49, 0.52)],
    *[("B-14", {"stretching.alone.trained.1": put("value", share)}, share < 0.2) for share in (0.19, 0.21)],
    ("B-14", {"classifier.growth": 1.0}, False),
    *[("B-19", {"terms.without_b_K.2": put("value", share)}, share < 1e-5) for share in (0.99e-5, 1.01e-5)],
    *[("B-20", {"terms.control_without_b_Q.3": put("value", share)}, share < 1e-6) for share in (0.99e-6, 1.01e-6)],
    *[("B-20", {"terms.without_b_Q.3": put("low", share)}, share > 0.02) for share in (0.0199, 0.0201)],
    ("B-21", {"form.negative_if_equal": 1}, False),
    *[("B-24", attention_of(symmetric), symmetric < 0.25) for symmetric in (0.24, 0.25)],
]

# ---- the stream


def off_the_diagonal(name, layer, off):
    """Let a trained layer couple blocks so much."""

    def change(couplings):
        changed = couplings.astype(float)
        own = changed[layer, COUPLINGS.index(name)]
        own[0, 0] += 1 - np.trace(own) - off
        return changed

    return {"coupling.blocks.trained": change}


def peaked(network, peak):
    """Let one pair of heads score so many times the median one."""

    def change(scores):
        even = torch.ones_like(scores)
        even[0, 0, 0] = peak
        return even

    return {f"composition.scores.{network}": change}


LARGE = "rungs.measures.added by the MLP.controls.random, as large"
STREAM = [
    ("B-87", {"algebra.whole": 1}, False),
    ("B-90", {"algebra.whole": 1}, False),
    *[
        (claim_id, {path: error * factor}, factor < 1)
        for claim_id, path, error in (
            ("B-89", "algebra.product_error", 1e-13),
            ("B-92", "algebra.sum_error", 1e-13),
            ("B-99", "perceptron.blocks_error", 1e-10),
        )
        for factor in (0.99, 1.01)
    ],
    *[("B-97", off_the_diagonal("skip", 3, off), off < 1e-6) for off in (0.99e-6, 1.01e-6)],
    *[("B-97", off_the_diagonal("LN", 5, off), off > 1e-3) for off in (0.99e-3, 1.01e-3)],
    ("B-100", {"sums.product_error.trained": put(4, 1.0)}, False),
    ("B-103", {"nearest.by_mlp": put((1, 3), 0.0)}, False),
    ("B-103", {"anisotropy.mlp": put(1, 0.0)}, False),
    ("B-103", {"anisotropy.norm": put(3, 0.0)}, False),
    ("B-103", {LARGE: put((2, 0), 0.0)}, False),
    *[
        (claim_id, peaked(network, peak), due)
        for claim_id in ("B-104", "B-112")
        for network, peak, due in (
            ("trained", 2.0, False),
            ("trained", 2.02, True),
            ("control", 1.29, True),
            ("control", 1.31, False),
        )
    ],
]

# ---- normality


def simulated(tail, at):
    """Let so many of a thousand Gaussian samples have one large statistic, which is then the 5 % point."""
    values = torch.cat([torch.full((1000 - tail,), 0.01), torch.full((tail,), at)]).double()
    return {"threshold.simulated": values}


def entry(path, index, value, factor=1.0):
    """Put a multiple of a quantity of the measurement at an index."""
    return {path: to(index, lambda m: factor * value(m))}


def nearest_critical(m):
    return m.nearest.critical


def critical(m):
    return m.threshold.critical


def with_minimum(layer):
    """Let one layer of the classifier have the lowest entropy."""
    return {"classifier.trained.entropy": lambda values: put(layer, values.min() - 0.1)(values)}


NEAR, SHARP = "nearest.layers", "random, W_Q and W_K as large"
SUMS, KEPT = "nearest.failing_sums", "nearest.failing_sums_kept"
POINT = 0.0325599  # of the table
NORMALITY = [
    ("B-72", entry("released.failing.coded", 2, lambda m: m.released.failing["own"][2]), False),
    *[("B-74", simulated(100, POINT + off), abs(off) < 2e-4) for off in (-2.1e-4, -1.9e-4, 1.9e-4, 2.1e-4)],
    *[("B-74", simulated(count, POINT), count == 54) for count in (52, 54)],
    ("B-74", {"threshold.paper": put(2, 0.0321)}, False),
    ("B-74", {"threshold.paper": put(3, 0.0327)}, False),
    ("B-74", entry("threshold.paper", 2, lambda m: m.threshold.table), True),
    ("B-76", entry("nearest.by_seed.D_sum", (0, 1), nearest_critical), False),
    ("B-76", entry(f"{NEAR}.D_sum", (2, 0), nearest_critical), False),
    ("B-76", entry("classifier.trained.D_sum", 7, lambda m: m.classifier.critical), False),
    ("B-78", {SUMS: put(1, 0.52), KEPT: put(0, 0.1)}, True),  # the second layer fails as well
    ("B-78", {KEPT: put([0, 1], [0.1, 0.5])}, True),
    ("B-78", {SUMS: put([0, 1], [0.6, 0.8]), KEPT: put([0, 1], [0.5, 0.9])}, True),
    ("B-78", {SUMS: put([0, 1], [0.6, 0.95]), KEPT: put([0, 1], [0.7, 0.9])}, False),
    ("B-78", {SUMS: put([0, 1], [0.6, 0.8]), KEPT: put([0, 1], [0.6, 0.9])}, False),
    ("B-78", entry(f"{NEAR}.failing_kept", (4, 0), lambda m: m.nearest.layers["first_failing"][4, 0]), False),
    ("B-78", {f"{NEAR}.failing_kept": put((2, 1), 0.05)}, True),  # only the first two layers are spoken of
    ("B-78", entry("rows.failing.kept", (5, 0), lambda m: m.rows.failing["trained"][5, 0]), False),
    ("B-79", {f"{NEAR}.resultant": put((1, 1), 0.0)}, True),  # a bound of an interval
    ("B-79", entry(f"{NEAR}.resultant", (1, 0), lambda m: m.nearest.layers["resultant"][0, 0]), True),
    ("B-79", {"padding.cone_ratio.trained": 2.0}, False),
    ("B-81", {"nearest.by_seed.resultant": put(1, [1.0, 2, 3, 4, 6, 5])}, False),
    ("B-81", {"nearest.by_seed.cone": put(1, [1.0, 2, 3, 4, 5, 6])}, False),
    ("B-81", {f"{NEAR}.cosine": put(([0, 5], 0), [0.25, 0.55])}, False),
    *[
        ("B-82", {f"nearest.controls.largest.{rung}": put((ALL, [0, 5]), [2.0, 3.0])}, False)
        for rung in ("random, as large", "permuted", "start")
    ],
    ("B-82", {"classifier.trained.largest": put([0, 11], [2.0, 3.0])}, False),
    ("B-82", {f"{NEAR}.largest": put(([0, 5], [2, 1]), [2.0, 4.0])}, False),
    ("B-84", {"effects.within.0": put("high", 0.0)}, False),
    ("B-84", {"effects.with_entropy.trained": put("low", -0.25)}, False),
    ("B-84", {"silenced.within.shuffled": put("low", 0.0)}, False),
    ("B-84", {"nearest.effect_within": put([0, 5], -0.3)}, False),
    ("B-84", {"nearest.effect_with_entropy": -0.25}, False),
    ("B-84", {"effects.with_depth.control": put("high", 0.0)}, False),
    ("B-85", {"released.value_rises": put([2, 3], 0.0)}, False),
    ("B-85", {"released.minimal_keys": put(3, 400.0)}, True),
    ("B-85", {"released.minimal_keys": put(1, 400.0)}, True),
    ("B-85", entry("nearest.by_seed.entropy", (1, 0), lambda m: m.nearest.by_seed["entropy"][1, 2]), False),
    ("B-85", entry("entropies.row.trained", (0, 1), lambda m: m.entropies.row["trained"][1:5, 2].max()), False),
    ("B-85", entry("entropies.row.trained", (5, 1), lambda m: m.entropies.row["trained"][1, 2]), False),
    ("B-85", {f"rungs.measures.row entropy.controls.{SHARP}": put((ALL, [0, 5]), [0.5, 0.6])}, False),
    *[("B-85", with_minimum(layer), 3 <= layer <= 8) for layer in (2, 3, 8, 9)],
    ("B-86", {"nearest.D_total": np.zeros_like}, False),
    ("B-86", {"nearest.D_total": of_all(lambda m: put(0, m.nearest.critical)(np.ones(16)))}, True),
    ("B-86", entry("nearest.control_D_total.start", (2, 1), nearest_critical), False),
    ("B-86", entry("nearest.control_D_total.random", (4, 0), nearest_critical), True),
    ("B-86", entry("total.D.trained", (1, 0), critical), False),
    ("B-86", entry("total.D.control", (slice(10), 0), critical), True),
    ("B-86", entry("total.D.control", (slice(4), 0), critical, 1.01), True),  # 44 of 48 are more than nine in ten
    ("B-86", entry("classifier.trained.D_total", ALL, lambda m: m.classifier.critical), False),
]


@pytest.mark.parametrize(
    ("study", "claim_id", "changes", "due"),
    [
        *check("bert_rank", RANK),
        *check("bert_similarity", SIMILARITY),
        *check("bert_stream", STREAM),
        *check("bert_normality", NORMALITY),
    ],
)
def test_each_condition_decides_alone(study, claim_id, changes, due):
    assert bool(judged(study, claim_id, changes).holds) == due


def test_a_verdict_is_open_if_one_layer_has_no_interval():
    """With a single text an interval has no ends."""
    outcome = judged("bert_similarity", "B-20", {"terms.without_b_Q.2": put("low", math.nan)})
    assert not outcome.decided


def test_what_is_told_beside_a_verdict_is_told_of_its_own_quantity():
    """Numbers of a sentence that decide nothing; each is put where only the right layer, head or end finds it."""
    twelve = {"attention + skip + linear MLP": 0.77, "attention + skip + MLP": 0.66}
    runs = {}
    for name, size in twelve.items():
        runs = at_layer(size, name, 1.0, 12)["stacks.runs"](runs or measurement("bert_rank").stacks.runs)
    more = judged("bert_rank", "B-26", {"stacks.runs": lambda _: runs}).more
    assert "0.77 after 12 random layers of gain 1, GELU 0.66" in more
    grown = np.full((3, 6, 12), 0.1)
    grown[0, 0, :7], grown[1, 1, :9], grown[1, 0, 3] = 0.6, 0.6, 0.7
    assert (
        "7 of 72 heads for Q, by 10 for K, by 0 for V"
        in judged("bert_similarity", "B-14", {"nearest.grown": grown}).more
    )
    moved = judged("bert_similarity", "B-23", {"lengths.moved": [0.05, 0.02, 0.08]}).more
    assert "2 % to 8 %" in moved
    forged = {"nearest.layers.cone": put((0, 0), 9e9), "cone.per_token.trained": put((0, 0), 77.75)}
    outcome = judged("bert_normality", "B-79", forged)
    assert "from 77.8 to" in outcome.more
    forged = {f"effects.within.{layer}": put("value", 0.25 * (1 + layer) / 8) for layer in range(6)}
    assert "first and last layer (+0.03 [" in judged("bert_normality", "B-84", forged).more
    assert ", +0.19 [" in judged("bert_normality", "B-84", forged).more
    by_layer = np.linspace(0.1, 0.35, 6)
    forged = {"nearest.gates": put((ALL, ALL, GATES.index("residual")), by_layer[:, None])}
    assert "10% to 35% of the attention" in judged("bert_stream", "B-109", forged).more
    blocks = np.linspace(0.2, 0.6, 12)  # which are 0.4 on average
    forged = {"read_back.shares.trained": put((ALL, READ_BACK.index(("heads", "x"))), blocks)}
    assert "which alone tells 40% to 40%" in judged("bert_stream", "B-102", forged).more
