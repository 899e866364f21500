"""The same measures on the classifier of virus variants that was trained for this book, and on its control."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.statistics.normality import critical_value
from book.publish import Inputs, live_or_record
from book.studies.shared.averages import by_layer

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
    width = load(checkpoints.find("variant-bert-mini")).width
    trained, control = (
        {name: by_layer(record.array(prefix + name)).astype(float) for name in NAMES} for prefix in ("", "control_")
    )
    return Classifier(trained, control, critical_value(width))
