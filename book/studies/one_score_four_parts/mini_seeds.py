"""gpt2-mini in several seeds: the range over seeds of what the page says of the bundled one."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.studies.one_score_four_parts import shares
from book.studies.one_score_four_parts.causes import TESTED, correlate
from book.studies.one_score_four_parts.experiments import WAYS
from book.studies.one_score_four_parts.parts import SIX
from book.studies.one_score_four_parts.shares import CONTENT, PARTS, SEMI_BIAS, HeadShares


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
