"""GPT-2's first layer for the score mixer: ``T^p``, and ``T^pp`` as a product of narrow factors in half precision.

``sigma(e + p)`` depends on the token: tokens are as wide as a position, ``sigma^2 = sigma_p^2 + median(sigma_p)^2``.
The last position, which was hardly trained, is left out.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.folding import fold_norm
from analysis.maps.locality import causal_attention, position_scores
from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.transformer.attention import project
from analysis.transformer.layernorm import sigma
from book.lab.first_layer import along_axes
from book.publish.records import Experiment, Result, Value

RANK = 12


def compute(device: torch.device) -> Result:
    """GPT-2's first layer for the score mixer: T^p, and T^pp as a product of narrow factors.

    Factor the scores of positions, and say how far the attention of the factors is from that of the model.
    """
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    ln = model.norm("attention").to(device)
    folded = fold_norm(model.layers[0].plain().to(device), ln)
    p = model.positions.to(device)[:-1]
    width = sigma(p, ln.eps)
    own, both = position_scores(p, width, folded)
    left, right = (factor.half() for factor in factors(p / width[:, None], folded))
    shrink = width / (width.square() + width.median() ** 2).sqrt()  # tokens as wide as a position, as in the chapter
    product = left.double() @ right.double().mT
    scores = (both * shrink[:, None] * shrink, product * shrink[:, None] * shrink)
    maps = [causal_attention(s + (own * shrink)[:, None]) for s in scores]
    seen = torch.ones(len(p), len(p), dtype=torch.bool, device=device).tril()
    values = {
        "score_error": Value(float((scores[0] - scores[1])[:, seen].abs().max()), 0.02, unit="nats"),
        "total_variation": Value(float((maps[0] - maps[1]).abs().sum(-1).max() / 2), 0.005),
        "period": Value(period(curve(p)), 0.01, unit="positions"),
    }
    arrays = {"left": left, "right": right, "own": own.float(), "sigma": width.float(), "curve": curve(p).float()}
    packed = {name: array.cpu().numpy() for name, array in arrays.items()}
    return Result(values, packed, {name: 2e-2 * float(np.abs(array).max()) for name, array in packed.items()})


def factors(
    y: Float[Tensor, "position model"], layer: AttentionLayer, rank: int = RANK
) -> tuple[Float[Tensor, "head position rank"], Float[Tensor, "head position rank"]]:
    """Return the factors whose product is nearest to ``y W_Q W_K^T y^T / sqrt(c)``, among those of this rank.

    Each pair of columns has the sign that makes the left one's sum positive.

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionLayer(eye, eye, eye, eye, zero, zero, zero, torch.zeros(2))
    >>> left, right = factors(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), layer, rank=1)
    >>> (left @ right.mT * math.sqrt(2)).round(decimals=3)
    tensor([[[4., 0.],
             [0., 0.]]])
    """
    zero = torch.zeros_like(layer.b_Q)
    (q_axes, q), (k_axes, k) = (torch.linalg.qr(project(y, W, zero)) for W in (layer.W_Q, layer.W_K))
    U, S, Vt = torch.linalg.svd(q @ k.mT / math.sqrt(layer.channel))
    root = S[:, None, :rank].sqrt()
    left, right = q_axes @ U[..., :rank] * root, k_axes @ Vt.mT[..., :rank] * root
    sign = torch.where(left.sum(1, keepdim=True) < 0, -1.0, 1.0).to(left)
    return left * sign, right * sign


def curve(p: Float[Tensor, "position model"]) -> Float[Tensor, "position 3"]:
    """Return the positions along the first three principal axes of their table; the last of them end positive."""
    return along_axes(p, 3)[0]


def period(points: Float[Tensor, "position 3"]) -> float:
    """Return how many positions one turn around the first two axes takes, by the median step of the angle.

    >>> turn = torch.linspace(0, 2 * math.pi, 41)
    >>> round(period(torch.stack([turn.cos(), turn.sin(), turn], 1)), 3)
    40.0
    """
    angle = np.unwrap(torch.atan2(points[:, 1], points[:, 0]).cpu().numpy())
    return float(2 * math.pi / abs(np.median(np.diff(angle))))


EXPERIMENT = Experiment(compute, models=("gpt2",), minutes=0.1, seed=0)
