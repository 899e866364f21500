"""LayerNorm: its centring, its divisor sigma, the whole, and rows that are centred and scaled without gain and bias.

What belongs here: the LayerNorm of one row. What does not: its divisor over many tokens
(:mod:`analysis.transformer.layernorm_scale`), or folding its gain and bias into weights
(:mod:`analysis.decomposition.folding`).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.checks import has_numbers
from analysis.core.signatures import checked
from analysis.core.weights import LayerNormWeights


@checked
def centre(y: Float[Tensor, "*any model"]) -> Float[Tensor, "*any model"]:
    """Subtract from each row its mean: ``y C`` with ``C = I - 11^T/d``.

    >>> import torch
    >>> centre(torch.tensor([1.0, 2.0, 6.0]))
    tensor([-2., -1.,  3.])
    """
    return y - y.mean(-1, keepdim=True)


@checked
def sigma(y: Float[Tensor, "*any model"], eps: float = 1e-5) -> Float[Tensor, "*any"]:
    """Return what LayerNorm divides a row by: ``sqrt(mean(centred**2) + eps)``, in the units of ``y``.

    >>> import torch
    >>> sigma(torch.tensor([1.0, -1.0]), eps=0.0)
    tensor(1.)
    """
    return (centre(y).square().mean(-1) + eps).sqrt()


@checked
def divisor(y: Float[Tensor, "*any model"], eps: float = 1e-5, name: str = "y") -> Float[Tensor, "*any 1"]:
    """Return ``sigma`` as a column to divide by; refuse rows so large that all they would be divided to is 0."""
    width = sigma(y, eps)[..., None]
    if has_numbers(width) and width.isinf().any():
        raise ValueError(f"{name}: too large, the squares are not finite in {y.dtype}")
    return width


@checked
def layer_norm(y: Float[Tensor, "*any model"], weights: LayerNormWeights) -> Float[Tensor, "*any model"]:
    """Apply LayerNorm with gain and bias, in the steps of the formula above (not fused: made to be read).

    >>> import torch
    >>> layer_norm(torch.tensor([3.0, 1.0]),
    ...            LayerNormWeights(torch.ones(2), torch.zeros(2), eps=0.0))
    tensor([ 1., -1.])
    """
    return centre(y) / divisor(y, weights.eps) * weights.gain + weights.bias


@checked
def jacobian(y: Float[Tensor, " model"], weights: LayerNormWeights) -> Float[Tensor, "model model"]:
    r"""Return the derivatives of LayerNorm at one row, (to, source): a diagonal matrix minus one of rank at most 2.

    .. math::  \frac{\partial\,\mathrm{LN}(y)}{\partial y} = \frac1\sigma\,\mathrm{diag}(\gamma)
               \left(I - \tfrac1d 11^\top - \tfrac1d zz^\top\right)

    with the row :math:`z` after LayerNorm without gain and bias (ledger B-97).

    Raises
    ------
    TypeError, ValueError
        If ``y`` is not one row of the LayerNorm's width, in its dtype, or too large.

    Examples
    --------
    >>> jacobian(torch.tensor([3.0, 1.0, -4.0]),
    ...          LayerNormWeights(torch.ones(3), torch.zeros(3))).sum(1).abs() < 1e-6
    tensor([True, True, True])
    """
    width = divisor(y, weights.eps)
    z = centre(y) / width
    identity = torch.eye(len(y), dtype=y.dtype, device=y.device)
    return weights.gain[:, None] * (identity - 1 / len(y) - torch.outer(z, z) / len(y)) / width


@checked(finite=True)
def normalise(rows: Float[Tensor, "*any model"], eps: float = 1e-12) -> Float[Tensor, "*any model"]:
    r"""Apply LayerNorm without gain and bias: rows of mean 0 and length :math:`\sqrt d`.

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is no finite float32 or float64 tensor (in float16 the square of 256 overflows), or its squares are
        too large for its dtype.

    Examples
    --------
    >>> import torch
    >>> normalise(torch.tensor([5.0, 1.0]))
    tensor([ 1., -1.])
    """
    return centre(rows) / divisor(rows, eps, "rows")
