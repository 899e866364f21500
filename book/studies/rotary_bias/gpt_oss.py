"""The kernels of gpt-oss-20b: biases, sinks, and frequencies mixed by YaRN."""

import torch

from analysis.surveys.records import Experiment, Result
from book.studies.rotary_bias.checkpoints import survey_models

MODELS = ("gpt-oss-20b",)
"""Folders in the hub's layout."""


def compute(device: torch.device) -> Result:
    """Survey each model, weights only."""
    return survey_models(MODELS)


EXPERIMENT = Experiment("The kernels of gpt-oss-20b", compute, data=MODELS, minutes=3.0,
                        awaits="the weights of gpt-oss")
