"""How often each token occurs in gpt2-mini's training text, the control for the norm of its embedding.

The text is what this Python carries, so another Python version counts a little differently: shares have a wide
tolerance, and so have the correlations that rest on them.
"""

import numpy as np
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.publish.records import Experiment, Result, Value


def compute(device: torch.device) -> Result:
    """Count the tokens of the training part of the corpus."""
    ck = checkpoints.find("gpt2-mini")
    ids = pretrained.tokenizer(ck).backend_tokenizer.encode(texts.corpus()).ids
    counts = np.bincount(ids, minlength=len(load(ck).tokens))
    return Result(
        {
            "tokens": Value(len(ids), tolerance=0.1 * len(ids), unit="tokens"),
            "never": Value(int((counts == 0).sum()), tolerance=100, n=len(counts), unit="tokens"),
        },
        {"per_million": (1e6 * counts / len(ids)).astype(np.float32)},
        {"per_million": 2e3},
    )


EXPERIMENT = Experiment(
    "How often each token of gpt2-mini occurs in its training text", compute, models=("gpt2-mini",), minutes=0.6
)
