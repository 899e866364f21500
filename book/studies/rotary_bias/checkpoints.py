"""The kernels of models of the hub, for the records that wait for a machine that has them."""

from collections.abc import Sequence

import numpy as np

from book.lab.kernel_survey import survey_model
from book.publish.records import Result, Value


def survey_models(names: Sequence[str]) -> Result:
    """Survey each model, weights only, layer by layer; arrays carry the model's name before their own."""
    values, arrays = {}, {}
    for name in names:
        survey = survey_model(name)
        short = name.rpartition("/")[2]
        values[f"{short} range"] = Value(float(survey["range"].max()), 1e-3, unit="nats")
        arrays |= {f"{short} {key}": value.astype(np.float32) for key, value in survey.items()}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))
