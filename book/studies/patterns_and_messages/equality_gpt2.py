"""Patterns, messages and folded values on GPT-2's twelve layers, held to transformers' GPT2Attention."""

import numpy as np
import torch

from analysis.models import checkpoints, parameters
from analysis.surveys.records import Experiment, Result, Value
from analysis.transformer.layernorm import apply_norm
from book.studies.shared.equality import gaps

POSITIONS = 64


def compute(device) -> Result:
    """Read ``LN(p + noise)`` in every layer, ``noise`` as spread as the positions, in float64."""
    checkpoint = checkpoints.find("gpt2")
    layers = parameters.config(checkpoint).layers
    p = parameters.positions(checkpoint, torch.float64)[:POSITIONS].to(device)
    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    found = []
    for i in range(layers):
        norm = parameters.layer_norm(checkpoint, "attention", i, torch.float64).to(device)
        x = apply_norm(p + p.std() * noise, norm)[None]
        found.append(gaps("gpt2", parameters.attention_layer(checkpoint, i, torch.float64).to(device), x))
    arrays = {name: np.array([f[name] for f in found]) for name in found[0]}
    return Result(
        {"layers": Value(layers), "positions": Value(POSITIONS)},
        arrays,
        {name: 1e-9 if array.max() < 1e-9 else 1e-6 for name, array in arrays.items()},
    )


EXPERIMENT = Experiment(
    "Patterns, messages and folded values against GPT2Attention", compute, models=("gpt2",), minutes=0.3, seed=0
)
