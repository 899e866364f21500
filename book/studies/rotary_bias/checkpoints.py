"""The kernels of models in folders, for the records that wait for a machine that has them."""

from collections.abc import Sequence

import numpy as np

from analysis.surveys.kernel_survey import survey_folder
from analysis.surveys.records import Result, Value, data_folder


def survey_models(names: Sequence[str]) -> Result:
    """Survey each model, weights only, layer by layer; arrays carry the model's name before their own."""
    values, arrays = {}, {}
    for name in names:
        survey = survey_folder(data_folder(name))
        values[f"{name} range"] = Value(float(survey["range"].max()), 1e-3, unit="nats")
        arrays |= {f"{name} {key}": value.astype(np.float32) for key, value in survey.items()}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))
