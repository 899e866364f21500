"""Rank collapse: how far rows are from being all alike, layer by layer, and how fast that distance shrinks."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.axes import Residual
from analysis.core.precision import without_autocast
from analysis.core.scaling import scale_to_one
from analysis.core.signatures import checked
from analysis.core.weights import EncoderLayer
from analysis.transformer.encoder import Switches, encode, random_layers
from analysis.transformer.layernorm import centre, sigma


@checked(finite=True)
def residual(x: Float[Tensor, "*any row column"]) -> Float[Tensor, "*any"]:
    r"""Return how far rows are from being all the same: :math:`\|X - \mathbf 1 \bar x^T\|_F / \|X\|_F`, 0 to 1.

    0 means that every row is the mean row, so rank 1 (or 0, where all are zero); rows of mean zero give 1.

    Notes
    -----
    The residual of Dong et al. 2021, in the Frobenius norm and relative to X, for section 3.2 of
    "The geometry of BERT".

    Examples
    --------
    >>> residual(torch.full((2, 2), 2.0)), residual(torch.tensor([[1.0], [-1.0]]))
    (tensor(0.), tensor(1.))
    """
    x, _ = scale_to_one(x, (-2, -1))
    size = x.flatten(-2).norm(dim=-1)
    return (x - x.mean(-2, keepdim=True)).flatten(-2).norm(dim=-1) / torch.where(size > 0, size, 1)


@without_autocast
def trace_residual(
    x: Residual, layers: Sequence[EncoderLayer], switches: Switches, activation: Callable[[Tensor], Tensor] = gelu
) -> Float[Tensor, " state"]:
    """Follow the residual through a stack: what each layer reads and what the last one writes."""
    return torch.stack([residual(state) for state in encode(x, layers, switches, activation)])


def random_collapse(
    width: int,
    gain: float,
    seed: int,
    switches: Sequence[Switches],
    *,
    depth: int = 12,
    heads: int = 4,
    rows: int = 32,
    activation: Callable[[Tensor], Tensor] = gelu,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "switch state"]:
    """Follow the residual through one random stack under several switches, from the same normalised random rows.

    Layers and rows are drawn on the CPU, the same for every ``device``, and computed with there.

    Notes
    -----
    "The geometry of BERT", section 3.2. The same weights serve every switch, so differences between
    switches are paired.
    """
    g = torch.Generator().manual_seed(seed)
    layers = [layer.to(device) for layer in random_layers(depth, heads, width, gain=gain, generator=g)]
    x = centre(torch.randn(rows, width, generator=g, dtype=torch.float64).to(device))
    x = x / sigma(x)[:, None]
    return torch.stack([trace_residual(x, layers, switch, activation) for switch in switches])


@checked(finite=True, gradient=False)
def cubic_rate(sizes: Float[Tensor, " size"], residuals: Float[Tensor, " size"]) -> float:
    """Return the slope of log residual after a layer against log residual before it; 3 is Dong et al.'s rate.

    Raises
    ------
    ValueError
        If there are not at least two different sizes and as many residuals, all positive and finite.

    Examples
    --------
    >>> x = torch.tensor([0.1, 0.01, 0.001])
    >>> round(cubic_rate(x, 5 * x**3), 3)
    3.0
    """
    for name, values in (("sizes", sizes), ("residuals", residuals)):
        if not (values > 0).all():
            raise ValueError(f"{name} must be positive, got {values.tolist()}")
    if len(sizes.unique()) < 2:
        raise ValueError(f"sizes must hold two different numbers to fit a slope, got {sizes.tolist()}")
    before, after = (values.double().log().cpu().numpy() for values in (sizes, residuals))
    slope, _ = np.polyfit(before, after, 1)
    return float(slope)


@checked(finite=True)
def scatter_around_mean(
    mean: Float[Tensor, " model"], noise: Float[Tensor, "position model"], size: float
) -> Float[Tensor, "position model"]:
    """Place rows around a common row so that their ``residual`` has the given size (``0 < size < 1``).

    Raises
    ------
    TypeError, ValueError
        If ``size`` is outside the open interval from 0 to 1, ``mean`` is zero, the rows of ``noise`` are all the same,
        or the two do not fit each other.
    """
    if not 0 < size < 1:
        raise ValueError(f"size must lie strictly between 0 and 1, got {size}")
    noise = noise - noise.mean(0)
    common = torch.ones_like(noise[:, :1]) * mean
    lengths = common.norm(dtype=torch.float64), noise.norm(dtype=torch.float64)
    if not all(0 < length < math.inf for length in lengths):
        raise ValueError(
            "mean must not be zero, and noise must have rows that differ: else no other residual than 1 "
            "or 0 can be had; and neither may be too large for its dtype"
        )
    return common + noise * (lengths[0] / lengths[1] * size / (1 - size**2) ** 0.5)
