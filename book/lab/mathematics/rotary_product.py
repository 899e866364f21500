r"""The product with a border, for rotary positions: one matrix for each frequency, and what of it can be known.

``sqrt(c) s_ij = [x_i 1] B(i - j) [x_j 1]^T`` with ``B = rest + sum_f (cosine_f cos + sine_f sin)``. What belongs here:
these matrices and the changes of the weights that leave them alone. What does not: the case without rotation
(:mod:`analysis.decomposition.bilinear_form`), the block of the biases (:mod:`analysis.decomposition.rotary_kernel`).
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.rotary_channels import rotation_of, split_channels
from analysis.decomposition.rotary_kernel import pair_channels, unpair_channels


@dataclass(frozen=True)
class RotaryBorder:
    """The bordered matrices of each head, divided by ``sqrt(channel)``; a last row and column belong to the biases."""

    cosine: Float[Tensor, "head frequency row column"]  # of rank 2 at most, as is the next
    sine: Float[Tensor, "head frequency row column"]
    rest: Float[Tensor, "head row column"]  # of the coordinates that are not turned
    frequencies: Float[Tensor, " frequency"]

    def at(self, distance: float | int) -> Float[Tensor, "head row column"]:
        """Return the matrix between a query and a key at one distance ``query - key``."""
        angle = self.frequencies * distance
        turned = [
            einsum(part, wave, "head frequency row column, frequency -> head row column")
            for part, wave in ((self.cosine, angle.cos()), (self.sine, angle.sin()))
        ]
        return self.rest + turned[0] + turned[1]


def rotary_border(layer: AttentionLayer) -> RotaryBorder:
    r"""Multiply the bordered factors of each head, frequency by frequency.

    .. math::

        B(\Delta) = B_\circ + \sum_f (C_f \cos\theta_f\Delta + S_f \sin\theta_f\Delta), \qquad
        C_f = \hat W_Q^a \hat W_K^{a\top} + \hat W_Q^b \hat W_K^{b\top}, \quad
        S_f = \hat W_Q^a \hat W_K^{b\top} - \hat W_Q^b \hat W_K^{a\top}

    with :math:`\hat W` the weights over the bias and ``a, b`` the two coordinates of a pair.

    >>> from analysis.core.positions import Rotary
    >>> one = torch.ones(1, 1, 2)
    >>> layer = AttentionLayer(one, one, one, one.mT, one[0], one[0], one[0],
    ...                        torch.zeros(1), positions=Rotary(torch.tensor([1.0]), 2))
    >>> border = rotary_border(layer)
    >>> (border.cosine[0, 0] * 2**0.5).round(), border.sine.abs().max()
    (tensor([[2., 2.],
            [2., 2.]]), tensor(0.))
    """
    rotary = rotation_of(layer)
    query, key = (
        layer.per_head(torch.cat([W, b[:, None]], 1)) for W, b in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K))
    )
    left, right = pair_channels(query, rotary), pair_channels(key, rotary)
    # Re[z conj(w) e^{i t}] = Re[z conj(w)] cos t - Im[z conj(w)] sin t
    product = einsum(left, right.conj(), "head row frequency, head column frequency -> head frequency row column")
    product = product * (rotary.attention_factor**2 * layer.scale)
    rest = einsum(split_channels(query, rotary)[1], key, "head row channel, head column channel -> head row column")
    return RotaryBorder(product.real, -product.imag, rest * layer.scale, rotary.frequencies.to(layer.W_Q))


def change_gauge(
    layer: AttentionLayer, factors: Tensor, matrix: Float[Tensor, "head rest other"] | None = None
) -> AttentionLayer:
    r"""Return other weights with the same scores at every distance: pairs times ``g``, keys divided by its conjugate.

    Without a rotation any invertible matrix of a head may go into ``W_Q`` and its inverse transpose into ``W_K``. With
    one only matrices that commute with every rotation: one complex number for each pair (of distinct frequencies), and
    any invertible matrix of the coordinates that are not turned. So :math:`\beta_f\bar\kappa_f` is a property of the
    model, and :math:`|\beta_f|` alone is not.

    Parameters
    ----------
    factors
        Complex, ``(head, frequency)``, none of them 0.
    matrix
        Of the rest, invertible; default the identity.

    >>> from analysis.core.positions import Rotary
    >>> one = torch.ones(1, 1, 2)
    >>> layer = AttentionLayer(one, one, one, one.mT, one[0], one[0], one[0],
    ...                        torch.zeros(1), positions=Rotary(torch.tensor([1.0]), 2))
    >>> other = change_gauge(layer, torch.tensor([[2j]]))
    >>> other.b_Q, other.b_K
    (tensor([[-2.,  2.]]), tensor([[-0.5000,  0.5000]]))
    """
    rotary = rotation_of(layer)
    if layer.groups != layer.heads:
        raise ValueError(f"layer must have a key for each of its {layer.heads} heads, got {layer.groups} groups")
    if tuple(factors.shape) != (layer.heads, rotary.coordinates // 2) or not factors.is_complex():
        raise ValueError(
            f"factors must be complex, ({layer.heads}, {rotary.coordinates // 2}), got "
            f"{factors.dtype} {tuple(factors.shape)}"
        )
    if (factors == 0).any():
        raise ValueError("factors must not be 0")
    rest = layer.channel - rotary.coordinates
    matrix = torch.eye(rest).to(layer.W_Q).expand(layer.heads, rest, rest) if matrix is None else matrix
    if tuple(matrix.shape) != (layer.heads, rest, rest):
        raise ValueError(f"matrix must be ({layer.heads}, {rest}, {rest}), got {tuple(matrix.shape)}")

    def turn(rows: Tensor, by: Tensor, mix: Tensor) -> Tensor:
        pairs = unpair_channels(pair_channels(rows, rotary) * by[:, None], rotary)
        return torch.cat([pairs[..., : rotary.coordinates], rows[..., rotary.coordinates :] @ mix], -1)

    inverse = torch.linalg.inv(matrix).mT
    changed = {name: turn(getattr(layer, name), factors, matrix) for name in ("W_Q",)}
    changed["b_Q"] = turn(layer.b_Q[:, None], factors, matrix)[:, 0]
    changed["W_K"] = turn(layer.W_K, 1 / factors.conj(), inverse)
    changed["b_K"] = turn(layer.b_K[:, None], 1 / factors.conj(), inverse)[:, 0]
    return replace(layer, **changed)
