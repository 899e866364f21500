"""Refusals at the door of a function: what is no tensor, has another shape or dtype, is empty or not finite.

What belongs here: checks of one argument, each with a message that names the argument, what it was and what is allowed.
What does not: what an argument means to a formula, which the formula's own function checks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def all_finite(tensor: Tensor) -> bool:
    """Say whether no entry is nan or infinite: by the sum, which needs no memory, and entry by entry only in doubt.

    >>> all_finite(torch.tensor([1.0, 2.0])), all_finite(torch.tensor([1.0, float("nan")]))
    (True, False)
    """
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def check_tensor(name: str, tensor: object) -> None:
    """Refuse what is no tensor of real numbers: a list, an array, complex numbers.

    >>> check_tensor("rows", [1.0, 2.0])
    Traceback (most recent call last):
    TypeError: rows must be a tensor, got list
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if tensor.is_complex():
        raise ValueError(f"{name} must hold real numbers, got {tensor.dtype}")


def check_fit(name: str, tensor: object, shape: Sequence[int], what: str, like: Tensor) -> None:
    """Refuse what has not this shape, or not the dtype or the device of ``like``, which is called ``what``.

    Raises
    ------
    TypeError
        If it is no tensor.
    ValueError
        If it does not fit.

    Examples
    --------
    >>> check_fit("bias", torch.zeros(2), (3,), "the layer", torch.zeros(1))
    Traceback (most recent call last):
    ValueError: bias must be (3,) in torch.float32 on cpu to fit the layer, got (2,) in torch.float32 on cpu
    """
    check_tensor(name, tensor)
    if tuple(tensor.shape) != tuple(shape) or (tensor.dtype, tensor.device) != (like.dtype, like.device):
        raise ValueError(f"{name} must be {tuple(shape)} in {like.dtype} on {like.device} to fit {what}, got "
                         f"{tuple(tensor.shape)} in {tensor.dtype} on {tensor.device}")


def check_rows(name: str, rows: object, width: int, what: str, like: Tensor) -> None:
    """Refuse what is not ``(..., width)``, in the dtype and on the device of ``like``, which is called ``what``."""
    check_tensor(name, rows)
    check_fit(name, rows, (*rows.shape[:-1], width), what, like)


def check_floating(name: str, tensor: object, *axes: str) -> None:
    """Refuse what is no float32 or float64 tensor with (at least) the given last axes, none of them empty.

    For formulas, which pass nan on; what would hide it asks `check_real`.

    Raises
    ------
    TypeError
        If it is no tensor.
    ValueError
        If the dtype is another one, or an axis is missing or empty.

    Examples
    --------
    >>> check_floating("rows", torch.tensor(1.0), "coordinate")
    Traceback (most recent call last):
    ValueError: rows must be (..., coordinate), none of them empty, got shape ()
    """
    check_tensor(name, tensor)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} must be in float32 or float64, got {tensor.dtype}: convert it")
    if tensor.ndim < len(axes) or 0 in tensor.shape[tensor.ndim - len(axes):]:
        raise ValueError(f"{name} must be (..., {', '.join(axes)}), none of them empty, got "
                         f"shape {tuple(tensor.shape)}")


def check_tokens(name: str, tokens: object) -> None:
    """Refuse what is no tensor of whole numbers with at least one axis, the last of them not empty.

    Raises
    ------
    TypeError
        If it is no tensor.
    ValueError
        If its numbers are not whole, or there is none.

    Examples
    --------
    >>> check_tokens("tokens", torch.zeros(3))
    Traceback (most recent call last):
    ValueError: tokens must be (..., position), whole numbers and at least one, got (3,) of torch.float32
    """
    check_tensor(name, tokens)
    if tokens.ndim < 1 or 0 in tokens.shape or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(f"{name} must be (..., position), whole numbers and at least one, got {tuple(tokens.shape)} "
                         f"of {tokens.dtype}")


def check_real(name: str, tensor: object, *axes: str) -> None:
    """Refuse what is not a finite float32 or float64 tensor with (at least) the given last axes, none of them empty.

    Raises
    ------
    TypeError
        If it is no tensor.
    ValueError
        If the dtype is another one, an axis is missing or empty, or an entry is nan or infinite.

    Examples
    --------
    >>> check_real("rows", torch.zeros(2, dtype=torch.float16), "coordinate")
    Traceback (most recent call last):
    ValueError: rows must be in float32 or float64, got torch.float16: convert it
    """
    check_floating(name, tensor, *axes)
    if not all_finite(tensor):
        raise ValueError(f"{name} holds entries that are not finite (nan or inf)")
