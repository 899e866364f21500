"""The weights of one layer as plain tensors: attention, LayerNorm, MLP, and an encoder layer of these.

What belongs here: frozen dataclasses whose fields carry their shapes. What does not: reading them from a checkpoint
(:mod:`analysis.models.reading`) or computing with them (:mod:`analysis.transformer`).
"""

from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.checks import all_finite


class _Frozen:
    """What the weight classes share: conversion, and refusal of non-finite entries."""

    def __post_init__(self):
        for field in fields(self):
            tensor = getattr(self, field.name)
            if not isinstance(tensor, Tensor):
                continue
            first = getattr(self, fields(self)[0].name)
            if not tensor.is_floating_point() or tensor.dtype != first.dtype:
                raise ValueError(
                    f"{field.name} must be of a floating dtype, the same for all fields, got "
                    f"{tensor.dtype} beside {fields(self)[0].name} in {first.dtype}"
                )
            if not all_finite(tensor):
                raise ValueError(f"{field.name} holds entries that are not finite (nan or inf)")

    def _fit(self, like: str, shapes: dict[str, tuple[int, ...]]) -> None:
        """Refuse the first field whose shape is not the one that fits ``like``."""
        for name, shape in shapes.items():
            if (own := tuple(getattr(self, name).shape)) != shape:
                raise ValueError(f"{name} must have shape {shape} to fit {like}, got {own}")

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

    noun = "the weights"  # in messages

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
        self._fit(
            "W_Q",
            {
                "W_K": (head, model, channel),
                "W_V": (head, model, channel),
                "W_O": (head, channel, model),
                "b_Q": (head, channel),
                "b_K": (head, channel),
                "b_V": (head, channel),
                "b_O": (model,),
            },
        )
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

    noun = "the LayerNorm"

    gain: Float[Tensor, " model"]
    bias: Float[Tensor, " model"]
    eps: float = 1e-5

    def __post_init__(self):
        if self.gain.ndim != 1 or self.gain.shape != self.bias.shape:
            raise ValueError(
                f"gain and bias must be (model,), got {tuple(self.gain.shape)} and {tuple(self.bias.shape)}"
            )
        if not 0 <= self.eps < float("inf"):
            raise ValueError(f"eps must be finite and not negative, got {self.eps}")
        super().__post_init__()


@dataclass(frozen=True)
class MlpWeights(_Frozen):
    """One MLP: ``act(x W_in + b_in) W_out + b_out`` with ``W_in (model hidden)``, ``W_out (hidden model)``.

    Raises
    ------
    ValueError
        If shapes disagree or an entry is not finite; the message names the field.
    """

    noun = "the MLP"

    W_in: Float[Tensor, "model hidden"]
    b_in: Float[Tensor, " hidden"]
    W_out: Float[Tensor, "hidden model"]
    b_out: Float[Tensor, " model"]

    def __post_init__(self):
        if self.W_in.ndim != 2:
            raise ValueError(f"W_in must be (model, hidden), got shape {tuple(self.W_in.shape)}")
        model, hidden = self.W_in.shape
        self._fit("W_in", {"b_in": (hidden,), "W_out": (hidden, model), "b_out": (model,)})
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
