"""The kernels of gpt-oss-20b: biases, sinks, and frequencies mixed by YaRN."""

import torch

from book.publish.records import Experiment, Result
from book.studies.rotary_bias.qwen import survey_models

MODELS = ("openai/gpt-oss-20b",)
"""Names on the hub."""


def compute(device: torch.device) -> Result:
    """Survey each model, weights only."""
    return survey_models(MODELS)


EXPERIMENT = Experiment(
    "The kernels and the sinks of gpt-oss-20b", compute, models=MODELS, minutes=3.0, awaits="the weights of gpt-oss"
)
