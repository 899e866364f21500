r"""A BERT-like encoder on plain tensors, with a switch for each of its parts.

One layer is attention, then a perceptron, each followed by its skip connection and its LayerNorm (post-LN):
``y = LN(x + attend(x))``, ``z = LN(y + act(y W_in + b_in) W_out + b_out)``. What belongs here: the forward pass,
its switches, random layers. What does not: reading a model (:mod:`analysis.models.parameters`), measuring what
the switches do (:mod:`analysis.representations.rank_collapse`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.axes import Residual
from analysis.core.checks import check_real
from analysis.core.weights import AttentionWeights, EncoderLayer, LayerNormWeights, MlpWeights
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import layer_norm as normalise
from analysis.transformer.mlp import apply_mlp


@dataclass(frozen=True)
class Switches:
    """Which parts of a layer are in place. All on is BERT; all off but attention is pure attention."""

    skip: bool = True
    mlp: bool = True
    layer_norm: bool = True
    linear: bool = False
    """The perceptron without its non-linearity (only where ``mlp`` is on)."""

    def describe(self) -> str:
        """Name the parts in words: ``attention + skip + MLP + LayerNorm``."""
        mlp = "linear MLP" if self.linear else "MLP"
        parts = {"skip": self.skip, mlp: self.mlp, "LayerNorm": self.layer_norm}
        return " + ".join(["attention", *(name for name, on in parts.items() if on)])


ALL_ON = Switches()
PURE_ATTENTION = Switches(skip=False, mlp=False, layer_norm=False)


def encode_layer(x: Residual, layer: EncoderLayer, switches: Switches = ALL_ON,
                 activation: Callable[[Tensor], Tensor] = gelu) -> Residual:
    r"""Run one post-LN layer, with the parts that ``switches`` leave in place.

    .. math::  y = \mathrm{LN}(x + \mathrm{attend}(x)), \qquad z = \mathrm{LN}(y + \mathrm{perceive}(y))

    Notes
    -----
    Ledger B-04. Dropout is not here: at inference it is the identity.
    """
    out = attend(x, layer.attention).output
    x = x + out if switches.skip else out
    x = normalise(x, layer.norm_attention) if switches.layer_norm else x
    if switches.mlp:
        out = apply_mlp(x, layer.mlp, (lambda y: y) if switches.linear else activation)
        x = x + out if switches.skip else out
        x = normalise(x, layer.norm_mlp) if switches.layer_norm else x
    return x


def encode(x: Residual, layers: Sequence[EncoderLayer], switches: Switches = ALL_ON,
           activation: Callable[[Tensor], Tensor] = gelu) -> list[Residual]:
    """Run all layers and return what each of them read and what the last one wrote: ``len(layers) + 1`` tensors.

    Parameters
    ----------
    x
        What the first layer reads; for BERT, the embeddings after their LayerNorm.
    layers
        The stack, first layer first.
    switches
        The parts in place.
    activation
        The perceptron's non-linearity; BERT's is the exact GELU.

    Raises
    ------
    TypeError, ValueError
        If there is no layer, or ``x`` does not fit the first or is not of finite floating numbers.

    Notes
    -----
    Ledger B-04, B-25, B-26.
    """
    if not layers:
        raise ValueError("layers is empty: an encoder needs at least one")
    check_real("x", x, "position", "model")
    states = [x]
    for layer in layers:
        states.append(encode_layer(states[-1], layer, switches, activation))
    return states


def random_layers(depth: int, heads: int, model: int, *, gain: float = 1.0, std: float | None = None,
                  hidden: int | None = None, generator: torch.Generator,
                  dtype: torch.dtype = torch.float64) -> list[EncoderLayer]:
    r"""Draw layers with independent normal weights of standard deviation ``gain / sqrt(fan in)`` and zero biases.

    Parameters
    ----------
    depth, heads, model, hidden
        The stack's shape; ``hidden`` is ``4 * model`` unless given.
    gain
        1 keeps a row's size.
    std
        One standard deviation for all matrices instead, as BERT initialises (0.02; a gain of 0.55 at width 768).
    generator
        Where the randomness comes from.

    Raises
    ------
    ValueError
        If a size is below 1, ``heads`` does not divide ``model``, or ``gain`` or ``std`` is negative or not finite.
    """
    hidden = 4 * model if hidden is None else hidden
    for name, size in {"depth": depth, "heads": heads, "model": model, "hidden": hidden}.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if model % heads:
        raise ValueError(f"heads must divide model = {model}, got {heads}")
    for name, size in {"gain": gain, "std": 0 if std is None else std}.items():
        if not 0 <= size < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {size}")
    channel = model // heads

    def draw(*shape: int, fan_in: int) -> Tensor:
        size = gain / math.sqrt(fan_in) if std is None else std
        return torch.randn(*shape, generator=generator, dtype=dtype) * size

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=dtype)

    def layer() -> EncoderLayer:
        W_Q, W_K, W_V = (draw(heads, model, channel, fan_in=model) for _ in range(3))
        attention = AttentionWeights(W_Q, W_K, W_V, draw(heads, channel, model, fan_in=model),
                                     zeros(heads, channel), zeros(heads, channel), zeros(heads, channel),
                                     zeros(model))
        mlp = MlpWeights(draw(model, hidden, fan_in=model), zeros(hidden),
                         draw(hidden, model, fan_in=hidden), zeros(model))
        plain = LayerNormWeights(torch.ones(model, dtype=dtype), zeros(model), eps=1e-12)
        return EncoderLayer(attention, plain, mlp, plain)

    return [layer() for _ in range(depth)]
