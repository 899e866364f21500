"""The census of gates: what every head of the model and of its control reads as, over texts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from analysis.data import texts
from analysis.maps import gates
from analysis.models import checkpoints, pretrained
from analysis.statistics.intervals import FEWEST, Interval, bounded, mean_interval
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Record, Result, Value
from book.studies.shared.census import RATIOS, summarise, take_census
from book.studies.shared.map_counts import KINDS

NOTHING = "(nothing to measure)"


def number_phrase(value: float, form: str) -> str:
    """Write a number in the given format, or say that there is nothing to measure where it is nan.

    Examples
    --------
    >>> number_phrase(0.5, ".2f"), number_phrase(float("nan"), ".2f")
    ('0.50', '(nothing to measure)')
    """
    return NOTHING if math.isnan(value) else format(value, form)


def share_phrase(share: float, digits: int = 0) -> str:
    """Write a share in per cent, or say that there is nothing to measure where it is nan.

    Examples
    --------
    >>> share_phrase(0.256), share_phrase(float("nan"))
    ('26 %', '(nothing to measure)')
    """
    return NOTHING if math.isnan(share) else percent(share, digits)


UNBOUNDED = ("end_of_diagonal", "points_a_map")  # ratios that may exceed 1
SHOWN = (
    "patterned",
    "composed",
    "both_of_either",
    "open_with_either",
    "in_company",
    "short_columns",
    "short_verticals",
    "run_covers",
    "end_of_diagonal",
    "points_a_map",
    "weak_points",
)
COUNTS = ("maps", "either", "open_maps", "lines", "points", "bias_maps")
OPEN, CLOSED = gates.GATES.index("open"), gates.GATES.index("closed")
POINTS = slice(gates.GATES.index("instance"), gates.GATES.index("inverse directional") + 1)
OWN_TEXTS = 8  # so many texts of a reader's are read
LENGTH_GROUPS = 3


@dataclass(frozen=True)
class Ratio:
    """A ratio of totals over texts with its 95 % interval; nan where there is nothing to divide by.

    ``texts`` is the number of texts that have something to divide by; the bounds of what is shown are nan where those
    are too few for an interval.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    texts: int = 0

    @property
    def interval(self) -> Interval:
        """Return the ratio as an interval, which knows how to say its bounds."""
        return Interval(self.value, self.low, self.high)


@dataclass(frozen=True)
class ModelCensus:
    """The gates of one model: ratios and counts over all maps, mean shares by head and by text.

    ``shuffled_shares`` and ``shuffled_names`` are read from maps whose rows were shuffled, the latter as shares of the
    maps that are named after each gate. ``follows`` is each head's correlation of the attention that keys get with
    their semi-bias, nan where the head is not directional.
    """

    ratios: Mapping[str, Ratio]
    counts: Mapping[str, int]
    scores: Float[np.ndarray, "layer head gate"]
    deviations: Float[np.ndarray, "layer head gate"]
    by_text: Float[np.ndarray, "text gate"]
    lengths: Int[np.ndarray, " text"]
    shuffled_shares: Float[np.ndarray, "every_fourth_text gate"]
    shuffled_names: Float[np.ndarray, " gate"]
    follows: Float[np.ndarray, "layer head"]


@dataclass(frozen=True)
class BestHead:
    """The head in which a gate is strongest, with the gate's mean share over texts."""

    layer: int
    head: int
    share: Interval


@dataclass(frozen=True)
class Gallery:
    """The clearest head of each gate on the sentence: its map, the gate of each cell, and a title."""

    maps: list[Float[np.ndarray, "query key"]]
    cells: list[Int[np.ndarray, "query key"]]
    titles: list[str]


@dataclass(frozen=True)
class GateCensus:
    """The census of the model and of its control, and what the page shows of it.

    ``class_shares`` has for each gate the mean share in the trained model, in its maps with shuffled rows, and the
    same two for the control. ``spans`` are the groups of texts by length in tokens, ``by_length`` the shares in them.
    ``kind_shares`` says for each kind of token how many there are and how much attention they get.
    """

    source: str
    trained: ModelCensus
    control: ModelCensus
    summary: Mapping[str, Ratio]
    best: Mapping[str, BestHead]
    class_shares: Mapping[str, list[float]]
    spans: list[str]
    by_length: Mapping[str, list[Interval]]
    token_kinds: tuple[str, ...]
    kind_shares: Mapping[str, Float[np.ndarray, " kind"]]

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Return the mean shares of both models, each ``(layer, head, gate)``."""
        return {"trained": self.trained.scores, "control": self.control.scores}

    @property
    def follows(self) -> np.ndarray:
        """Return the correlations with the semi-bias of the heads that have one."""
        return self.trained.follows[np.isfinite(self.trained.follows)]


@dataclass(frozen=True)
class CensusNumbers(Numbers):
    """The numbers of the census in the page's text, shares in per cent."""

    texts: int
    shortest: int
    longest: int
    patterned: str
    composed: str
    control_closed: str
    columns_shortest: str  # of the attention, in the third of the texts that are shortest, and in the longest
    columns_longest: str
    null_most: str  # of the attention, read as any pattern in maps with shuffled rows
    point_share: str
    point_chance: str
    open_best: str
    end: str
    both: str
    with_open: str
    company: str
    run: str
    short: str
    verticals: str
    points: str
    weak: str
    residual: str
    control_residual: str
    quiet: str
    near: str
    near_cells: str
    loud: str
    loud_below: str
    first: str
    first_all: str
    first_tokens: str
    sep: str
    follow: str
    stray: str
    top: str
    chance: str


def measure_census(inputs: Inputs) -> GateCensus:
    """Take the census from its record, or count the gates of a reader's model on a few texts."""
    if inputs.departs:
        result, source = count_gates(inputs), "Computed just now."
    else:
        result, source = live_or_record("bert-gates-minilm", inputs)
    trained, control = bound_ratios(model_census(result, "")), model_census(result, "control_")
    spans, by_length = group_by_length(trained)
    return GateCensus(
        source,
        trained,
        control,
        summary={name: trained.ratios[name] for name in SHOWN if trained.ratios[name].texts},
        best=best_heads(trained),
        class_shares=share_by_class(trained, control),
        spans=spans,
        by_length=by_length,
        token_kinds=KINDS,
        kind_shares=share_by_kind(trained, control),
    )


def count_gates(inputs: Inputs) -> Result:
    """Count the gates of a reader's model, and of its control, on the first texts."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, passages = pretrained.tokenizer(checkpoint), texts.passages(count=OWN_TEXTS, source=inputs.texts)
    values, arrays = {}, {}
    for prefix, seed in (("", None), ("control_", 0)):
        model = pretrained.load(checkpoint, control_seed=seed, device=inputs.device)
        result = summarise(take_census(model, tokenizer, passages), prefix)
        values, arrays = values | result.values, arrays | result.arrays
    return Result(values, arrays)


def model_census(result: Record | Result, prefix: str) -> ModelCensus:
    """Pick one model's part of a census."""
    ratios = {
        name: ratio_of(result.values[prefix + name]) if prefix + name in result.values else Ratio() for name in RATIOS
    }
    counts = {name: result[f"{prefix}count_{name}"] for name in COUNTS}
    names = ("scores", "score_deviation", "by_text", "lengths", "null", "null_names", "bias")
    return ModelCensus(ratios, counts, *(result.array(prefix + name) for name in names))


def ratio_of(value: Value) -> Ratio:
    """Make a ratio of a recorded value; a bound that is not recorded is nan."""
    low, high = (np.nan if bound is None else bound for bound in (value.low, value.high))
    return Ratio(value.value, low, high, value.n or 0)


def bound_ratio(ratio: Ratio, *, share: bool = True) -> Ratio:
    """Hold an interval within what its value can be; its bounds are nan if too few texts have it."""
    return Ratio(*bounded(ratio.interval, ratio.texts, share=share), ratio.texts)


def bound_ratios(census: ModelCensus) -> ModelCensus:
    """Hold the intervals that the page shows within what their values can be."""
    bounds = {name: bound_ratio(census.ratios[name], share=name not in UNBOUNDED) for name in SHOWN}
    return replace(census, ratios={**census.ratios, **bounds})


def best_heads(census: ModelCensus) -> dict[str, BestHead]:
    """Return for each gate but the residual the head in which it is strongest, with Student's interval over texts."""
    best, count = {}, len(census.lengths)
    for i, name in enumerate(gates.GATES[: CLOSED + 1]):
        layer, head = np.unravel_index(census.scores[..., i].argmax(), census.scores.shape[:2])
        mean, deviation = census.scores[layer, head, i], census.deviations[layer, head, i]
        half = stats.t.ppf(0.975, count - 1) * deviation / count**0.5
        best[name] = BestHead(int(layer), int(head), bounded(Interval(mean, mean - half, mean + half), count))
    return best


def share_by_class(trained: ModelCensus, control: ModelCensus) -> dict[str, list[float]]:
    """Return for each gate its share in the trained model and the control, as they are and with rows shuffled."""
    return {
        name: [
            shares[..., i].mean()
            for shares in (trained.scores, trained.shuffled_shares, control.scores, control.shuffled_shares)
        ]
        for i, name in enumerate(gates.GATES)
    }


def group_by_length(census: ModelCensus) -> tuple[list[str], dict[str, list[Interval]]]:
    """Group the texts by length; with fewer texts than an interval needs in each group, into fewer groups."""
    groups = _length_groups(census)
    spans = [f"{census.lengths[group].min()} to {census.lengths[group].max()}" for group in groups]
    return spans, {
        name: [bounded(mean_interval(census.by_text[group, i]), len(group)) for group in groups]
        for i, name in enumerate(gates.GATES)
    }


def _length_groups(census: ModelCensus) -> list[np.ndarray]:
    """Return the texts of each group, from short to long."""
    order = np.argsort(census.lengths, kind="stable")
    parts = min(LENGTH_GROUPS, len(order) // FEWEST)
    return np.array_split(order, parts) if parts else []


def share_by_kind(trained: ModelCensus, control: ModelCensus) -> dict[str, np.ndarray]:
    """Return, by kind of token, the shares of the tokens, of the attention and of the columns."""
    series = {
        "tokens": (trained, "tokens"),
        "attention": (trained, "attention"),
        "on columns": (trained, "columns"),
        "attention, control": (control, "attention"),
    }
    return {
        label: np.array([census.ratios[f"{part}_{kind}"].value for kind in KINDS])
        for label, (census, part) in series.items()
    }


def gallery(census: GateCensus, maps: np.ndarray, cells: np.ndarray) -> Gallery:
    """Pick the clearest head of each gate from the maps of a sentence."""
    places = [(best.layer, best.head) for best in census.best.values()]
    titles = [f"{name}: {best.layer}.{best.head}" for name, best in census.best.items()]
    return Gallery([maps[place] for place in places], [cells[place] for place in places], titles)


def census_numbers(census: GateCensus) -> CensusNumbers:
    """Write the census as the page's text has it."""
    trained, control, lengths = census.trained, census.control, census.trained.lengths
    columns = census.by_length.get("directional") or [Interval(np.nan, np.nan, np.nan)]
    shares = {
        "patterned": "patterned",
        "composed": "composed",
        "end": "end_of_diagonal",
        "both": "both_of_either",
        "with_open": "open_with_either",
        "company": "in_company",
        "run": "run_covers",
        "short": "short_columns",
        "verticals": "short_verticals",
        "weak": "weak_points",
        "residual": "residual",
        "quiet": "residual_quiet",
        "near": "residual_near",
        "near_cells": "near_cells",
        "loud": "loud",
        "loud_below": "loud_below",
        "first": "columns_first",
        "first_all": "attention_first",
        "first_tokens": "tokens_first",
        "sep": "attention_separator",
        "top": "bias_top",
    }
    return CensusNumbers(
        texts=len(lengths),
        shortest=int(lengths.min()),
        longest=int(lengths.max()),
        **{field: share_phrase(trained.ratios[name].value) for field, name in shares.items()},
        control_closed=share_phrase(control.scores[..., CLOSED].mean()),
        control_residual=share_phrase(control.ratios["residual"].value),
        columns_shortest=share_phrase(columns[0].value),
        columns_longest=share_phrase(columns[-1].value),
        null_most=share_phrase(max(census.class_shares[name][1] for name in gates.PATTERNS), 2),
        point_share=share_phrase(sum(census.class_shares[name][0] for name in gates.GATES[POINTS]), 2),
        point_chance=share_phrase(sum(census.class_shares[name][1] for name in gates.GATES[POINTS]), 2),
        open_best=share_phrase(trained.scores[..., OPEN].max()),
        points=number_phrase(trained.ratios["points_a_map"].value, ".2f"),
        follow=number_phrase(trained.ratios["bias_correlation"].value, ".2f"),
        stray=number_phrase(trained.ratios["bias_other"].value, "+.2f"),
        chance=share_phrase(trained.ratios["bias_chance"].value, 1),
    )
