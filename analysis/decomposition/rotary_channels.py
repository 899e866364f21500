r"""Which channels of a head a rotation turns, and which part of the key bias therefore cancels in the softmax.

What belongs here: cutting vectors in two. What does not: the parts of a score (:mod:`analysis.decomposition.terms`),
the part that can be read off the weights (:mod:`analysis.decomposition.rotary_kernel`), the matrices between the
inputs, the rotation itself (:mod:`analysis.transformer.rotary`).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary
from analysis.core.signatures import checked


@checked(mixed=True)
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


def rotation_of(layer: AttentionLayer) -> Rotary:
    """Return the rotation of a layer that turns its queries and keys, and has nothing else inside its attention.

    >>> zero, none = torch.zeros(1, 1, 2), torch.zeros(1, 2)
    >>> rotation_of(AttentionLayer(zero, zero, zero, zero.mT, *[none] * 3, none[0, :1]))
    Traceback (most recent call last):
    ValueError: layer must have rotary positions, got positions of kind 'none'
    """
    if not isinstance(layer.positions, Rotary):
        raise ValueError(f"layer must have rotary positions, got positions of kind {layer.positions.kind!r}")
    if others := [reason for reason in layer.reasons() if "positions act" not in reason]:
        raise ValueError(f"layer must have nothing inside its attention but a rotation: {'; '.join(others)}")
    return layer.positions


def check_rotary(rotary: Rotary, channel: int) -> None:
    """Raise for a rotation of heads of another width."""
    if rotary.channel != channel:
        raise ValueError(
            f"rotary must turn heads of width {channel} to fit the weights, got one for width {rotary.channel}"
        )
