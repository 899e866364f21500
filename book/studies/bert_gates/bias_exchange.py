"""Columns with the model's own query bias, without it, and with a random one; the control with the trained one."""

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Result
from book.studies.bert_gates import query_bias
from book.studies.bert_gates.gate_census import Ratio, bound_ratio, ratio_of
from book.studies.bert_gates.wording import share_phrase

OWN_TEXTS, WORDS = 4, 100


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
    passages = texts.passages(longest=WORDS, count=OWN_TEXTS, source=inputs.texts)
    pair = [pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for seed in (None, 0)]
    return query_bias.survey(*pair, pretrained.tokenizer(checkpoint), passages)
