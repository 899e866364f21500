"""What MiniLM's embedding and gpt2-mini's loss lose when one head at a time is changed."""

import numpy as np
import torch

from analysis.models import checkpoints
from book.lab.head_changes import change_heads
from book.publish.records import Experiment, Result

MODELS = ("minilm", "gpt2-mini")


def compute(device: torch.device) -> Result:
    """Change every head of both models; ``(way, layer, head)`` each."""
    arrays = {name: change_heads(checkpoints.find(name), device).astype(np.float32) for name in MODELS}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


EXPERIMENT = Experiment(
    "What MiniLM and gpt2-mini lose with one head's queries, query bias or map made constant",
    compute,
    models=MODELS,
    minutes=1.0,
    seed=0,
)
