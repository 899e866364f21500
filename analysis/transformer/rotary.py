"""Rotary positions on plain tensors: turning queries and keys, whichever coordinates make a pair."""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.positions import Rotary
from analysis.core.signatures import checked


@checked(mixed=True)
def rotate(
    rows: Float[Tensor, "*any position channel"],
    rotary: Rotary,
    positions: Float[Tensor, "*#any position"] | None = None,
) -> Float[Tensor, "*any position channel"]:
    r"""Turn queries or keys as their positions have it: the pair ``a + ib`` is multiplied by :math:`e^{it\theta}`.

    Coordinates that are not rotated stay as they are; rotated ones carry the attention factor.

    Parameters
    ----------
    positions
        One for each row; default ``0, 1, 2, ...``.

    Raises
    ------
    TypeError, ValueError
        If the rows are not ``(..., position, channel)`` of the head's width, the number of positions is another one, or
        they go beyond those of which the rotation holds.

    References
    ----------
    Su et al., RoFormer (2021).

    Examples
    --------
    A quarter turn at position 1, of the first two coordinates of three:

    >>> quarter = Rotary(torch.tensor([torch.pi / 2]), 3)
    >>> rotate(torch.tensor([[1.0, 0.0, 7.0], [1.0, 0.0, 7.0]]), quarter).round().abs()
    tensor([[1., 0., 7.],
            [0., 1., 7.]])
    """
    if rows.shape[-1] != rotary.channel:
        raise ValueError(f"rows must be (..., position, {rotary.channel}) to fit the rotation, got {tuple(rows.shape)}")
    if positions is None:
        positions = torch.arange(rows.shape[-2], device=rows.device)
    if rotary.longest is not None and positions.numel() and int(positions.max()) >= rotary.longest:
        raise ValueError(
            f"positions must be below {rotary.longest}, got {int(positions.max())}: for longer texts rope_type = "
            f"{rotary.scaling!r} has other frequencies, which are not read: give a shorter text"
        )
    # (a + ib) times e^(it theta), pair by pair; what is left of the head isn't turned.
    angle = positions.to(rows)[..., None] * rotary.frequencies.to(rows)
    cos, sin = angle.cos() * rotary.attention_factor, angle.sin() * rotary.attention_factor
    turned, rest = rows[..., : rotary.coordinates], rows[..., rotary.coordinates :]
    if rotary.pairing == "halves":
        a, b = turned.chunk(2, dim=-1)
        pair = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    else:
        a, b = turned[..., ::2], turned[..., 1::2]
        pair = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    return torch.cat([pair, rest.expand(*pair.shape[:-1], -1)], -1)
