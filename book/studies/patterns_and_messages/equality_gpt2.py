"""Patterns, messages and folded values on GPT-2's twelve layers, held to transformers' GPT2Attention."""

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.transformer.layernorm import apply_norm
from book.publish.records import Experiment, Result, Value
from book.studies.shared.equality import gaps

POSITIONS = 64


def compute(device) -> Result:
    """Read ``LN(p + noise)`` in every layer, ``noise`` as spread as the positions, in float64."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    p = model.positions[:POSITIONS].to(device)
    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    found = []
    for i, layer in enumerate(model.plain_layers()):
        norm = model.norm("attention", i).to(device)
        x = apply_norm(p + p.std() * noise, norm)[None]
        found.append(gaps("gpt2", layer.to(device), x))
    arrays = {name: np.array([f[name] for f in found]) for name in found[0]}
    return Result(
        {"layers": Value(len(found)), "positions": Value(POSITIONS)},
        arrays,
        {name: 1e-9 if array.max() < 1e-9 else 1e-6 for name, array in arrays.items()},
    )


EXPERIMENT = Experiment(
    "Patterns, messages and folded values against GPT2Attention", compute, models=("gpt2",), minutes=0.3, seed=0
)
