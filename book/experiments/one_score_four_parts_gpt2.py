"""GPT-2's first layer without tokens: what the parts of the score explain there, and how near its maps are to formulas.

A position stands in the LayerNorm with a token of the median width.
"""

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.decomposition.folding import fold_norm
from analysis.models import checkpoints
from analysis.models.controls import random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import sigma
from book.lab.constructed_maps import FAMILIES, distances
from book.lab.score_shares import split_layer
from book.publish.records import Experiment, Result, Value

POSITIONS, SHOWN = 128, 64


def read_first_layer(
    checkpoint: checkpoints.Checkpoint, *, control: bool = False, device: torch.device | str = "cpu"
) -> tuple[AttentionLayer, torch.Tensor]:
    """Return the folded first layer, or a random one, and what of its input positions make."""
    model = load(checkpoint, dtype=torch.float64)
    if control:
        draws = torch.Generator().manual_seed(0)
        shape = model.config.max_position_embeddings, model.width
        positions = 0.02 * torch.randn(shape, generator=draws, dtype=torch.float64)
        ones = torch.ones(model.width, dtype=torch.float64)
        layer, norm = random_attention_layer(model, 0, dtype=torch.float64), Norm(ones, 0 * ones)
    else:
        positions, layer, norm = model.positions, model.layers[0].plain(), model.norm("attention")
    layer, norm, positions = layer.to(device), norm.to(device), positions.to(device)
    width = sigma(positions, norm.eps)
    width = (width**2 + width.median() ** 2).sqrt()
    return fold_norm(layer, norm), (positions / width[:, None])[:POSITIONS]


def compute(device: torch.device) -> Result:
    """Measure the layer and its control."""
    arrays, values = {}, {}
    for prefix in ("", "control_"):
        layer, x = read_first_layer(checkpoints.find("gpt2"), control=bool(prefix), device=device)
        maps = attend(x, layer).attention
        split = split_layer([x], layer, causal=True)
        values[f"{prefix}gap"] = Value(split.gap, tolerance=1e-9)
        arrays |= {
            f"{prefix}divergence": split.divergence,
            f"{prefix}parts": split.parts,
            f"{prefix}distance": distances(maps, torch.arange(len(x), device=device), causal=True).cpu().numpy(),
        }
        nearest = arrays[f"{prefix}distance"].argmin(0)
        if not prefix:
            arrays["maps"] = maps[nearest, :SHOWN, :SHOWN].to(torch.float16).cpu().numpy()
    tolerances = {name: 1e-3 if name == "maps" else 1e-6 for name in arrays}
    values["families"] = Value(len(FAMILIES))
    return Result(values, {name: np.asarray(array) for name, array in arrays.items()}, tolerances)


EXPERIMENT = Experiment(
    "GPT-2's first layer, positions alone: nearest prototypes, parts' shares",
    compute,
    models=("gpt2",),
    minutes=0.2,
    seed=0,
)
