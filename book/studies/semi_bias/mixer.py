"""GPT-2's first layer for the score mixer: ``T^p``, and ``T^pp`` as a product of narrow factors.

The last position, which was hardly trained, is left out. Factors are kept in half precision.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.folding import fold_norm
from analysis.maps.locality import causal_attention, position_scores
from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.transformer.attention import project, softmax
from analysis.transformer.layernorm import sigma
from book.publish.records import Experiment, Record, Result, Value

RANK = 12
HEAD, QUERY = 3, 700  # shown at first: a head whose far peak is sharp, and a query with more than one turn before it


@dataclass(frozen=True)
class Mixtures:
    """One query's weights under ``T^pp`` alone and under ``T^p + T^pp``, and where the first of them peak far back."""

    weights: dict[str, Float[np.ndarray, " key"]]
    curve: Float[np.ndarray, "position 3"]
    query: int
    far: int

    def start(self) -> dict[str, int]:
        """Return what the viewer shows at first: ``T^pp`` alone."""
        return {"head": HEAD, "query": self.query, "Tp": 0}


def mixtures(record: Record | Result) -> Mixtures:
    """Take the query's weights from the factors, tokens as wide as a position."""
    width = record.array("sigma").astype(np.float64)
    shrink = width / np.sqrt(width**2 + np.median(width) ** 2)
    left, right = (record.array(name)[HEAD].astype(np.float64) for name in ("left", "right"))
    pairs = ((left[QUERY] @ right.T) * shrink * shrink[QUERY])[: QUERY + 1]
    ramp = (record.array("own")[HEAD] * shrink)[: QUERY + 1]
    weights = {
        name: softmax(torch.from_numpy(scores)).numpy()
        for name, scores in {"circle alone": pairs, "ramp and circle": ramp + pairs}.items()
    }
    return Mixtures(weights, record.array("curve"), QUERY, int(next(iter(weights.values())).argmax()))


def compute(device: torch.device) -> Result:
    """Factor the scores of positions, and say how far the attention of the factors is from that of the model."""
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

    Examples
    --------
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
    centred = p - p.mean(0)
    U, S, _ = torch.linalg.svd(centred, full_matrices=False)
    scores = U[:, :3] * S[:3]
    return scores * torch.sign(scores[-100:].sum(0))


def period(points: Float[Tensor, "position 3"]) -> float:
    """Return how many positions one turn around the first two axes takes, by the median step of the angle.

    >>> turn = torch.linspace(0, 2 * math.pi, 41)
    >>> round(period(torch.stack([turn.cos(), turn.sin(), turn], 1)), 3)
    40.0
    """
    angle = np.unwrap(torch.atan2(points[:, 1], points[:, 0]).cpu().numpy())
    return float(2 * math.pi / abs(np.median(np.diff(angle))))


EXPERIMENT = Experiment(
    summary="GPT-2's first layer for the score mixer: T^p, and T^pp as a product of narrow factors",
    compute=compute,
    models=("gpt2",),
    minutes=0.1,
    seed=0,
)
