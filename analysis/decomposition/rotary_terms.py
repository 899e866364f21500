r"""Scores with rotary positions as sums of four parts, of which no part but the un-rotated key bias is constant.

``s_ij = (x_i W_Q + b_Q) R(i - j) (x_j W_K + b_K)^T / sqrt(channel)``. What belongs here: the four parts, on text. What
does not: the part that can be read off the weights (:mod:`analysis.decomposition.rotary_kernel`), the matrices between
the inputs (:mod:`analysis.decomposition.rotary_border`), the rotation itself (:mod:`analysis.transformer.rotary`).
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.axes import Residual
from analysis.core.positions import Rotary
from analysis.core.signatures import checked
from analysis.core.weights import AttentionWeights
from analysis.decomposition.general_terms import GeneralTerms, general_terms

PARTS = ("content", "semi_bias", "query_side", "kernel")
"""The order of :func:`stack_parts`."""


@checked(finite=True)
def rotary_terms(x: Residual, weights: AttentionWeights, rotary: Rotary) -> GeneralTerms:
    r"""Split a layer's scores with rotary positions into content, key semi-bias, query side and kernel.

    .. math::

        \sqrt{c}\, s_{ij} = x_i W_Q R_\Delta W_K^\top x_j^\top + b_Q R_\Delta W_K^\top x_j^\top
        + x_i W_Q R_\Delta b_K^\top + b_Q R_\Delta b_K^\top, \qquad \Delta = i - j

    Parameters
    ----------
    x
        What the layer reads (for a pre-LN model the normalised stream), at positions 0, 1, 2, ...
    weights
        The layer; grouped keys repeated for each head.
    rotary
        How queries and keys are turned.

    Returns
    -------
    GeneralTerms
        Each part of shape ``(..., head, query, key)``; their ``sum()`` is what the softmax reads, before the mask.

    Raises
    ------
    ValueError
        If ``x`` has another width or dtype than the weights, no position, or entries that are not finite; or if the
        rotation is for heads of another width.

    References
    ----------
    Su 2023 (kexue.fm/archives/9577); Dai et al. 2019 (Transformer-XL) as a design with vectors of its own.

    Examples
    --------
    A head that reads nothing and has biases ``(1, 0)`` turned by a quarter each step: the kernel is a cosine.

    >>> none, one = torch.zeros(1, 1, 2), torch.tensor([[1.0, 0.0]])
    >>> layer = AttentionWeights(none, none, none, none.mT, one, one, 0 * one,
    ...                          torch.zeros(1))
    >>> terms = rotary_terms(torch.zeros(3, 1), layer,
    ...                      Rotary(torch.tensor([torch.pi / 2]), 2))
    >>> (terms.sum()[0] * 2**0.5).round().abs()
    tensor([[1., 0., 1.],
            [0., 1., 0.],
            [1., 0., 1.]])
    """
    check_rotary(rotary, weights.channel)
    fields = {name: getattr(weights, name) for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")}
    layer = AttentionLayer(**fields, scale=weights.channel**-0.5, mask=Mask(causal=True), positions=rotary)
    return general_terms(x, layer)


def stack_parts(terms: GeneralTerms) -> Float[Tensor, "part ..."]:
    """Return the parts in the order of :data:`PARTS`, as :mod:`analysis.maps.attribution` takes them."""
    return torch.stack([getattr(terms, part) for part in PARTS])


@checked
def split_channels(
    vectors: Float[Tensor, "*any channel"], rotary: Rotary
) -> tuple[Float[Tensor, "*any channel"], Float[Tensor, "*any channel"]]:
    """Return what a rotation turns of each vector and what it leaves, each with zeros in the place of the other.

    >>> split_channels(torch.tensor([1.0, 2.0, 3.0]), Rotary(torch.ones(1), 3))
    (tensor([1., 2., 0.]), tensor([0., 0., 3.]))
    """
    check_rotary(rotary, vectors.shape[-1])
    turned = (torch.arange(vectors.shape[-1], device=vectors.device) < rotary.coordinates).to(vectors)
    return vectors * turned, vectors * (1 - turned)


def drop_cancelling_bias(weights: AttentionWeights, rotary: Rotary) -> AttentionWeights:
    r"""Return the layer without the coordinates of ``b_K`` that no rotation turns: its attention is the same.

    They add :math:`(x_i W_{Q\circ} + b_{Q\circ}) b_{K\circ}^\top` to every score of row ``i``, which a softmax over
    nothing but keys does not see. Nothing else of ``b_K`` cancels.

    >>> zero, one = torch.zeros(1, 1, 3), torch.ones(1, 3)
    >>> layer = AttentionWeights(zero, zero, zero, zero.mT, one, one, one,
    ...                          torch.zeros(1))
    >>> drop_cancelling_bias(layer, Rotary(torch.ones(1), 3)).b_K
    tensor([[1., 1., 0.]])
    """
    return replace(weights, b_K=split_channels(weights.b_K, rotary)[0])


def check_rotary(rotary: Rotary, channel: int) -> None:
    """Refuse a rotation for heads of another width."""
    if rotary.channel != channel:
        raise ValueError(
            f"rotary must turn heads of width {channel} to fit the weights, got one for width {rotary.channel}"
        )
