"""The same measures on the classifier of virus variants that was trained for this book, and on its control."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.models import checkpoints, parameters
from analysis.representations.normality import critical_value
from book.publish import Inputs, live_or_record

NAMES = ("first_failing", "D_sum", "D_total", "cone", "cosine", "largest", "entropy")


@dataclass(frozen=True)
class Classifier:
    """Means over sequences (and heads) by layer, trained and control; and the critical value for its width."""

    trained: Mapping[str, Float[np.ndarray, " layer"]]
    control: Mapping[str, Float[np.ndarray, " layer"]]
    critical: float


def measure_classifier(inputs: Inputs) -> Classifier:
    """Read the record of the case study."""
    record, _ = live_or_record("variant-measures", inputs, recompute=False)
    width = parameters.config(checkpoints.find("variant-bert-mini")).model
    trained, control = ({name: _by_layer(record.array(prefix + name)) for name in NAMES} for prefix in ("", "control_"))
    return Classifier(trained, control, critical_value(width))


def _by_layer(values: np.ndarray) -> Float[np.ndarray, " layer"]:
    return values.mean(tuple(axis for axis in range(values.ndim) if axis != 1)).astype(float)
