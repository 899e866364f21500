"""The shares beside the ladder of controls, and whether they foretell what a head loses without a part.

The seeds of gpt2-mini say how much of this another training repeats.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from analysis.models.controls import RUNGS
from analysis.plotting.ladder import Ladder
from analysis.statistics.correlation import Correlation, partial_rank_correlation, rank_correlation
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.studies.one_score_four_parts import shares
from book.studies.one_score_four_parts.experiments import MEASURES, WAYS
from book.studies.one_score_four_parts.parts import SIX
from book.studies.one_score_four_parts.shares import CONTENT, PARTS, SEMI_BIAS, HeadShares

TESTED = {"mean query": CONTENT, "no query bias": SEMI_BIAS}  # the part that each change takes away
LARGE = 0.5  # a head's change is large beside that of another one where it is at least half of it


@dataclass(frozen=True)
class Effect:
    """How what one change does goes with the part that it takes away, over the heads of a model.

    ``nats`` correlates the size of the effect with what the part contributes to the divergence, ``share`` with its
    share in it; ``at_equal_depth`` is the former with the layer taken out, and ``with_depth`` that of layer and effect.
    """

    nats: Correlation
    share: Correlation
    at_equal_depth: float
    with_depth: float


@dataclass(frozen=True)
class Causes(Numbers):
    """Effects of the changes on each head, ``(way, layer, head)`` in the order of ``WAYS``, and what goes with them.

    Effects are ``1 - cos`` of MiniLM's embedding, and the rise of gpt2-mini's loss in nats per token. The numbers are
    MiniLM's: rank correlations over heads.
    """

    prefix = "os"
    sizes: Mapping[str, Float[np.ndarray, "way layer head"]]
    effects: Mapping[str, Mapping[str, Effect]]
    cause_content: float
    cause_content_low: float
    cause_content_high: float
    cause_content_share: float
    cause_content_depth: float
    cause_semi: float
    cause_semi_low: float
    cause_semi_high: float
    cause_semi_depth: float
    cause_mini_content: float  # the same in gpt2-mini, which has few heads
    cause_mini_semi: float
    constant_heads: int  # MiniLM's heads to which a mean query does at least half of what a uniform map does
    papa_heads: int  # and those to which a constant map does
    query_median: float  # the median effect of a mean query, of a constant map and of a uniform map
    papa_median: float
    uniform_median: float


@dataclass(frozen=True)
class Rungs(Numbers):
    """MiniLM beside the ladder of its controls: divergence and content's share by layer; shares of all layers."""

    prefix = "os"
    panels: Mapping[str, Ladder]
    rung_trained: str
    rung_random: str
    rung_scaled: str
    rung_permuted: str
    rung_scaled_last: str  # content's share in the last layer, mean of the seeds; and the trained one
    rung_trained_last: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the record of the parts in MiniLM and its controls."""
    record, _ = live_or_record("one-score-four-parts-ladder", inputs, recompute=False)
    trained, controls = record.array("trained"), record.array("controls")
    content = MEASURES.index("content")
    share, shares = (table[..., content] / table[..., 0] for table in (trained, controls))
    overall = controls[..., content].sum(-1) / controls[..., 0].sum(-1)
    random, scaled, permuted = (f"{100 * of_rung.min():.0f} to {100 * of_rung.max():.0f} %" for of_rung in overall)
    return Rungs(
        {
            "divergence": Ladder(trained[:, 0], dict(zip(RUNGS, controls[..., 0], strict=True))),
            "content's share": Ladder(share, dict(zip(RUNGS, shares, strict=True))),
        },
        rung_trained=percent(trained[:, content].sum() / trained[:, 0].sum()),
        rung_random=random,
        rung_scaled=scaled,
        rung_permuted=permuted,
        rung_scaled_last=percent(shares[RUNGS.index("random, as large"), :, -1].mean()),
        rung_trained_last=percent(share[-1]),
    )


def correlate(effect: Float[np.ndarray, "layer head"], heads: HeadShares, part: int) -> Effect:
    """Correlate the size of an effect with a part, over heads in order of layers."""
    size = torch.tensor(np.abs(effect).ravel()).double()
    nats = torch.tensor(heads.parts[:, part]).double()
    depth = torch.arange(len(effect)).repeat_interleave(effect.shape[1]).double()
    return Effect(
        rank_correlation(size, nats),
        rank_correlation(size, nats / torch.tensor(heads.divergence)),
        partial_rank_correlation(size, nats, depth),
        rank_correlation(size, depth).value,
    )


def measure_causes(heads: Mapping[str, HeadShares], inputs: Inputs) -> Causes:
    """Read the record of the changes, and set it beside the shares."""
    record, _ = live_or_record("one-score-four-parts-interventions", inputs, recompute=False)
    sizes = {name: record.array(name) for name in ("minilm", "gpt2-mini")}
    effects = {
        name: {way: correlate(table[WAYS.index(way)], heads[name], part) for way, part in TESTED.items()}
        for name, table in sizes.items()
    }
    content, semi = (effects["minilm"][way] for way in TESTED)
    by_way = dict(zip(WAYS, np.abs(sizes["minilm"]), strict=True))
    medians = {way: float(np.median(table)) for way, table in by_way.items()}
    return Causes(
        sizes,
        effects,
        cause_content=_two_digits(content.nats.value),
        cause_content_low=_two_digits(content.nats.low),
        cause_content_high=_two_digits(content.nats.high),
        cause_content_share=_two_digits(content.share.value),
        cause_content_depth=_two_digits(content.at_equal_depth),
        cause_semi=_two_digits(semi.nats.value),
        cause_semi_low=_two_digits(semi.nats.low),
        cause_semi_high=_two_digits(semi.nats.high),
        cause_semi_depth=_two_digits(semi.at_equal_depth),
        cause_mini_content=effects["gpt2-mini"]["mean query"].nats.value,
        cause_mini_semi=effects["gpt2-mini"]["no query bias"].nats.value,
        constant_heads=int((by_way["mean query"] >= LARGE * by_way["uniform"]).sum()),
        papa_heads=int((by_way["constant map"] >= LARGE * by_way["uniform"]).sum()),
        query_median=medians["mean query"],
        papa_median=medians["constant map"],
        uniform_median=medians["uniform"],
    )


def _two_digits(correlation: float) -> float:
    """Round a correlation as the table beside it does, not once more after three digits.

    >>> _two_digits(0.6449), f"{0.645:.2f}"
    (0.64, '0.65')
    """
    return round(float(correlation), 2)


class Span(NamedTuple):
    """The least and the largest of the seeds."""

    low: float
    high: float

    def phrase(self, form: str) -> str:
        """Write it in words.

        >>> Span(1, 2.5).phrase(".1f")
        '1.0 to 2.5'
        """
        return f"{self.low:{form}} to {self.high:{form}}"


@dataclass(frozen=True)
class MiniSeeds(Numbers):
    """The parts of the score in several seeds of gpt2-mini, and how what a change does goes with them.

    Texts are ranges over seeds: shares of the parts in per cent, numbers of heads as in ``ModelNumbers``, the share of
    the positional semi-bias in the first layer, and rank correlations as in ``Effect.nats``. ``parts`` holds the heads
    of all seeds, seed after seed.
    """

    prefix = "os-seeds"
    parts: Float[np.ndarray, "head part"]
    causes: dict[str, Span]
    count: int
    heads: int
    content: str
    common: str
    semi: str
    semi_majority: str
    content_minority: str
    p: str
    cause_content: str
    cause_semi: str


def measure_mini_seeds(inputs: Inputs) -> MiniSeeds:
    """Read the record of the several seeds."""
    record, _ = live_or_record("one-score-four-parts-seeds", inputs, recompute=False)
    divergence, parts, first = (record.array(name) for name in ("divergence", "parts", "first"))
    seeds = [
        HeadShares(whole.ravel(), shares.heads_of(own), np.zeros(whole.size))
        for whole, own in zip(divergence, parts, strict=True)
    ]
    by_part = [span([100 * seed.share(k) for seed in seeds]).phrase(".0f") + " %" for k in range(len(PARTS))]
    rest = {part: [seed.parts.sum(1) - seed.parts[:, part] for seed in seeds] for part in (CONTENT, SEMI_BIAS)}
    pairs = {part: list(zip(seeds, rest[part], strict=True)) for part in rest}
    causes = {
        way: span(
            [
                correlate(effects[WAYS.index(way)], seed, part).nats.value
                for effects, seed in zip(record.array("effects"), seeds, strict=True)
            ]
        )
        for way, part in TESTED.items()
    }
    of_positions = first[..., SIX.index("p")].mean(1) / divergence[:, 0].mean(1)
    return MiniSeeds(
        np.concatenate([seed.parts for seed in seeds]),
        causes,
        len(seeds),
        len(seeds[0].parts),
        *by_part,
        semi_majority=span([int((seed.parts[:, SEMI_BIAS] > other).sum()) for seed, other in pairs[SEMI_BIAS]]).phrase(
            "d"
        ),
        content_minority=span([int((other > seed.parts[:, CONTENT]).sum()) for seed, other in pairs[CONTENT]]).phrase(
            "d"
        ),
        p=f"{percent(of_positions.min())} to {percent(of_positions.max())}",
        **{f"cause_{name}": causes[way].phrase(".2f") for name, way in zip(("content", "semi"), TESTED, strict=True)},
    )


def span(values) -> Span:
    """Return the least and the largest value."""
    return Span(min(values), max(values))
