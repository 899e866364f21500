"""What maps carry, and what the sink is made of: records."""

from dataclasses import dataclass

import pandas as pd

from analysis.maps import gates
from book.lab.documents import KINDS
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated, percent
from book.studies.bert_gates.experiments import CLASSES, FIRST
from book.studies.shared.documents import LADDER, Rungs, load_rungs
from book.studies.shared.map_counts import PRESENT

PLACES = {
    **{name: ("first", k) for k, name in enumerate(FIRST)},
    **{name: ("classes", k) for k, name in enumerate(CLASSES)},
    **{f"{gate}, by contribution": ("weighted gates", k) for k, gate in enumerate(gates.GATES)},
    "length of first": ("length of first",),
}


@dataclass(frozen=True)
class Classifier:
    """The maps of the classifier of virus variants: shares of them with a pattern, and with two or more."""

    patterned: float
    composed: float
    diagonals: float  # the largest share of the attention that a map has on any diagonal


@dataclass(frozen=True)
class CarriedNumbers(Numbers):
    """The numbers of these sections in the page's text."""

    first_lengths: str
    first_attention: str
    first_contribution: str
    columns_contribution: str
    sink_semi_bias: str
    sink_common: str
    sink_content: str


def measure_carried(inputs: Inputs) -> Rungs:
    """Read what maps carry, and how they are classed."""
    return load_rungs("bert-gates-weighted", inputs, PLACES)


def measure_covered(inputs: Inputs) -> float:
    """Return how much of a full diagonal the detector finds in one run, where it finds least: the calibration's."""
    return float(live_or_record("gate-detector-calibration", inputs, recompute=False)[0].array("covered").min())


def measure_classifier(inputs: Inputs) -> Classifier:
    """Read the gates of every map of the classifier off the record of the case study."""
    scores = live_or_record("variant-measures", inputs, recompute=False)[0].array("gates")
    there = scores[..., : len(gates.PATTERNS)] >= PRESENT
    return Classifier(float(there.any(-1).mean()), float((there.sum(-1) >= 2).mean()), float(scores[..., 1:4].max()))


def class_table(carried: Rungs) -> pd.DataFrame:
    """Tabulate the classes of maps by kind of text and in the controls, in per cent of the maps."""
    columns = {kind: [carried[name].by_kind[kind].mean() for name in CLASSES] for kind in KINDS}
    columns |= {rung: [carried[name].controls[rung].mean() for name in CLASSES] for rung in LADDER}
    return pd.DataFrame(columns, index=pd.Index(list(CLASSES), name="class")).map(lambda share: f"{100 * share:.0f}")


def sink_table(carried: Rungs) -> pd.DataFrame:
    """Tabulate by layer what the first token gets in all, for what reason, and what it contributes."""
    own, bare, centred, contributed = (carried[name].documents.mean(0) for name in FIRST)
    rows = {
        "attention": own,
        "of it by the semi-bias": own - bare,
        "by what queries share besides": bare - centred,
        "by content": centred,
        "share of what arrives": contributed,
        "length of what it brings, over others": carried["length of first"].documents.mean(0),
    }
    table = pd.DataFrame(rows).T.map(lambda value: f"{value:.3f}").rename_axis("what the first token gets")
    return table.rename(columns=lambda layer: f"layer {layer}")


def carried_numbers(carried: Rungs) -> CarriedNumbers:
    """Write the numbers."""
    own, bare, centred, contributed = (carried[name].documents.mean() for name in FIRST)
    lengths = carried["length of first"].documents.mean(0)
    return CarriedNumbers(
        first_lengths=enumerated(lengths, ".2f"),
        first_attention=percent(own),
        first_contribution=percent(contributed),
        columns_contribution=percent(carried["directional, by contribution"].documents.mean()),
        sink_semi_bias=percent(own - bare),
        sink_common=percent(bare - centred),
        sink_content=percent(centred),
    )
