"""Argument validation: not a tensor, another shape or dtype, empty, or not finite."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import torch
import torch._C._functorch
from torch import Tensor

FLOATING = (torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def has_numbers(tensor: Tensor) -> bool:
    """Return whether the entries of a tensor can be looked at: not on ``meta``, in ``torch.vmap`` or while compiling.

    >>> has_numbers(torch.zeros(2)), has_numbers(torch.zeros(2, device="meta"))
    (True, False)
    """
    if torch.compiler.is_compiling() or tensor.is_meta:
        return False
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return False
        tensor = functorch.get_unwrapped(tensor)
    return True


def all_finite(tensor: Tensor) -> bool:
    """Return whether no entry is nan or infinite: by the sum, which needs no memory, and entry by entry only in doubt.

    Where there are no numbers to look at (`has_numbers`) it says yes: a formula passes nan on.

    >>> all_finite(torch.ones(2)), all_finite(torch.tensor([1.0, float("nan")]))
    (True, False)
    """
    return not has_numbers(tensor) or bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def check_products(left: Tensor, right: Tensor, what: str) -> None:
    """Raise for rows ``x`` of which something is so large that products leave the range of the dtype, and become nan.

    A nan that is there already is passed on.

    >>> check_products(torch.full((1, 2), 1e19), torch.full((1, 2), 1e20), "q and k")
    Traceback (most recent call last):
    ValueError: x is too large for torch.float32: products of q and k may reach 2e+39
    """
    if has_numbers(left) and has_numbers(right) and left.numel() and right.numel():
        reach = float(left.detach().abs().amax()) * float(right.detach().abs().amax()) * left.shape[-1]
        if reach > torch.finfo(left.dtype).max:
            raise ValueError(f"x is too large for {left.dtype}: products of {what} may reach {reach:.0e}")


def check_tensor(name: str, tensor: Any) -> None:
    """Raise for what is not a tensor of real numbers: a list, an array, complex numbers.

    >>> check_tensor("rows", [1.0, 2.0])
    Traceback (most recent call last):
    TypeError: rows must be a tensor, got list
    """
    if not isinstance(tensor, Tensor):
        of_model = "; census measures the heads of a model" if hasattr(tensor, "layers") else ""
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}{of_model}")
    if tensor.is_complex():
        raise ValueError(f"{name} must hold real numbers, got {tensor.dtype}")


def check_detached(name: str, value: object) -> None:
    """Raise for a tensor that requires a gradient, or holds one that does, where the function computes none.

    >>> check_detached("rows", torch.zeros(2, requires_grad=True))
    Traceback (most recent call last):
    ValueError: rows requires a gradient, which is not computed here: give rows.detach(), or use torch.no_grad()
    """
    if is_dataclass(value):
        value = list(vars(value).values())
    if isinstance(value, list | tuple):
        for part in value:
            check_detached(name, part)
    elif isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name} requires a gradient, which is not computed here: give {name}.detach(), or use torch.no_grad()"
        )


def check_fit(name: str, tensor: Any, shape: Sequence[int], what: str, like: Tensor) -> None:
    """Raise for a tensor of another shape, or of another dtype or device than ``like``; the message names it ``what``.

    Examples
    --------
    >>> check_fit("bias", torch.zeros(2), (3,), "the layer", torch.zeros(1))
    Traceback (most recent call last):
    ValueError: bias must be (3,) in torch.float32 on cpu to fit the layer, got (2,) in torch.float32 on cpu
    """
    check_tensor(name, tensor)
    if tuple(tensor.shape) != tuple(shape) or (tensor.dtype, tensor.device) != (like.dtype, like.device):
        raise ValueError(
            f"{name} must be {tuple(shape)} in {like.dtype} on {like.device} to fit {what}, got "
            f"{tuple(tensor.shape)} in {tensor.dtype} on {tensor.device}"
        )


def check_floating(name: str, tensor: Any, *axes: str, exact: bool = False) -> None:
    """Raise for what is not a float32 or float64 tensor with (at least) the given last axes, none of them empty.

    For formulas, which pass nan on; what would hide it calls `check_real`. ``exact``: these axes and no others.

    Examples
    --------
    >>> check_floating("rows", torch.tensor(1.0), "coordinate")
    Traceback (most recent call last):
    ValueError: rows must be (..., coordinate), none of them empty, got shape ()
    """
    check_tensor(name, tensor)
    if tensor.dtype not in FLOATING:
        whole = name.partition(".")[0]  # of a layer all tensors, which must be in one dtype
        raise ValueError(
            f"{name} must be in float32 or float64, got {tensor.dtype}: convert it, {whole}.to(torch.float32)"
        )
    if _lacks(tensor, axes, exact) or 0 in tensor.shape[tensor.ndim - len(axes) :]:
        raise ValueError(f"{name} must be {_written(axes, exact)}, none of them empty, got shape {tuple(tensor.shape)}")


def _lacks(tensor: Tensor, axes: Sequence[str], exact: bool) -> bool:
    return tensor.ndim != len(axes) if exact else tensor.ndim < len(axes)


def _written(axes: Sequence[str], exact: bool) -> str:
    """Write axes as a shape.

    >>> _written(["position", "model"], exact=False), _written(["model"], exact=True)
    ('(..., position, model)', '(model,)')
    """
    names = [*axes] if exact else ["...", *axes]
    return f"({', '.join(names)}{',' * (len(names) == 1)})"


def check_tokens(name: str, tokens: Any, *axes: str, exact: bool = False) -> None:
    """Raise for what is not a tensor of whole numbers with (at least) the given axes (``position``), no axis empty.

    Examples
    --------
    >>> check_tokens("tokens", torch.zeros(3))
    Traceback (most recent call last):
    ValueError: tokens must be (..., position), whole numbers and at least one, got (3,) of torch.float32
    """
    axes = axes or ("position",)
    check_tensor(name, tokens)
    if _lacks(tokens, axes, exact) or 0 in tokens.shape or tokens.dtype not in WHOLE:
        raise ValueError(
            f"{name} must be {_written(axes, exact)}, whole numbers and at least one, got "
            f"{tuple(tokens.shape)} of {tokens.dtype}"
        )


def check_vocabulary(name: str, tokens: Tensor, vocab: int) -> None:
    """Raise for whole numbers that are not in ``0..vocab-1``.

    >>> check_vocabulary("tokens", torch.tensor([0, 3]), 3)
    Traceback (most recent call last):
    ValueError: tokens must lie in 0..2, got 0..3
    """
    if tokens.min() < 0 or tokens.max() >= vocab:
        raise ValueError(f"{name} must lie in 0..{vocab - 1}, got {tokens.min():d}..{tokens.max():d}")


def check_mask(name: str, mask: object, *axes: str, exact: bool = False) -> None:
    """Raise for what is not a bool tensor with (at least) the given axes, none of them empty.

    >>> check_mask("keep", torch.tensor([1.0, 0.0]), "position")
    Traceback (most recent call last):
    ValueError: keep must be a bool tensor, (..., position), none of them empty, got (2,) in torch.float32
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or _lacks(mask, axes, exact) or 0 in mask.shape:
        form = f"{tuple(mask.shape)} in {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name} must be a bool tensor, {_written(axes, exact)}, none of them empty, got {form}")


def check_real(name: str, tensor: Any, *axes: str) -> None:
    """Raise for what is not a finite float32 or float64 tensor with (at least) the given last axes, none of them empty.

    Examples
    --------
    >>> check_real("rows", torch.zeros(2, dtype=torch.float16), "coordinate")
    Traceback (most recent call last):
    ValueError: rows must be in float32 or float64, got torch.float16: convert it, rows.to(torch.float32)
    """
    check_floating(name, tensor, *axes)
    check_finite(name, tensor)


def check_distributions(name: str, rows: Any, *axes: str) -> None:
    """Raise for what is not a tensor of finite rows, along the last axis, that sum to 1 with no negative entry.

    >>> check_distributions("attention", torch.tensor([[0.5, 0.1]]), "key")
    Traceback (most recent call last):
    ValueError: attention must have rows that sum to 1, none of their entries negative; row sums lie in 0.600..0.600
    """
    check_real(name, rows, *axes)
    sums = rows.sum(-1)
    if has_numbers(rows) and ((rows < 0).any() or ((sums - 1).abs() > 1e-3).any()):
        raise ValueError(
            f"{name} must have rows that sum to 1, none of their entries negative; row sums lie in "
            f"{float(sums.min()):.3f}..{float(sums.max()):.3f}"
        )


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise for a tensor that holds nan or infinity.

    >>> check_finite("rows", torch.tensor([1.0, float("inf")]))
    Traceback (most recent call last):
    ValueError: rows holds entries that are not finite (nan or inf)
    """
    if not all_finite(tensor):
        raise ValueError(f"{name} holds entries that are not finite (nan or inf)")
