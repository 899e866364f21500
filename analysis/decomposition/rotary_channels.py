r"""Which channels of a head a rotation turns, and which part of the key bias therefore cancels in the softmax."""

from dataclasses import replace

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


@checked(mixed=True)
def drop_cancelling_bias(layer: AttentionLayer) -> AttentionLayer:
    r"""Return the layer without the coordinates of ``b_K`` that its rotation does not turn: its attention is the same.

    They add :math:`(x_i W_{Q\circ} + b_{Q\circ}) b_{K\circ}^\top` to every score of row ``i``, which a softmax over
    nothing but keys does not see. Nothing else of ``b_K`` cancels.

    Raises
    ------
    ValueError
        If the layer has no rotary positions, or something else inside its attention.

    Examples
    --------
    >>> zero, one = torch.zeros(1, 1, 3), torch.ones(1, 3)
    >>> layer = AttentionLayer(zero, zero, zero, zero.mT, one, one, one, torch.zeros(1),
    ...                        positions=Rotary(torch.ones(1), 3))
    >>> drop_cancelling_bias(layer).b_K
    tensor([[1., 1., 0.]])
    """
    return replace(layer, b_K=split_channels(layer.b_K, rotation_of(layer))[0])


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
