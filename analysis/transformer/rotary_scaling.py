r"""Other frequencies for longer texts: a larger base, interpolation, and YaRN's mixture of both."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.positions import Rotary


def rotary_frequencies(coordinates: int, base: float | int = 10000.0) -> Float[Tensor, " frequency"]:
    r"""Return :math:`\theta_f = b^{-2f/r}` for ``f = 0, 1, ...``, in radians per position, float64.

    Raises
    ------
    ValueError
        If ``coordinates`` is not even and positive, or the base is not positive and finite.

    References
    ----------
    Su et al. 2024, RoFormer, equation 15.

    Examples
    --------
    >>> rotary_frequencies(4, base=100.0)
    tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    if coordinates < 2 or coordinates % 2:
        raise ValueError(f"coordinates must be even and at least 2, got {coordinates}")
    if not 0 < base < math.inf:
        raise ValueError(f"base must be positive and finite, got {base}")
    return base ** (-torch.arange(0, coordinates, 2, dtype=torch.float64) / coordinates)


def interpolate_positions(rotary: Rotary, factor: float | int) -> Rotary:
    """Divide every frequency by ``factor``, so that a text so many times as long turns no further.

    >>> interpolate_positions(Rotary(torch.tensor([1.0, 0.5]), 4), 2.0).frequencies
    tensor([0.5000, 0.2500])
    """
    _check_factor(factor)
    return replace(rotary, frequencies=rotary.frequencies / factor, scaling="linear")


def change_base(rotary: Rotary, base: float | int) -> Rotary:
    """Give a rotation the frequencies of another base.

    >>> change_base(Rotary(torch.tensor([1.0, 0.01]), 4), 100.0).frequencies
    tensor([1.0000, 0.1000])
    """
    frequencies = rotary_frequencies(rotary.coordinates, base)
    return replace(rotary, frequencies=frequencies.to(rotary.frequencies), base=base, scaling="default")


def ntk_aware(rotary: Rotary, factor: float | int) -> Rotary:
    r"""Raise the base so that the slowest frequency is divided by ``factor`` and the fastest is not changed.

    The base becomes :math:`b\,s^{r/(r-2)}`.

    Raises
    ------
    ValueError
        If there is only one frequency, which cannot be slowest and fastest at once.

    References
    ----------
    bloc97 2023 ("NTK-aware scaled RoPE"); Peng et al. 2024 (YaRN), section 3.1.

    Examples
    --------
    >>> ntk_aware(Rotary(torch.tensor([1.0, 0.01]), 4), 2.0).frequencies
    tensor([1.0000, 0.0050])
    """
    _check_factor(factor)
    r = rotary.coordinates
    if r < 4:
        raise ValueError(f"rotary must have two frequencies or more, got {r // 2}")
    return replace(change_base(rotary, rotary.base * factor ** (r / (r - 2))), scaling="ntk")


def yarn(rotary: Rotary, factor: float | int, length: int, *, fast: float | int = 32, slow: float | int = 1) -> Rotary:
    r"""Interpolate slow frequencies, keep fast ones, mix in between; multiply cosine and sine by a factor.

    A frequency that turns more than ``fast`` times within the trained ``length`` is kept, one that turns less than
    ``slow`` times is divided by ``factor``, with a ramp over the frequencies' indices in between. The attention factor
    is :math:`0.1 \ln s + 1`, and rotated terms of a score carry its square.

    Parameters
    ----------
    length
        The longest text of the training, in positions.

    References
    ----------
    Peng, Quesnelle, Fan and Shippole 2024 (YaRN), sections 3.2 to 3.4.

    Examples
    --------
    >>> turned = yarn(Rotary(rotary_frequencies(16), 16), 4.0, 128)
    >>> (turned.frequencies * 4 / rotary_frequencies(16)).round(decimals=2)
    tensor([4., 3., 2., 1., 1., 1., 1., 1.], dtype=torch.float64)
    """
    _check_factor(factor)
    r = rotary.coordinates

    def index(turns: float | int) -> float:  # of the frequency that turns so often within the length
        return r * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(rotary.base))

    low, high = max(math.floor(index(fast)), 0), min(math.ceil(index(slow)), r - 1)
    ramp = ((torch.arange(r // 2) - low) / (high - low or 1e-3)).clamp(0, 1).to(rotary.frequencies)
    mixed = rotary.frequencies * (1 - ramp) + rotary.frequencies / factor * ramp
    stretch = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return replace(rotary, frequencies=mixed, scaling="yarn", attention_factor=stretch)


def _check_factor(factor: float | int) -> None:
    if not 0 < factor < math.inf:
        raise ValueError(f"factor must be positive and finite, got {factor}")
