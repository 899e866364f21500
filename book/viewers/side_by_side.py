"""The measures behind the paper's figures in three models and their controls, side by side, from the records.

The paper's own classifier is not to be had. Nearest to it is MiniLM, fine-tuned on simulated genes as the authors did;
then a classifier of the same architecture, trained from random weights; and MiniLM on text stands for the family.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from analysis.maps.gates import PATTERNS
from analysis.models import reading
from analysis.models.controls import LEVELS, NETWORKS
from analysis.statistics.normality import critical_value
from book.lab.averages import by_layer
from book.lab.document_ladder import CONTROLS, LADDER
from book.publish import experiments
from book.publish.phrases import first_to_last
from book.publish.records import Record

Layers = Float[np.ndarray, " layer"]
MODELS = {
    "fine-tuned": "MiniLM, fine-tuned on genes",
    "scratch": "classifier from random weights",
    "text": "MiniLM on text",
}
BY_HEAD = ("gates", "largest", "entropy")
"""Arrays with an axis of heads behind that of the layers; the survey of texts has averaged over it."""


class Measure(NamedTuple):
    """One measure: the elements of the paper that show it, its name here, the array, and how it is written."""

    there: str
    name: str
    array: str
    write: Callable[[Layers, float], str]


def percentage(values: Layers, _: float) -> str:
    """Write the mean over layers.

    >>> percentage(np.array([0.25, 0.75]), 0.0)
    '50 %'
    """
    return f"{100 * values.mean():.0f} %"


def ends(values: Layers, _: float) -> str:
    """Write the first and the last layer.

    >>> ends(np.array([0.25, 9.0, 0.75]), 0.0)
    '0.25 to 0.75'
    """
    return first_to_last(values)


def growth(values: Layers, _: float) -> str:
    """Write the last layer over the first.

    >>> growth(np.array([2.0, 9.0, 3.0]), 0.0)
    '1.5 times'
    """
    return f"{values[-1] / values[0]:.1f} times"


def over_critical(values: Layers, critical: float) -> str:
    """Write the first and the last layer, or the only number, over the critical value.

    >>> over_critical(np.array([0.04, 0.02]), 0.02), over_critical(np.array([0.03]), 0.02)
    ('2.0 to 1.0', '1.5')
    """
    return first_to_last(values / critical, ".1f")


MEASURES = (
    Measure(
        "Fig. 3 to 7",
        "attention that the detector reads as gates (even attention is none), mean over layers",
        "gates",
        percentage,
    ),
    Measure("Fig. 8", "rows that are not Gaussian, mean over layers", "first_failing", percentage),
    Measure(
        "Fig. 9, Table 1", "D of a layer's sum over its critical value, first to last layer", "D_sum", over_critical
    ),
    Measure("Fig. 10", "cone index, last layer over first", "cone", growth),
    Measure("Fig. 10", "mean cosine of two rows, first to last layer", "cosine", ends),
    Measure("Fig. 11", "largest singular value of a head's output, last layer over first", "largest", growth),
    Measure("Fig. 12", "entropy of rows over its largest, first to last layer", "entropy", ends),
    Measure("Fig. 13", "D of the sum over all layers over its critical value", "D_total", over_critical),
)


@dataclass(frozen=True)
class Model:
    """Where a model's arrays are: by network a function of an array's name, ``None`` where nothing was recorded."""

    model: str
    width: int
    read: Mapping[str, Callable[[str], np.ndarray] | None]

    def layers(self, network: str, array: str) -> Layers | None:
        """Return means by layer of one measure of the trained network or of a control."""
        read = self.read[network]
        if read is None:
            return None
        values = read(array).astype(float)
        if array == "gates":  # shares that sum to one: the patterns come first, even attention and the rest after them
            values = values[..., : len(PATTERNS)].sum(-1)
        heads = int(array in BY_HEAD and self.model != "text")
        return by_layer(values, values.ndim - 1 - heads)


def read_models() -> dict[str, Model]:
    """Open the records of the three models."""
    load = experiments.load
    tuned, scratch, rows, gates = (
        load(name) for name in ("variant-fine-tuned", "variant-measures", "bert-normality-ladder", "bert-gates-ladder")
    )
    width = {name: reading.load(name).width for name in ("minilm", "variant-bert-mini")}

    def on_text(name: str) -> Record:
        return gates if name == "gates" else rows

    return {
        "fine-tuned": Model(
            "fine-tuned",
            width["minilm"],
            {"trained": tuned.array}
            | {level: lambda name, k=k: tuned.array(f"ladder_{name}")[k] for k, level in enumerate(LEVELS)},
        ),
        "scratch": Model(
            "scratch",
            width["variant-bert-mini"],
            dict.fromkeys(NETWORKS)
            | {"trained": scratch.array, "random": lambda name: scratch.array(f"control_{name}")},
        ),
        "text": Model(
            "text",
            width["minilm"],
            {"trained": lambda name: on_text(name).array(name)}
            | {
                level: lambda name, level=level: on_text(name).array(name + CONTROLS)[LADDER.index(level)]
                for level in LEVELS
            },
        ),
    }


def compare() -> list[tuple[Measure, dict[str, list[str]]]]:
    """Return, for each measure and each model, what is written for the trained network and for its controls."""
    models = read_models()

    def cell(measure: Measure, model: Model, network: str) -> str:
        values = model.layers(network, measure.array)
        return "\u2013" if values is None else measure.write(values, critical_value(model.width))

    return [
        (measure, {name: [cell(measure, model, network) for network in NETWORKS] for name, model in models.items()})
        for measure in MEASURES
    ]
