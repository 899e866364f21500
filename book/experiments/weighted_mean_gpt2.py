"""GPT-2's first-layer heads on the dial, on positions alone and with random vectors in place of tokens."""

import torch

from analysis.core.attention_layer import Norm
from analysis.maps import entropy
from analysis.models import checkpoints
from analysis.models.controls import random_attention_layer
from analysis.models.reading import Model, load
from analysis.transformer.attention import compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from book.publish.records import Experiment, Result, Value

POSITIONS, DRAWS = 128, 8
DIALS = torch.cat([torch.zeros(1), torch.logspace(-2, 2, 33)]).double()


def curves(x, layer) -> tuple[torch.Tensor, torch.Tensor]:
    """Return means over sequences and rows 2, 3, ...: ``(dial, head)`` entropy over ``log i``, and weight on itself."""
    scores = mask_future(compute_scores(x, layer))
    share = entropy.entropy_at(scores, DIALS.to(x)) / entropy.count_visible_keys(scores).log()
    return share[..., 1:].mean((1, -1)), scores.softmax(-1).diagonal(dim1=-2, dim2=-1)[..., 1:].mean((0, -1))


def compute(device: torch.device) -> Result:
    """Turn the dial for GPT-2."""
    return measure(load(checkpoints.find("gpt2"), dtype=torch.float64), device)


def measure(model: Model, device: torch.device) -> Result:
    """Turn the dial for a model's first layer and for the control."""
    positions, g = model.positions[:POSITIONS].to(device), torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, *positions.shape, generator=g, dtype=torch.float64).to(device)
    norm = model.norm("attention").to(device)
    layer = model.layers[0].plain().to(device)
    random = random_attention_layer(model, 0, dtype=torch.float64).to(device)
    plain = Norm(torch.ones_like(norm.gain), torch.zeros_like(norm.bias), norm.eps)
    inputs = {
        "positions": (apply_norm(positions, norm)[None], layer),
        "stand_ins": (apply_norm(positions + positions.std() * noise, norm), layer),
        "control": (apply_norm(model.config.initializer_range * noise, plain), random),
    }
    arrays = {}
    for name, (x, w) in inputs.items():
        arrays[name], arrays[f"{name}_self"] = (a.cpu().numpy() for a in curves(x, w))
    return Result(
        {"positions": Value(len(positions)), "draws": Value(DRAWS), "spread": Value(float(positions.std()), 1e-6)},
        {"dials": DIALS.numpy(), **arrays},
        {"dials": 1e-6, **dict.fromkeys(arrays, 1e-6)},
    )


EXPERIMENT = Experiment(
    "GPT-2's first-layer heads between uniform and sharp attention", compute, models=("gpt2",), minutes=0.3, seed=0
)
