"""Uniform attention as a running mean, and the layers whose weights are uniform for all inputs of a set."""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.axes import Residual
from analysis.core.frozen import Frozen
from analysis.core.signatures import checked
from analysis.transformer.layernorm import check_layer_norm


def uniform_causal(n: int, dtype: torch.dtype = torch.float64) -> Float[Tensor, "query key"]:
    """Build the uniform causal weights: ``1 / i`` on the first ``i`` keys of row ``i`` (counted from 1), else 0.

    >>> uniform_causal(3)[1]
    tensor([0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a whole number, at least 1 position, got {n}")
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating type, which can hold 1 / i, got {dtype}")
    return torch.ones(n, n, dtype=dtype).tril() / torch.arange(1, n + 1, dtype=dtype)[:, None]


@checked
def cumulative_means(x: Residual) -> Residual:
    """Return in row ``i`` the mean of the first ``i`` rows: what ``uniform_causal`` times ``x`` is, in one pass.

    >>> cumulative_means(torch.tensor([[0.0, 4.0], [2.0, 0.0]]))
    tensor([[0., 4.],
            [1., 2.]])
    """
    return x.cumsum(-2) / torch.arange(1, x.shape[-2] + 1, dtype=x.dtype, device=x.device)[:, None]


@dataclass(frozen=True)
class Hull(Frozen):
    """The affine hull of a layer's possible inputs: ``x = origin + u @ directions`` for some ``u``."""

    origin: Float[Tensor, " model"]
    directions: Float[Tensor, "direction model"]

    def __post_init__(self):
        if self.origin.ndim != 1 or self.directions.ndim != 2 or self.directions.shape[1] != len(self.origin):
            raise ValueError(
                f"directions must be (direction, model) with the model axis of origin "
                f"{tuple(self.origin.shape)}, got {tuple(self.directions.shape)}"
            )
        super().__post_init__()


def any_input(model: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Hull:
    """Describe inputs that may be anything."""
    return Hull(torch.zeros(model, dtype=dtype, device=device), torch.eye(model, dtype=dtype, device=device))


def one_hot_input(model: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Hull:
    """Describe one-hot inputs: all coordinates sum to 1, so differences are orthogonal to the ones."""
    ones = torch.ones(model, dtype=dtype, device=device)
    return Hull(ones / model, torch.eye(model, dtype=dtype, device=device) - ones[:, None] * ones / model)


def layer_norm_output(norm: Norm) -> Hull:
    """Describe what a LayerNorm puts out: its bias, plus gain times anything orthogonal to the ones."""
    check_layer_norm(norm)
    model = norm.gain.shape[0]
    centring = torch.eye(model, dtype=norm.gain.dtype, device=norm.gain.device) - 1 / model
    return Hull(norm.bias, centring * norm.gain)


@dataclass(frozen=True)
class Preference:
    """By what each head can distinguish keys; both zero exactly where its weights are uniform on every input.

    Attributes
    ----------
    content
        ``|D W_Q W_K^T D^T|_F / sqrt(channel)``, ``D`` the directions: the part that depends on query and key.
    constant
        ``|(o W_Q + b_Q) W_K^T D^T| / sqrt(channel)``, ``o`` the origin: the part that depends on the key alone.
    """

    content: Float[Tensor, " head"]
    constant: Float[Tensor, " head"]


@checked
def key_preference(weights: AttentionLayer, hull: Hull | None = None) -> Preference:
    r"""Measure what could make the weights of each head other than uniform, over a set of inputs.

    A row is uniform where its scores do not depend on the key. For all inputs of the affine hull
    :math:`x = o + uD` that means

    .. math::  D\, W^Q_h W^{K\top}_h D^\top = 0 \quad\text{and}\quad (o W^Q_h + b^Q_h) W^{K\top}_h D^\top = 0 .

    Where :math:`u` is uniform on the sphere of radius ``sqrt(model)`` (LayerNorm's outputs), the two numbers are,
    up to ``model / (model - 1)``, root mean squares of the two parts of a score over keys, in nats.

    Parameters
    ----------
    weights
        ``b_K``, ``W_V``, ``W_O`` are not read: the scores do not depend on them.
    hull
        The inputs; default: any.

    Notes
    -----
    Traces of ``(channel, channel)`` Gram matrices: no ``(model, model)`` product is formed.

    Examples
    --------
    ``W_Q = 0`` alone is not enough, a query bias still prefers keys:

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2, 2)
    >>> bias = torch.tensor([[3.0, 4.0]])
    >>> layer = AttentionLayer(zero, eye, eye, eye, bias, 0 * bias, 0 * bias,
    ...                          torch.zeros(2))
    >>> key_preference(layer).constant * 2**0.5
    tensor([5.])
    """
    weights = weights.plain()
    hull = any_input(weights.model, weights.W_Q.dtype, weights.W_Q.device) if hull is None else hull
    query, key = (
        einsum(hull.directions, W, "direction model, head model channel -> head direction channel")
        for W in (weights.W_Q, weights.W_K)
    )
    origin = einsum(hull.origin, weights.W_Q, "model, head model channel -> head channel") + weights.b_Q
    of_query, of_key = (
        einsum(f, f, "head direction channel, head direction other -> head channel other") for f in (query, key)
    )
    content = einsum(of_query, of_key, "head channel other, head channel other -> head").clamp_min(0).sqrt()
    constant = einsum(origin, key, "head channel, head direction channel -> head direction").norm(dim=-1)
    return Preference(content / math.sqrt(weights.channel), constant / math.sqrt(weights.channel))


def mean_layer(model: int, head: int, channel: int, dtype: torch.dtype = torch.float64) -> AttentionLayer:
    """Build a layer that returns only the mean of what it may see: no scores, ``sum_h W_V_h W_O_h = I``, no bias.

    Head ``h`` carries coordinates ``h * channel`` to ``(h + 1) * channel``.

    Raises
    ------
    ValueError
        If a size is below 1, or ``head * channel < model``: a sum of ``head`` products of rank ``channel`` cannot be
        the identity.

    Notes
    -----
    On a residual stream the output is ``x_i`` plus the mean, never the mean alone.
    """
    if min(model, head, channel) < 1:
        raise ValueError(f"model, head and channel must be at least 1, got {model}, {head}, {channel}")
    if head * channel < model:
        raise ValueError(f"head * channel must be at least model = {model} for W_VO = I, got {head} * {channel}")
    split = torch.zeros(head * channel, model, dtype=dtype)
    split[:model] = torch.eye(model, dtype=dtype)
    W_O = split.reshape(head, channel, model)
    zero, nothing = torch.zeros(head, model, channel, dtype=dtype), torch.zeros(head, channel, dtype=dtype)
    return AttentionLayer(
        zero, zero, W_O.transpose(1, 2).contiguous(), W_O, nothing, nothing, nothing, torch.zeros(model, dtype=dtype)
    )
