"""Patterns, messages and folded values on GPT-2's twelve layers, held to transformers' GPT2Attention."""

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.models.reading import Model, load
from analysis.transformer.layernorm import apply_norm
from book.lab.equality import gaps
from book.publish.records import Experiment, Result, Value

POSITIONS = 64


def compare_layers(model: Model, device, positions: int = POSITIONS) -> dict[str, np.ndarray]:
    """Return the gap of each form to the module's output, by layer, in float64.

    Each layer reads ``LN(p + noise)``, where the noise is as spread as the positions.
    """
    p = model.positions[:positions].to(device)
    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    found = []
    for i, layer in enumerate(model.plain_layers()):
        norm = model.norm("attention", i).to(device)
        found.append(gaps("gpt2", layer.to(device), apply_norm(p + p.std() * noise, norm)[None]))
    return {form: np.array([of_layer[form] for of_layer in found]) for form in found[0]}


def compute(device) -> Result:
    """Compare GPT-2's layers."""
    arrays = compare_layers(load(checkpoints.find("gpt2"), dtype=torch.float64), device)
    return Result(
        {"layers": Value(len(arrays["sum over heads"])), "positions": Value(POSITIONS)},
        arrays,
        {form: 1e-9 if array.max() < 1e-9 else 1e-6 for form, array in arrays.items()},
    )


EXPERIMENT = Experiment(
    "Patterns, messages and folded values against GPT2Attention", compute, models=("gpt2",), minutes=0.3, seed=0
)
