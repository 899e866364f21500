"""What the attention's parameters say before any text is read: biases by layer, and what they say of positions.

A layer is read, measured and let go, so that a model of any size is read in the memory of one layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Alibi, Rotary
from analysis.reporting.origins import DISTANCES
from analysis.reporting.origins import kernel as kernel_of
from analysis.transformer.layernorm import apply_norm
from analysis.transformer.position_scores import alibi_slopes

BIASES = ("b_Q", "b_K", "b_V")
LINE = 4
"""Standard deviations beyond which a difference of two halves of positions is not chance."""


@dataclass(frozen=True)
class LayerParameters:
    """The numbers of one layer.

    Attributes
    ----------
    biases
        The length of each bias in each head, in the order of :data:`BIASES`; a group's bias counts for each of its
        heads.
    effective
        The same with the bias of the norm before the layer, carried through the matrices.
    sizes
        The root mean square length of queries, keys and values without a bias, for rows of independent coordinates as
        large as the norm before the layer makes them: what the biases are to be compared with. Without a norm before
        the layer, of rows of independent coordinates of size 1.
    kernel
        What the two biases of queries and keys, with that of the norm before the layer, say of distance alone, in nats:
        with rotary positions the kernel, each head's mean over the distances taken off; with ALiBi its line. None in
        other layers.
    own_kernel
        The same without the bias of the norm; None where there is no kernel of biases.
    spread
        The standard deviation over keys of the key semi-bias in each head, in nats, for rows as in `sizes`: of the
        query bias, and of the query bias with the bias of the norm. Unlike a length it does not change when a factor
        of ``W_Q W_K^T`` moves from one matrix to the other. None where queries and keys pass through a norm.
    """

    biases: Float[np.ndarray, "bias head"]
    effective: Float[np.ndarray, "bias head"]
    sizes: Float[np.ndarray, "bias head"]
    kernel: Float[np.ndarray, "head distance"] | None
    own_kernel: Float[np.ndarray, "head distance"] | None
    spread: Float[np.ndarray, "origin head"] | None


def _maps(layer: AttentionLayer) -> list[tuple[Tensor, Tensor]]:
    """Return matrices and biases of queries, keys and values in float64, those of a group once for each head."""
    maps = ((getattr(layer, f"W_{name}"), getattr(layer, f"b_{name}")) for name in "QKV")
    return [(layer.per_head(W).double(), layer.per_head(b).double()) for W, b in maps]


def measure_layer(layer: AttentionLayer, distances: int = DISTANCES) -> LayerParameters:
    """Measure one layer.

    Examples
    --------
    >>> from analysis.core.attention_layer import Mask
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero + 2, zero, zero, zero[0], 1.0,
    ...                        Mask(causal=True))
    >>> measured = measure_layer(layer)
    >>> measured.biases.ravel().tolist(), measured.kernel is None
    ([2.0, 0.0, 0.0], True)
    """
    norm, maps = layer.norm(), _maps(layer)
    gain = norm.gain.double() if norm else torch.ones(layer.model, dtype=torch.float64, device=layer.W_Q.device)
    shift = norm.bias.double() if norm else torch.zeros_like(gain)
    effective = [b + shift @ W for W, b in maps]
    sizes = [(gain[:, None] * W).square().sum((-2, -1)).sqrt() for W, _ in maps]
    own = [b for _, b in maps]
    rotary = isinstance(layer.positions, Rotary)
    return LayerParameters(
        *(
            np.stack([row.cpu().numpy() for row in rows])
            for rows in ([b.norm(dim=-1) for b in own], [b.norm(dim=-1) for b in effective], sizes)
        ),
        _preference(layer, effective, distances),
        _preference(layer, own, distances) if rotary else None,
        None if layer.qk_norm else np.stack([_spread(layer, gain, maps[1][0], b) for b in (own[0], effective[0])]),
    )


def _spread(layer: AttentionLayer, gain: Tensor, W_K: Tensor, b_Q: Tensor) -> Float[np.ndarray, " head"]:
    """Return the standard deviation of ``b_Q W_K^T x^T`` over rows of independent coordinates, in nats."""
    return layer.scale * (gain * (W_K @ b_Q[..., None])[..., 0]).norm(dim=-1).cpu().numpy()


def _preference(layer: AttentionLayer, effective: Sequence[Tensor], distances: int) -> np.ndarray | None:
    """Return what the layer prefers by distance, whatever the text, 0 on the mean."""
    distance = torch.arange(distances, dtype=torch.float64, device=layer.W_Q.device)
    if isinstance(layer.positions, Alibi):
        line = -alibi_slopes(layer.positions).to(distance.device)[:, None] * distance
    elif isinstance(layer.positions, Rotary) and layer.qk_norm is None:
        return kernel_of(effective[0], effective[1], layer.positions, layer.scale, distances)
    else:
        return None
    return (line - line.mean(-1, keepdim=True)).cpu().numpy()


def position_curves(layer: AttentionLayer, rows: Float[Tensor, "position model"]) -> Float[np.ndarray, "head position"]:
    r"""Return the key semi-bias that a table of positions gives a first layer, in nats: its mean over tokens, roughly.

    The row of each position is taken for the whole input: it passes through the norm before the layer, where there is
    one, and then through ``b_Q W_K^T``. Each head's mean is taken off, which no softmax sees.

    Examples
    --------
    >>> from analysis.core.attention_layer import Mask
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero + 2, zero, zero, zero[0], 1.0,
    ...                        Mask(causal=True))
    >>> position_curves(layer, torch.tensor([[1.0], [3.0]])).tolist()
    [[-2.0, 2.0]]
    """
    (W_Q, b_Q), (W_K, _), _ = _maps(layer)
    x, norm = rows.double(), layer.norm()
    if norm is not None:
        x, b_Q = apply_norm(x, norm.to(torch.float64)), b_Q + norm.bias.double() @ W_Q
    curves = layer.scale * torch.einsum("hc,hmc,pm->hp", b_Q, W_K, x)
    return (curves - curves.mean(-1, keepdim=True)).cpu().numpy()


def halves_apart(curves: Float[np.ndarray, "head position"]) -> Float[np.ndarray, " head"]:
    """Return by how much each head prefers the second half of the positions to the first, in nats.

    >>> halves_apart(np.array([[0.0, 1, 3, 4]])).tolist()
    [3.0]
    """
    half = curves.shape[-1] // 2
    return curves[:, half:].mean(-1) - curves[:, :half].mean(-1)


def late_over_early(curves: Float[np.ndarray, "head position"]) -> Float[np.ndarray, " head"]:
    """Return what the second half of the positions has over the first, in units of what a random order would give.

    >>> shares = np.array([[1.0, 1, 2, 2], [1, 2, 1, 2], [0, 0, 0, 0]])
    >>> late_over_early(shares).round(2).tolist()
    [1.73, 0.0, 0.0]
    """
    early = curves.shape[-1] // 2
    deviation = curves.std(-1, ddof=1) * np.sqrt(1 / (curves.shape[-1] - early) + 1 / early)
    return halves_apart(curves) / np.where(deviation > 0, deviation, 1)
