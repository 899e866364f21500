"""What is left of a sentence without the sink's column, or without the cells that the detector named: a record."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.maps import gates
from analysis.statistics.intervals import Interval, mean_interval
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated
from book.studies.bert_gates.removal import WAYS

SEEN = 0.01  # of the attention, so that a gate's cells can matter
DELETED, AT_RANDOM, RENORMALISED, RANDOM_RENORMALISED, SCALED_UP = WAYS
IN_WORDS = {
    DELETED: "deleted",
    AT_RANDOM: "as much deleted at random",
    RENORMALISED: "deleted, and shared among the others",
    SCALED_UP: "kept, and the others turned up as much",
}


@dataclass(frozen=True)
class Removal:
    """How far the sentence turns (1 - cos), over documents, and the share of the attention that is taken.

    By way for the sink; by gate for named cells and for as much at random, both with rows left short.
    """

    sink: Mapping[str, Interval]
    sink_shares: Mapping[str, float]
    named: Mapping[str, Interval]
    random: Mapping[str, Interval]
    difference: Mapping[str, Interval]  # of the two effects on the same document
    shares: Mapping[str, tuple[float, float]]  # named, random

    def said(self) -> dict[str, Interval]:
        """Return what is done with the sink's weight, in words, and how far the sentence turns."""
        return {words: self.sink[way] for way, words in IN_WORDS.items()}

    def sink_table(self) -> pd.DataFrame:
        """Tabulate what is done with the first token's weight, and how far the sentence turns."""
        columns = {
            "attention taken": {way: f"{share:.1%}" for way, share in self.sink_shares.items()},
            "effect": _bracketed(self.sink),
        }
        return pd.DataFrame(columns).rename_axis("[CLS]'s column, in all layers")

    def gate_table(self) -> pd.DataFrame:
        """Tabulate effects of taking the cells of a gate away, and as much at random."""
        columns = {
            "attention taken": {gate: f"{named:.1%}" for gate, (named, _) in self.shares.items()},
            "as much at random": {gate: f"{drawn:.1%}" for gate, (_, drawn) in self.shares.items()},
            "effect": _bracketed(self.named),
            "effect at random": _bracketed(self.random),
            "difference": _bracketed(self.difference),
        }
        return pd.DataFrame(columns).rename_axis("gate")


def _bracketed(spans: Mapping[str, Interval]) -> dict[str, str]:
    """Write each value with its interval.

    >>> _bracketed({"open": Interval(0.5, 0.25, 0.75)})
    {'open': '0.500 [0.250, 0.750]'}
    """
    return {name: f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]" for name, e in spans.items()}


@dataclass(frozen=True)
class RemovalNumbers(Numbers):
    """The effects in the page's text; and the gates whose cells matter more than as much at random."""

    sink_deleted: float
    sink_at_random: float
    sink_renormalised: float
    sink_scaled: float
    removed_columns: float
    removed_at_random: float
    removed_difference: float
    removed_difference_low: float
    removed_difference_high: float
    removed_more: str


def measure_removal(inputs: Inputs) -> Removal:
    """Read the effects of taking weights away."""
    record, _ = live_or_record("bert-gates-removal", inputs, recompute=False)
    sink, taken, effect, share = (
        record.array(name).astype(float) for name in ("sink", "sink share", "effect", "share")
    )
    named, random, difference = (
        {gate: mean_interval(values[:, k]) for k, gate in enumerate(gates.GATES)}
        for values in (effect[..., 0], effect[..., 1], effect[..., 0] - effect[..., 1])
    )
    return Removal(
        sink={way: mean_interval(sink[:, k]) for k, way in enumerate(WAYS)},
        sink_shares=dict(zip(WAYS, taken.mean(0).tolist(), strict=True)),
        named=named,
        random=random,
        difference=difference,
        shares=dict(zip(gates.GATES, map(tuple, share.mean(0).tolist()), strict=True)),
    )


def removal_numbers(removal: Removal) -> RemovalNumbers:
    """Write the effects of the sink and of the columns, and name the gates that matter more than random cells."""
    columns, chance, more = (of["directional"] for of in (removal.named, removal.random, removal.difference))
    return RemovalNumbers(
        sink_deleted=removal.sink[DELETED].value,
        sink_at_random=removal.sink[AT_RANDOM].value,
        sink_renormalised=removal.sink[RENORMALISED].value,
        sink_scaled=removal.sink[SCALED_UP].value,
        removed_columns=columns.value,
        removed_at_random=chance.value,
        removed_difference=more.value,
        removed_difference_low=more.low,
        removed_difference_high=more.high,
        removed_more=enumerated(
            [gate for gate, (share, _) in removal.shares.items() if share > SEEN and removal.difference[gate].low > 0]
        ),
    )
