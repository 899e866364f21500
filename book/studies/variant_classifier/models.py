"""The models that the paper's own classifier can be compared with, nearest first, in the measures of its figures."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.statistics import normality
from book.lab.training import dna_classifier
from book.publish import Inputs, live_or_record
from book.studies.shared.averages import by_layer, over_heads
from book.studies.shared.nearest_classifier import START, Nearest
from book.studies.shared.variant_fine_tuned import RECIPE
from book.studies.variant_classifier.recorded import Recorded

MEASURES = {
    "rows that fail": "first_failing",
    "sums that fail": "D_sum",
    "mean cosine": "cosine",
    "largest value": "largest",
    "row entropy": "entropy",
}
"""By their names on the page: figure 8, figure 9 and table 1, figure 10, figure 11, figure 12."""
MINILM = "bert-normality-minilm"


@dataclass(frozen=True)
class Models:
    """Measures by layer of each model, means over sequences or texts; largest values over the root of the rows."""

    by_layer: Mapping[str, Mapping[str, Float[np.ndarray, " layer"]]]


def compare_models(nearest: Nearest, recorded: Recorded, inputs: Inputs, words: int) -> Models:
    """Collect the measures of the fine-tuned classifier, its start, the one from random weights, and MiniLM on text.

    ``words`` counts the rows of a sequence, which differ by less than one in a hundred from class to class.
    """
    own = {name: nearest.layers[field][:, 0] for name, field in MEASURES.items()} | {
        "sums that fail": nearest.failing_sums
    }
    start = {name: nearest.controls[field][START].mean(0) for name, field in MEASURES.items()} | {
        "sums that fail": nearest.control_failing_sums[START].mean(0)
    }
    scratch = {name: recorded.pair(field).trained for name, field in MEASURES.items()}
    pairs = {
        "fine-tuned, MiniLM's body": scaled(own, words),
        "its start": scaled(start, words),
        "from random weights, three seeds": scaled(average(scratch, 2), words),
    }
    return Models(pairs | {"MiniLM on text": measure_minilm(inputs)})


def scaled(measures: Mapping[str, np.ndarray], rows: float) -> dict[str, np.ndarray]:
    """Divide largest singular values by the root of the number of rows."""
    return {**measures, "largest value": measures["largest value"] / rows**0.5}


def average(measures: Mapping[str, np.ndarray], leading: int) -> dict[str, np.ndarray]:
    """Average over seeds, sequences and heads; of the sums of rows, count those that fail."""
    failing = measures["sums that fail"] > normality.critical_value(dna_classifier.MINI.width)
    return {
        name: over_heads(failing if name == "sums that fail" else values, leading).mean((0, 1))
        for name, values in measures.items()
    }


def measure_minilm(inputs: Inputs) -> dict[str, np.ndarray]:
    """Read MiniLM's measures on the texts of the chapter on normality."""
    record, _ = live_or_record(MINILM, inputs, recompute=False)
    arrays = {name: record.array(field) for name, field in MEASURES.items()}
    arrays["sums that fail"] = arrays["sums that fail"] > normality.critical_value(RECIPE.width)
    arrays["largest value"] = arrays["largest value"] / np.sqrt(record.array("tokens"))[:, None, None]
    return {name: by_layer(values) for name, values in arrays.items()}
