r"""The circuits of a layer's heads: what meets what (``QK``), and what is written for what is read (``OV``).

What belongs here: the two products of each head as factors, with their spectra. What does not: the products as matrices
for one use (:mod:`analysis.decomposition.qk_ov`), singular values as such (:mod:`analysis.matrices.spectra`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary
from analysis.core.shapes import say_shapes
from analysis.decomposition.rotary_channels import rotation_of, split_channels
from analysis.decomposition.rotary_kernel import pair_channels, unpair_channels
from analysis.matrices.spectra import product_singular_values


@dataclass(frozen=True)
class Circuit:
    """One product of each head, ``A B^T``: kept as its tall factors, since as a matrix it is large and of low rank.

    Attributes
    ----------
    A
        What the stream is multiplied with: ``(head, model, channel)``.
    B
        The other factor, ``(head, model, channel)``.
    """

    A: Float[Tensor, "head model channel"]
    B: Float[Tensor, "head other channel"]

    __repr__ = say_shapes

    @property
    def matrix(self) -> Float[Tensor, "head model other"]:
        """The products themselves."""
        return self.A @ self.B.mT

    @cached_property
    def S(self) -> Float[Tensor, "head channel"]:
        """The singular values, largest first, in float64; all others are 0."""
        return product_singular_values(self.A, self.B)

    @cached_property
    def eigenvalues(self) -> Complex[Tensor, "head channel"]:
        """The eigenvalues, largest first by size, those of ``B^T A``; all others are 0. As many as there are channels.

        Raises
        ------
        ValueError
            If the circuit writes rows of another width than it reads: it then has none.
        """
        if self.A.shape[-2] != self.B.shape[-2]:
            raise ValueError(f"a circuit from width {self.A.shape[-2]} to {self.B.shape[-2]} has no eigenvalues")
        found = torch.linalg.eigvals(self.B.double().mT @ self.A.double())
        return found.gather(-1, found.abs().argsort(-1, descending=True))

    def svd(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return directions read ``(head, model, channel)``, singular values, directions written, as columns.

        The signs of a pair of directions are arbitrary, and where two singular values are equal their directions too.
        """
        left, right = (torch.linalg.qr(factor.double()) for factor in (self.A, self.B))
        U, S, Vh = torch.linalg.svd(left.R @ right.R.mT)
        return left.Q @ U, S, right.Q @ Vh.mT


@dataclass(frozen=True)
class Circuits:
    """The two circuits of each head of a layer."""

    QK: Circuit
    OV: Circuit


def circuits(layer: AttentionLayer, *, distance: float | int | None = None) -> Circuits:
    r"""Return the circuits of a layer, in the row convention: ``x_i QK x_j^T`` and ``x_j OV``.

    .. math::  QK = W_Q R(\Delta) W_K^\top, \qquad OV = W_V W_O

    The scores' content is ``QK / sqrt(channel)``; where the layer's scale is another, ``W_Q`` carries the difference.

    Parameters
    ----------
    distance
        :math:`\Delta`, query less key: needed with rotary positions, where there is one ``QK`` for each distance.

    Raises
    ------
    ValueError
        If the layer has rotary positions and no distance is given, or none and one is; or if something inside the
        attention leaves no fixed matrix between queries and keys, such as a norm (`AttentionLayer.plain`).

    References
    ----------
    Elhage et al., *A Mathematical Framework for Transformer Circuits* (2021).

    Examples
    --------
    >>> up, right = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[3.0], [0.0]]])
    >>> nil = torch.zeros(1, 1)
    >>> layer = AttentionLayer(up, right, up, up.mT, nil, nil, nil, torch.zeros(2))
    >>> circuits(layer).QK.S, circuits(layer).OV.eigenvalues.real
    (tensor([[3.]], dtype=torch.float64), tensor([[1.]], dtype=torch.float64))
    """
    OV = Circuit(layer.per_head(layer.W_V), layer.W_O.mT)
    if isinstance(layer.positions, Rotary):
        if distance is None:
            raise ValueError("layer has rotary positions: say at which distance, query less key")
        rotary, W_Q = rotation_of(layer), layer.W_Q.double()  # angles need the digits, whatever the weights are in
        rotary = replace(rotary, frequencies=rotary.frequencies.double())
        turn = torch.polar(torch.ones_like(rotary.frequencies), rotary.frequencies * distance)
        turned = unpair_channels(pair_channels(W_Q, rotary) * turn.to(W_Q.device), rotary)
        A = turned * rotary.attention_factor**2 + split_channels(W_Q, rotary)[1]
        return Circuits(Circuit(A * (layer.scale * layer.channel**0.5), layer.per_head(layer.W_K).double()), OV)
    if distance is not None:
        raise ValueError(f"layer has no rotary positions ({layer.positions.kind}): its QK is the same at any distance")
    plain = layer.plain()
    return Circuits(Circuit(plain.W_Q, plain.W_K), OV)
