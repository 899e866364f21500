"""Two more seeds of the two-layer model on repeated random tokens, beside the three of the first record."""

import torch

from book.lab.training import attention_only
from book.publish.records import Experiment, Result
from book.studies.induction_head.training import train_runs

SEEDS = (3, 4)


def compute(device: torch.device) -> Result:
    """Train both."""
    config = attention_only.Config()
    return train_runs({f"seed-{seed}": (config, seed) for seed in SEEDS}, device)


EXPERIMENT = Experiment(
    summary="attention-only transformers on repeated random tokens: seeds 3 and 4",
    compute=compute,
    minutes=6.0,
    seed=SEEDS[0],
)
