r"""How wide the stream is: the ``sigma`` that a first LayerNorm divides by, over a whole vocabulary and every position.

One pass over blocks of positions, exact, in memory that does not grow with vocabulary x positions.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.signatures import checked
from analysis.transformer.layernorm import centre


@dataclass(frozen=True)
class InverseSigma:
    """``1 / sigma(token + position)`` at each position: its mean and quantiles over the vocabulary.

    ``quantiles[k]`` belongs to ``levels[k]``; in inverse stream units.
    """

    mean: Float[Tensor, " position"]
    levels: tuple[float, ...]
    quantiles: Float[Tensor, "level position"]


@checked(gradient=False)
def inverse_sigma(
    tokens: Float[Tensor, "vocab model"],
    positions: Float[Tensor, "position model"],
    eps: float = 1e-5,
    *,
    levels: tuple[float, ...] = (0.05, 0.5, 0.95),
    frequency: Float[Tensor, " vocab"] | None = None,
    block: int = 32,
) -> InverseSigma:
    r"""Average ``1 / sigma(token + position)`` over a whole vocabulary at every position, in one pass.

    .. math::  \sigma(e + p)^2 = \frac{|eC|^2 + |pC|^2 + 2\, e \cdot (pC)}{d} + \epsilon

    so a block of positions costs one matrix product and the sums ``e + p`` are never formed. The positional semi-bias
    is ``T^p_j = c_j / sigma_j`` with ``c_j`` free of the token: one pass serves every head.

    Parameters
    ----------
    tokens, positions
        The two embedding tables, in stream units.
    eps
        LayerNorm's; also the floor of ``sigma^2`` where rounding would take it lower.
    levels
        Quantiles wanted, each in 0..1 (linear interpolation between order statistics, as ``numpy.quantile``).
    frequency
        Weights of the tokens in the mean, not negative, any positive sum; all alike if ``None``. The quantiles
        count each token once either way.
    block
        Positions held at once; memory grows with ``block * vocab``.

    Raises
    ------
    ValueError
        If tables are empty, differ in width or dtype, or hold entries that are not finite; if a level lies outside
        0..1, ``frequency`` does not fit, or ``block`` is not positive.

    References
    ----------
    Kamoda's page "Positional encoding and attention bias" leaves the LayerNorm out: the exact
    positional term needs ``sigma`` of token and position together.

    Examples
    --------
    Tokens ``(1, -1)`` and ``(3, -3)`` at a position that adds nothing: ``sigma`` is 1 and 3.

    >>> table = torch.tensor([[1.0, -1.0], [3.0, -3.0]])
    >>> inverse_sigma(table, torch.zeros(1, 2), eps=0.0, levels=(0.5,)).mean
    tensor([0.6667])
    """
    if any(not 0 <= level <= 1 for level in levels):
        raise ValueError(f"levels must lie in 0..1, got {levels}")
    if frequency is not None and ((frequency < 0).any() or not 0 < frequency.sum() < float("inf")):
        raise ValueError("frequency must be finite weights, none negative, not all zero")
    if block < 1:
        raise ValueError(f"block must be at least 1, got {block}")
    width, (vocab, places) = tokens.shape[1], (len(tokens), len(positions))
    # The squares of tokens and of positions; the product e . pC follows block by block.
    centred = centre(positions)
    own = centred.square().mean(-1) + eps
    of_token = torch.cat([centre(rows).square().mean(-1) for rows in tokens.split(2048)])
    if not torch.isfinite(2 * (own.amax() + of_token.amax())):  # nan and inf spread
        raise ValueError("tokens or positions hold entries that are not finite, or too large for their dtype")
    share = None if frequency is None else frequency / frequency.sum()
    # Between which two order statistics each quantile lies.
    rank = torch.tensor(levels, dtype=torch.float64, device=tokens.device) * (vocab - 1)
    below = rank.floor().long()
    above, part = (below + 1).clamp(max=vocab - 1), (rank - below).to(tokens.dtype)
    mean, quantiles = tokens.new_empty(places), tokens.new_empty(len(levels), places)
    # sigma^2 of all tokens at a block of positions, and its inverse root, in place.
    for start in range(0, places, block):
        here = slice(start, start + block)
        values = torch.addmm(of_token, centred[here], tokens.T, alpha=2 / width)
        values = values.add_(own[here, None]).clamp_(min=eps).rsqrt_()
        mean[here] = values.mean(-1) if share is None else values @ share
        if levels:
            values = _sort_rows(values)
            quantiles[:, here] = torch.lerp(values[:, below], values[:, above], part).T
    if not torch.isfinite(mean).all():
        raise ValueError("tokens and positions give a sigma of 0 with eps = 0, which has no inverse")
    return InverseSigma(mean, tuple(levels), quantiles)


def _sort_rows(values: Tensor) -> Tensor:
    """Sort each row in place; numpy's vectorised sort is many times faster than torch's on the CPU."""
    if values.device.type != "cpu":
        return values.sort(-1).values
    np.ndarray.sort(values.numpy(), axis=-1)
    return values
