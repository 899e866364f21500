"""GPT-2's first layer as far as its positions go: nearest prototypes and the parts' shares, without a token table.

The layer reads ``p / sigma`` with its LayerNorm folded in, where ``sigma`` is that of a token as wide as the median
position in an unknown direction. What tokens say is left out. Control: the same on random weights and positions.
"""

import numpy as np
import torch

from analysis.core.attention_layer import Norm
from analysis.decomposition.folding import fold_norm
from analysis.models import checkpoints
from analysis.models.controls import random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import sigma
from book.publish.records import Experiment, Result, Value
from book.studies.one_score_four_parts.parts import FAMILIES, distances, split_layer

POSITIONS, SHOWN = 128, 64


def read(ck: checkpoints.Checkpoint, *, control: bool = False, device: torch.device | str = "cpu"):
    """Return the folded first layer and what of its input positions make."""
    model = load(ck, dtype=torch.float64)
    if control:
        g = torch.Generator().manual_seed(0)
        p = 0.02 * torch.randn(model.config.max_position_embeddings, model.width, generator=g, dtype=torch.float64)
        ones = torch.ones(model.width, dtype=torch.float64)
        layer, ln = random_attention_layer(model, 0, dtype=torch.float64), Norm(ones, 0 * ones)
    else:
        p, layer, ln = model.positions, model.layers[0].plain(), model.norm("attention")
    layer, ln, p = layer.to(device), ln.to(device), p.to(device)
    width = sigma(p, ln.eps)
    width = (width**2 + width.median() ** 2).sqrt()
    return fold_norm(layer, ln), (p / width[:, None])[:POSITIONS]


def compute(device) -> Result:
    """Measure the layer and its control."""
    arrays, values = {}, {}
    for prefix in ("", "control_"):
        layer, x = read(checkpoints.find("gpt2"), control=bool(prefix), device=device)
        maps = attend(x, layer).attention
        whole, parts, _, _, gap = split_layer([x], layer, True)
        values[f"{prefix}gap"] = Value(gap, tolerance=1e-9)
        arrays |= {
            f"{prefix}divergence": whole,
            f"{prefix}parts": parts,
            f"{prefix}distance": distances(maps, torch.arange(len(x), device=device), causal=True).cpu().numpy(),
        }
        nearest = arrays[f"{prefix}distance"].argmin(0)
        if not prefix:
            arrays["maps"] = maps[nearest, :SHOWN, :SHOWN].to(torch.float16).cpu().numpy()
    tolerances = {name: 1e-3 if name == "maps" else 1e-6 for name in arrays}
    values["families"] = Value(len(FAMILIES))
    return Result(values, {name: np.asarray(a) for name, a in arrays.items()}, tolerances)


EXPERIMENT = Experiment(
    "GPT-2's first layer, positions alone: nearest prototypes, parts' shares",
    compute,
    models=("gpt2",),
    minutes=0.2,
    seed=0,
)
