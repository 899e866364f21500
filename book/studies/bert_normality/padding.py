"""The same measures with the rows of padding counted in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from book.studies.bert_normality.averages import over_texts
from book.studies.shared.averages import by_layer
from book.studies.shared.networks import Arrays

MEANS = {
    "rows that fail": "first_failing",
    "plain rows that fail": "bare_failing",
    "D of the sum": "D_sum",
    "D of the plain sum": "D_sum_bare",
    "mean cosine": "cosine",
    "stable rank": "stable_rank",
    "entropy": "entropy",
}


@dataclass(frozen=True)
class Padding:
    """The texts that were also measured with padding."""

    texts: int
    share: float
    """How many of their rows are padding."""
    rows: Mapping[str, Mapping[str, Float[np.ndarray, "layer 3"]]]
    """The share of rows that fail, by network, then ``without`` and ``with`` padding."""
    sums: Mapping[str, Mapping[str, Float[np.ndarray, "layer 3"]]]
    """The statistic of the sum, likewise."""
    last_sum_fails: Mapping[str, Mapping[str, float]]
    """The share of texts whose sum fails in the last layer, likewise."""
    means: Mapping[str, Mapping[str, Mapping[str, Float[np.ndarray, " layer"]]]]
    """Means over texts (and heads), by quantity, as ``MEANS`` names them, by network, and likewise."""
    cone_ratio: Mapping[str, float]
    """By network: how many times as large padding makes the cone index."""


def measure_padding(arrays: Arrays, critical: float) -> Padding:
    """Compare the texts that were padded with themselves."""
    trained = arrays["trained"]
    count = len(trained["pad_rows"])
    return Padding(
        texts=count,
        share=float(1 - trained["tokens"][:count].mean() / trained["pad_rows"].mean()),
        rows={network: _both(values, "first_failing", over_texts) for network, values in arrays.items()},
        sums={network: _both(values, "D_sum", over_texts) for network, values in arrays.items()},
        last_sum_fails={
            network: _both(values, "D_sum", partial(_share_above, critical)) for network, values in arrays.items()
        },
        means={
            title: {network: _both(values, name, by_layer) for network, values in arrays.items()}
            for title, name in MEANS.items()
        },
        cone_ratio={
            network: float((values["pad_cone"] / values["cone"][:count]).mean()) for network, values in arrays.items()
        },
    )


def _share_above(critical: float, statistics: Float[np.ndarray, "text layer"]) -> float:
    """Return the share of texts whose statistic in the last layer is above the critical value."""
    return float((statistics[:, -1] > critical).mean())


def _both(values: Mapping[str, np.ndarray], name: str, average: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Average a quantity of the padded texts without padding and with it."""
    padded = values[f"pad_{name}"]
    return {"without": average(values[name][: len(padded)]), "with": average(padded)}
