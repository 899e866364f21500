"""When Pythia's kernels appear: the biases of one model at every checkpoint of its training, weights only."""

import numpy as np
import torch

from book.lab.kernel_survey import survey_model
from book.publish.records import Experiment, Result, Value

STEPS = (0, *(2**k for k in range(10)), *range(1000, 144_000, 1000))
"""The 154 steps that are published, each a branch of the model's repository."""
MODELS = tuple(f"EleutherAI/pythia-160m@step{step}" for step in STEPS)
"""Names on the hub."""


def compute(device: torch.device) -> Result:
    """Survey every step."""
    surveys = [survey_model(name) for name in MODELS]
    arrays = {name: np.stack([survey[name] for survey in surveys]).astype(np.float32) for name in surveys[0]}
    return Result(
        {"range": Value(float(arrays["range"][-1].max()), 1e-3, unit="nats")},
        {"step": np.array(STEPS), **arrays},
        dict.fromkeys(arrays, 1e-3),
    )


EXPERIMENT = Experiment(
    "The kernels of Pythia-160M at every checkpoint of its training",
    compute,
    models=MODELS,
    minutes=15.0,
    awaits="the checkpoints of Pythia",
)
