"""The kernels of Qwen2.5-0.5B and Qwen3-0.6B, of one team, with biases and with norms in their place."""

import torch

from analysis.surveys.records import Experiment, Result
from book.studies.rotary_bias.checkpoints import survey_models

MODELS = ("qwen2.5-0.5b", "qwen3-0.6b")
"""Folders in the hub's layout."""


def compute(device: torch.device) -> Result:
    """Survey each model, weights only."""
    return survey_models(MODELS)


EXPERIMENT = Experiment("The kernels of Qwen2.5-0.5B and Qwen3-0.6B, of one team", compute, data=MODELS, minutes=3.0,
                        awaits="the weights of Qwen2.5 and Qwen3")
