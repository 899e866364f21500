"""The vocabulary of axes, and the weights of one layer written in it.

One word an axis, the same in every signature and in every ``einops.einsum``:
``batch layer head query key position vocab model channel hidden``. Nothing is computed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float
from torch import Tensor

Residual = Float[Tensor, "*batch position model"]
"""Rows of the residual stream: what a layer reads, one row a position."""

Projected = Float[Tensor, "*batch head position channel"]
"""Queries, keys or values: one row a position in each head."""

Scores = Float[Tensor, "*batch head query key"]
"""Before the softmax, already divided by ``sqrt(channel)``; in nats. Minus infinity where masked."""

Attention = Float[Tensor, "*batch head query key"]
"""After the softmax: row ``query`` says how much it listens to each ``key``; rows sum to 1."""


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


class _Frozen:
    """What the weight classes share: conversion, and refusal of non-finite entries."""

    def __post_init__(self):
        for field in fields(self):
            tensor = getattr(self, field.name)
            if not isinstance(tensor, Tensor):
                continue
            first = getattr(self, fields(self)[0].name)
            if not tensor.is_floating_point() or tensor.dtype != first.dtype:
                raise ValueError(f"{field.name} must be of a floating dtype, the same for all fields, got "
                                 f"{tensor.dtype} beside {fields(self)[0].name} in {first.dtype}")
            if not all_finite(tensor):
                raise ValueError(f"{field.name} holds entries that are not finite (nan or inf)")

    def to(self, *args, **kwargs):
        """Return a copy with every tensor passed through ``Tensor.to`` (a dtype, a device)."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(*args, **kwargs) for k, v in moved.items() if isinstance(v, Tensor)})

    def double(self):
        """Return a copy in float64, for testing identities."""
        return self.to(torch.float64)


@dataclass(frozen=True)
class AttentionWeights(_Frozen):
    """One attention layer: ``x W_Q + b_Q`` etc. for each head, then ``W_O`` summed over heads, plus ``b_O``.

    Attributes
    ----------
    W_Q, W_K, W_V
        ``(head, model, channel)``: from the residual stream into each head.
    b_Q, b_K, b_V
        ``(head, channel)``.
    W_O
        ``(head, channel, model)``: from each head back into the residual stream.
    b_O
        ``(model,)``.

    Raises
    ------
    ValueError
        If shapes disagree or an entry is not finite; the message names the field.
    """

    W_Q: Float[Tensor, "head model channel"]
    W_K: Float[Tensor, "head model channel"]
    W_V: Float[Tensor, "head model channel"]
    W_O: Float[Tensor, "head channel model"]
    b_Q: Float[Tensor, "head channel"]
    b_K: Float[Tensor, "head channel"]
    b_V: Float[Tensor, "head channel"]
    b_O: Float[Tensor, " model"]

    def __post_init__(self):
        if self.W_Q.ndim != 3:
            raise ValueError(f"W_Q must be (head, model, channel), got shape {tuple(self.W_Q.shape)}")
        head, model, channel = self.W_Q.shape
        if not head * model * channel:
            raise ValueError(f"W_Q must have heads, a width and channels, got shape {tuple(self.W_Q.shape)}")
        due = {"W_K": (head, model, channel), "W_V": (head, model, channel), "W_O": (head, channel, model),
               "b_Q": (head, channel), "b_K": (head, channel), "b_V": (head, channel), "b_O": (model,)}
        for name, shape in due.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"{name} must have shape {shape} to fit W_Q, "
                                 f"got {tuple(getattr(self, name).shape)}")
        super().__post_init__()

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.W_Q.shape[0]

    @property
    def model(self) -> int:
        """Width of the residual stream."""
        return self.W_Q.shape[1]

    @property
    def channel(self) -> int:
        """Width of one head."""
        return self.W_Q.shape[2]


@dataclass(frozen=True)
class LayerNormWeights(_Frozen):
    """One LayerNorm: ``(y - mean) / sqrt(var + eps) * gain + bias``, ``gain`` and ``bias`` of shape ``(model,)``."""

    gain: Float[Tensor, " model"]
    bias: Float[Tensor, " model"]
    eps: float = 1e-5

    def __post_init__(self):
        if self.gain.ndim != 1 or self.gain.shape != self.bias.shape:
            raise ValueError(f"gain and bias must be (model,), got {tuple(self.gain.shape)} and "
                             f"{tuple(self.bias.shape)}")
        if not 0 <= self.eps < float("inf"):
            raise ValueError(f"eps must be finite and not negative, got {self.eps}")
        super().__post_init__()


@dataclass(frozen=True)
class MlpWeights(_Frozen):
    """One perceptron: ``act(x W_in + b_in) W_out + b_out`` with ``W_in (model hidden)``, ``W_out (hidden model)``.

    Raises
    ------
    ValueError
        If shapes disagree or an entry is not finite; the message names the field.
    """

    W_in: Float[Tensor, "model hidden"]
    b_in: Float[Tensor, " hidden"]
    W_out: Float[Tensor, "hidden model"]
    b_out: Float[Tensor, " model"]

    def __post_init__(self):
        if self.W_in.ndim != 2:
            raise ValueError(f"W_in must be (model, hidden), got shape {tuple(self.W_in.shape)}")
        model, hidden = self.W_in.shape
        for name, shape in {"b_in": (hidden,), "W_out": (hidden, model), "b_out": (model,)}.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"{name} must have shape {shape} to fit W_in, "
                                 f"got {tuple(getattr(self, name).shape)}")
        super().__post_init__()


@dataclass(frozen=True)
class EncoderLayer:
    """The four parts of one layer, in the order in which a row meets them."""

    attention: AttentionWeights
    norm_attention: LayerNormWeights
    mlp: MlpWeights
    norm_mlp: LayerNormWeights

    def to(self, *args, **kwargs):
        """Return a copy with every tensor passed through ``Tensor.to`` (a dtype, a device)."""
        parts = (self.attention, self.norm_attention, self.mlp, self.norm_mlp)
        return EncoderLayer(*(part.to(*args, **kwargs) for part in parts))
