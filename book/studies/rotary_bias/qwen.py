"""The kernels of two pairs of models of one team: Qwen2.5 with biases, and Qwen3 with norms in their place."""

import torch

from book.publish.records import Experiment, Result
from book.studies.rotary_bias.checkpoints import survey_models

MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B")
"""Names on the hub."""


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
