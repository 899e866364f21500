"""The kernels of Phi-2, which turns a part of each head."""

import torch

from book.publish.records import Experiment, Result
from book.studies.rotary_bias.qwen import survey_models

MODELS = ("microsoft/phi-2",)
"""Names on the hub."""


def compute(device: torch.device) -> Result:
    """Survey each model, weights only."""
    return survey_models(MODELS)


EXPERIMENT = Experiment(
    "The kernels of Phi-2, which turns a part of each head",
    compute,
    models=MODELS,
    minutes=3.0,
    awaits="the weights of Phi-2",
)
