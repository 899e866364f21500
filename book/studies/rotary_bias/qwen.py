"""The kernels of two pairs of models of one team: Qwen2.5 with biases, and Qwen3 with norms in their place."""

from collections.abc import Sequence

import numpy as np
import torch

from book.lab.kernel_survey import survey_model
from book.publish.records import Experiment, Result, Value

MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B")
"""Names on the hub."""


def survey_models(names: Sequence[str]) -> Result:
    """Survey each model, weights only, layer by layer; arrays carry the model's name before their own."""
    values, arrays = {}, {}
    for name in names:
        survey = survey_model(name)
        short = name.rpartition("/")[2]
        values[f"{short} range"] = Value(float(survey["range"].max()), 1e-3, unit="nats")
        arrays |= {f"{short} {key}": value.astype(np.float32) for key, value in survey.items()}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))


def compute(device: torch.device) -> Result:
    """Survey each model, weights only."""
    return survey_models(MODELS)


EXPERIMENT = Experiment(
    "The kernels of Qwen2.5, which has biases, and of Qwen3, which has none",
    compute,
    models=MODELS,
    minutes=6.0,
    awaits="the weights of Qwen2.5 and Qwen3",
)
