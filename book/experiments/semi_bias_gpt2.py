"""What every layer of GPT-2, and of its controls, would make of the raw positions; no token table is needed."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.decomposition.folding import fold_norm
from analysis.decomposition.terms import semi_bias
from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.statistics.correlation import recency
from analysis.transformer.layernorm import sigma
from book.lab.ladder import measure_controls
from book.publish.records import Experiment, Result


def compute(device: torch.device) -> Result:
    """What every layer of GPT-2, and of its controls, would make of the raw positions."""
    return measure(checkpoints.find("gpt2"), device)


def measure(checkpoint: Checkpoint, device: torch.device) -> Result:
    """Measure every layer in float64, and the controls, ``(level, seed, layer, head)``, with the trained LayerNorms."""
    model = load(checkpoint, dtype=torch.float64)
    layers = [layer.to(device) for layer in model.plain_layers()]
    norms = [model.norm("attention", number).to(device) for number in range(len(layers))]
    positions = model.positions.to(device)

    def draw(seed: int) -> list[AttentionLayer]:
        numbers = range(len(layers))
        return [random_attention_layer(model, number, seed, torch.float64).to(device) for number in numbers]

    trained = effective(positions, layers, norms)
    names = ("effective_rho", "effective_std", "first_lead")
    controls = measure_controls(
        make_controls(layers, draw),
        lambda network: np.stack([effective(positions, network, norms)[name] for name in names]),
    )
    arrays = trained | {f"ladder_{name}": controls[:, :, k] for k, name in enumerate(names)}
    packed = {name: of.astype(np.float32) if of.dtype.kind == "f" else of for name, of in arrays.items()}
    tolerances = {
        name: 1e-5 * max(float(np.abs(of).max()), 1e-3) if of.dtype.kind == "f" else 0.0 for name, of in packed.items()
    }
    return Result({}, packed, tolerances)


def effective(
    positions: Float[Tensor, "position model"], layers: list[AttentionLayer], norms: list[Norm]
) -> dict[str, np.ndarray]:
    """Return, of every layer's effective semi-bias over sigma(p): rank correlation, spread, and the lead of key 0.

    The lead is over the mean of the other positions. The untrained last position is left out.
    """
    scores = torch.stack(
        [
            semi_bias(positions / sigma(positions, norm.eps)[:, None], fold_norm(layer, norm))
            for layer, norm in zip(layers, norms, strict=True)
        ]
    )[..., :-1]
    first, others = scores[..., :1], scores[..., 1:]
    found = {
        "effective_rho": recency(scores),
        "effective_std": scores.std(-1),
        "first_lead": (first - others.mean(-1, keepdim=True))[..., 0],
        "first_beaten_by": (others > first).sum(-1).to(torch.int16),
    }
    return {name: values.numpy(force=True) for name, values in found.items()}


EXPERIMENT = Experiment(compute, models=("gpt2",), minutes=0.2, seed=0)
