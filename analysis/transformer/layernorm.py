"""LayerNorm and its kin: the centring, the divisor sigma, the whole, and rows that are scaled without gain and bias."""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import Norm
from analysis.core.checks import has_numbers
from analysis.core.signatures import checked


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

    Raises for rows so large that their squares are not finite in their dtype.

    >>> import torch
    >>> sigma(torch.tensor([1.0, -1.0]), eps=0.0)
    tensor(1.)
    """
    return divisor(y, eps)[..., 0]


@checked
def divisor(y: Float[Tensor, "*any model"], eps: float = 1e-5, name: str = "y") -> Float[Tensor, "*any 1"]:
    """Return :func:`sigma` as a column to divide by."""
    width = (centre(y).square().mean(-1, keepdim=True) + eps).sqrt()
    if has_numbers(width) and width.isinf().any():
        raise ValueError(f"{name}: too large, the squares are not finite in {y.dtype}")
    return width


@checked
def apply_norm(rows: Float[Tensor, "*any model"], norm: Norm) -> Float[Tensor, "*any model"]:
    r"""Scale rows as a norm has it, then multiply by its gain and add its bias (not fused: made to be read).

    .. math::

        \mathrm{LN}(y) = \frac{y - \bar y}{\sqrt{\mathrm{var}(y) + \epsilon}}\, \gamma + \beta, \qquad
        \mathrm{RMS}(y) = \frac{y}{\sqrt{\overline{y^2} + \epsilon}}\, \gamma

    Raises
    ------
    TypeError, ValueError
        If the rows are not numbers as wide as the norm, or so large that their squares are not finite, or one has size
        0 and the norm no epsilon.

    References
    ----------
    Ba, Kiros, Hinton, *Layer Normalization* (2016); Zhang, Sennrich, *Root Mean Square Layer Normalization* (2019).

    Examples
    --------
    >>> rows, one, zero = torch.tensor([[3.0, 1.0]]), torch.ones(2), torch.zeros(2)
    >>> [apply_norm(rows, Norm(one, zero, 0.0, kind=kind)) for kind in ("layer", "rms")]
    [tensor([[ 1., -1.]]), tensor([[1.3416, 0.4472]])]
    """
    return divide_by_size(rows, norm) * norm.gain + norm.bias


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(-1, keepdim=True)


def divide_by_size(rows: Tensor, norm: Norm, by: Tensor | None = None) -> Tensor:
    """Centre rows where the norm does, and divide them by their size, or by that of the rows ``by``."""
    if norm.kind == "affine":
        return rows
    if norm.kind == "layer":
        rows, by = _centred(rows), None if by is None else _centred(by)
    size = ((rows if by is None else by).square().mean(-1, keepdim=True) + norm.eps).sqrt()
    if has_numbers(size) and size.isinf().any():
        raise ValueError(f"rows: too large, the squares are not finite in {rows.dtype}")
    if norm.eps == 0 and has_numbers(size) and not size.all():
        raise ValueError("rows: one has size 0, and the norm has no epsilon to divide it by")
    return rows / size


def check_layer_norm(norm: Norm, name: str = "norm") -> None:
    """Raise for a norm of another kind, where a formula is LayerNorm's own.

    >>> check_layer_norm(Norm(torch.ones(2), torch.zeros(2), kind="rms"))
    Traceback (most recent call last):
    ValueError: norm must be a LayerNorm, kind 'layer', got kind 'rms'
    """
    if norm.kind != "layer":
        raise ValueError(f"{name} must be a LayerNorm, kind 'layer', got kind {norm.kind!r}")


@checked
def jacobian(y: Float[Tensor, " model"], norm: Norm) -> Float[Tensor, "model model"]:
    r"""Return the derivatives of LayerNorm at one row, (to, source): a diagonal matrix minus one of rank at most 2.

    .. math::  \frac{\partial\,\mathrm{LN}(y)}{\partial y} = \frac1\sigma\,\mathrm{diag}(\gamma)
               \left(I - \tfrac1d 11^\top - \tfrac1d zz^\top\right)

    with the row :math:`z` after LayerNorm without gain and bias.

    Raises
    ------
    TypeError, ValueError
        If ``y`` is not one row of the norm's width, in its dtype, or too large; or if the norm is not a LayerNorm.

    Examples
    --------
    >>> jacobian(torch.tensor([3.0, 1.0, -4.0]),
    ...          Norm(torch.ones(3), torch.zeros(3))).sum(1).abs() < 1e-6
    tensor([True, True, True])
    """
    check_layer_norm(norm)
    width = divisor(y, norm.eps)
    z = centre(y) / width
    identity = torch.eye(len(y), dtype=y.dtype, device=y.device)
    return norm.gain[:, None] * (identity - 1 / len(y) - torch.outer(z, z) / len(y)) / width


@checked(finite=True)
def normalise(rows: Float[Tensor, "*any model"], eps: float = 1e-12) -> Float[Tensor, "*any model"]:
    r"""Apply LayerNorm without gain and bias: rows of mean 0 and length :math:`\sqrt d`.

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is not a finite float32 or float64 tensor (in float16 the square of 256 overflows), or its squares
        are too large for its dtype.

    Examples
    --------
    >>> import torch
    >>> normalise(torch.tensor([5.0, 1.0]))
    tensor([ 1., -1.])
    """
    return centre(rows) / divisor(rows, eps, "rows")
