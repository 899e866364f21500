"""Closed heads silenced or levelled, and biases exchanged: what the sentence and its maps owe to them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Result
from book.studies.bert_gates import query_bias
from book.studies.bert_gates.ablation import effects as measure_effects
from book.studies.bert_gates.gate_census import (
    CLOSED,
    GateCensus,
    Ratio,
    bound_ratio,
    number_phrase,
    ratio_of,
    share_phrase,
)

OWN_TEXTS, WORDS = 2, 100
MOSTLY = 0.5  # a head is closed from this share of its maps on

ByHead = Float[np.ndarray, "layer head"]


@dataclass(frozen=True)
class Medians:
    """Median of 1 - cos over closed heads, over all others, and over the others of layer 0; nan where there is none."""

    level_closed: float
    level_other: float
    level_peers: float
    zero_closed: float
    zero_other: float
    zero_peers: float


@dataclass(frozen=True)
class Ablation:
    """The closed share of every head, and how far the embedding moves (1 - cos, mean over texts) without it.

    ``effects`` has for the trained model and the control what silencing a head (``zero``) and levelling its map
    (``uniform``) do.
    """

    source: str
    closed: Mapping[str, ByHead]
    effects: Mapping[str, Mapping[str, ByHead]]
    closed_heads: int
    closed_in_first_layer: int
    others_in_first_layer: int
    medians: Medians


@dataclass(frozen=True)
class AblationNumbers(Numbers):
    """The medians in the page's text."""

    level_closed: str
    level_other: str
    level_peers: str
    zero_closed: str
    zero_other: str
    zero_peers: str


def measure_ablation(inputs: Inputs, census: GateCensus) -> tuple[Ablation, AblationNumbers]:
    """Take the effects from their record, or ablate the heads of a reader's model, and compare closed heads."""
    if inputs.departs:
        effects, source = ablate_heads(inputs), "Computed just now."
    else:
        record, source = live_or_record("bert-gates-ablation", inputs)
        effects = {
            which: {way: record.array(prefix + way).mean(0) for way in ("zero", "uniform")}
            for which, prefix in (("trained", ""), ("control", "control_"))
        }
    closed = {which: scores[..., CLOSED] for which, scores in census.scores.items()}
    ablation = compare_closed_heads(source, closed, effects)
    phrases = {name: number_phrase(value, ".4f") for name, value in vars(ablation.medians).items()}
    return ablation, AblationNumbers(**phrases)


def compare_closed_heads(
    source: str, closed: Mapping[str, ByHead], effects: Mapping[str, Mapping[str, ByHead]]
) -> Ablation:
    """Compare the trained model's closed heads with all others, and with the others of layer 0."""
    is_closed = closed["trained"] >= MOSTLY
    is_peer = ~is_closed
    is_peer[1:] = False
    groups = {"closed": is_closed, "other": ~is_closed, "peers": is_peer}
    medians = Medians(
        **{
            f"{name}_{group}": median(effects["trained"][way][heads])
            for name, way in (("level", "uniform"), ("zero", "zero"))
            for group, heads in groups.items()
        }
    )
    return Ablation(source, closed, effects, int(is_closed.sum()), int(is_closed[0].sum()), int(is_peer.sum()), medians)


def ablate_heads(inputs: Inputs) -> dict[str, dict[str, np.ndarray]]:
    """Silence and level each head of a reader's model and of its control on a few short texts."""
    checkpoint, effects = checkpoints.find(inputs.model), {}
    tokenizer = pretrained.tokenizer(checkpoint)
    passages = texts.passages(longest=WORDS, count=OWN_TEXTS, source=inputs.texts)
    for which, seed in (("trained", None), ("control", 0)):
        model = pretrained.load(checkpoint, control_seed=seed, device=inputs.device)
        effect, _ = measure_effects(model, tokenizer, passages)
        effects[which] = {"zero": effect[..., 0].mean(0), "uniform": effect[..., 1].mean(0)}
    return effects


def median(values: np.ndarray) -> float:
    """Return the median, or nan where there is no value."""
    return float(np.median(values)) if values.size else np.nan


EXCHANGE_TEXTS, EXCHANGE_WORDS = 4, 100


@dataclass(frozen=True)
class BiasExchange:
    """The share of the attention on columns, by maps (all, mostly directional, the control's) and query bias."""

    source: str
    columns: Mapping[str, Ratio]


@dataclass(frozen=True)
class BiasNumbers(Numbers):
    """The share of the attention on columns in the page's text, in per cent."""

    columns_texts: int
    columns_own: str
    columns_none: str
    columns_random: str
    mostly_own: str
    mostly_none: str
    mostly_random: str
    control_own: str
    control_lent: str


def measure_bias_exchange(inputs: Inputs) -> tuple[BiasExchange, BiasNumbers]:
    """Take the shares from their record, or exchange the biases of a reader's model."""
    if inputs.departs:
        result, source = exchange_biases(inputs), "Computed just now."
    else:
        result, source = live_or_record("bert-gates-query-bias", inputs)
    columns = {name: bound_ratio(ratio_of(value)) for name, value in result.values.items() if name != "maps_mostly"}
    shares = {name: share_phrase(ratio.value, digits=1 if "control" in name else 0) for name, ratio in columns.items()}
    numbers = BiasNumbers(columns["columns_own"].texts, **shares)
    return BiasExchange(source, columns), numbers


def exchange_biases(inputs: Inputs) -> Result:
    """Exchange the biases of a reader's model and of its control on a few short texts."""
    checkpoint = checkpoints.find(inputs.model)
    passages = texts.passages(longest=EXCHANGE_WORDS, count=EXCHANGE_TEXTS, source=inputs.texts)
    pair = [pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for seed in (None, 0)]
    return query_bias.survey(*pair, pretrained.tokenizer(checkpoint), passages)
