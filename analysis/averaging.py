r"""Attention as a weighted mean: uniform weights, folded values, and the dial from uniform to sharp.

What belongs here: what follows from "each row of the weights sums to 1", which weights and biases give uniform
rows, how a layer becomes a pure mean, and how far a row is from uniform. Taking the scores apart into patterns is
in ``patterns``; the key semi-bias of a vocabulary is in ``bias``.
"""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.axes import (
    Attention,
    AttentionWeights,
    LayerNormWeights,
    Residual,
    Scores,
    all_finite,
    check_floating,
)
from analysis.patterns import message_matrix, update_bias


def uniform_causal(n: int, dtype: torch.dtype = torch.float64) -> Float[Tensor, "query key"]:
    """Build the uniform causal weights: ``1 / i`` on the first ``i`` keys of row ``i`` (counted from 1), else 0.

    Ledger M-09.

    >>> uniform_causal(3)[1]
    tensor([0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a whole number, at least 1 position, got {n}")
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating type, which can hold 1 / i, got {dtype}")
    return torch.ones(n, n, dtype=dtype).tril() / torch.arange(1, n + 1, dtype=dtype)[:, None]


def cumulative_means(x: Residual) -> Residual:
    """Return in row ``i`` the mean of the first ``i`` rows: what ``uniform_causal`` times ``x`` is, in one pass.

    Ledger M-07, M-11.

    >>> cumulative_means(torch.tensor([[0.0, 4.0], [2.0, 0.0]]))
    tensor([[0., 4.],
            [1., 2.]])
    """
    check_floating("x", x, "position", "model")
    return x.cumsum(-2) / torch.arange(1, x.shape[-2] + 1, dtype=x.dtype, device=x.device)[:, None]


@dataclass(frozen=True)
class Folded:
    """Value and output projections merged: ``W_VO (head model out)`` for each head, and one bias ``b_VO (out)``."""

    W_VO: Float[Tensor, "head model out"]
    b_VO: Float[Tensor, " out"]


def fold_values(weights: AttentionWeights) -> Folded:
    r"""Merge each head's value and output projections and collect both biases in one.

    .. math::  W^{VO}_h = W^V_h W^O_h, \qquad b^{VO} = b^O + \sum_h b^V_h W^O_h

    Allowed where every row of the attention sums to 1; see :func:`apply_folded`.

    Notes
    -----
    Ledger M-18, M-22 (one head, ``b_VO = b_V W_O + b_O``); with several heads the sum over heads stands before ``b_O``.
    ``bias.fold_value_bias`` returns a layer of four factors with the biases so moved.

    Examples
    --------
    >>> one, two = torch.ones(1, 1, 1), torch.full((1, 1, 1), 2.0)
    >>> layer = AttentionWeights(one, one, one, two, *torch.full((3, 1, 1), 5.0), torch.ones(1))
    >>> fold_values(layer).b_VO
    tensor([11.])
    """
    return Folded(message_matrix(weights), update_bias(weights))


def apply_folded(attention: Attention, x: Residual, folded: Folded) -> Residual:
    r"""Weight the inputs, not the values: ``sum_h (A_h x) W_VO_h + b_VO``.

    Raises
    ------
    ValueError
        If a row of ``attention`` does not sum to 1 (dropout, a null key, a masked-out row): there the value bias
        arrives multiplied by the row sum and cannot be folded. :func:`missing_bias` says by how much. Or if heads,
        keys or widths do not fit.

    Notes
    -----
    Ledger M-18, M-19, M-20, M-21.

    Examples
    --------
    >>> folded = Folded(torch.eye(2)[None], torch.zeros(2))
    >>> apply_folded(uniform_causal(2, torch.float32)[None], torch.tensor([[0.0, 4.0], [2.0, 0.0]]), folded)
    tensor([[0., 4.],
            [1., 2.]])
    """
    heads, model = folded.W_VO.shape[:2]
    check_floating("attention", attention, "head", "query", "key")
    check_floating("x", x, "key", "model")
    if attention.shape[-3] != heads or attention.shape[-1] != x.shape[-2]:
        raise ValueError(f"attention must be (..., {heads}, query, key) with one key for each row of x, got "
                         f"{tuple(attention.shape)} and x {tuple(x.shape)}")
    for name, part in (("attention", attention), ("x", x)):
        if part.dtype != folded.W_VO.dtype:
            raise ValueError(f"{name} must be in {folded.W_VO.dtype} to fit W_VO, got {part.dtype}")
    if x.shape[-1] != model:
        raise ValueError(f"x must be (..., key, {model}) to fit W_VO, got {tuple(x.shape)}")
    off = (attention.sum(-1) - 1).abs().max().item()
    if not off <= 64 * torch.finfo(attention.dtype).eps * max(1, attention.shape[-1] ** 0.5):
        raise ValueError(f"attention must have rows that sum to 1, one misses it by {off:.3g}: "
                         "with dropout or a null key the value bias cannot be folded into the output bias")
    weighted = einsum(attention, x, "... head query key, ... key model -> ... head query model")
    return einsum(weighted, folded.W_VO, "... head query model, head model out -> ... query out") + folded.b_VO


def missing_bias(attention: Attention, weights: AttentionWeights) -> Residual:
    r"""Return what folding gets wrong where rows sum to ``r != 1``: ``sum_h (r_hi - 1) b_V_h W_O_h`` at each query.

    Add it to the folded output to get the layer's. Zero where all rows sum to 1. Ledger M-20.
    """
    check_floating("attention", attention, "head", "query", "key")
    if attention.shape[-3] != weights.heads or attention.dtype != weights.b_V.dtype:
        raise ValueError(f"attention must be (..., {weights.heads}, query, key) in {weights.b_V.dtype} to fit the "
                         f"weights, got {tuple(attention.shape)} in {attention.dtype}")
    return einsum(attention.sum(-1) - 1, weights.b_V, weights.W_O,
                  "... head query, head channel, head channel model -> ... query model")


@dataclass(frozen=True)
class Hull:
    """The affine hull of a layer's possible inputs: ``x = origin + u @ directions`` for some ``u``."""

    origin: Float[Tensor, " model"]
    directions: Float[Tensor, "direction model"]

    def __post_init__(self):
        if self.origin.ndim != 1 or self.directions.ndim != 2 or self.directions.shape[1] != len(self.origin):
            raise ValueError(f"directions must be (direction, model) with the model axis of origin "
                             f"{tuple(self.origin.shape)}, got {tuple(self.directions.shape)}")
        for name in ("origin", "directions"):
            if not getattr(self, name).is_floating_point() or getattr(self, name).dtype != self.origin.dtype:
                raise ValueError(f"origin and directions must be of one floating dtype, got {self.origin.dtype} and "
                                 f"{self.directions.dtype}")
            if not all_finite(getattr(self, name)):
                raise ValueError(f"{name} holds entries that are not finite (nan or inf)")


def any_input(model: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Hull:
    """Describe inputs that may be anything."""
    return Hull(torch.zeros(model, dtype=dtype, device=device), torch.eye(model, dtype=dtype, device=device))


def one_hot_input(model: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Hull:
    """Describe one-hot inputs: all coordinates sum to 1, so differences are orthogonal to the ones."""
    ones = torch.ones(model, dtype=dtype, device=device)
    return Hull(ones / model, torch.eye(model, dtype=dtype, device=device) - ones[:, None] * ones / model)


def layer_norm_output(norm: LayerNormWeights) -> Hull:
    """Describe what a LayerNorm puts out: its bias, plus gain times anything orthogonal to the ones."""
    model = norm.gain.shape[0]
    centring = torch.eye(model, dtype=norm.gain.dtype, device=norm.gain.device) - 1 / model
    return Hull(norm.bias, centring * norm.gain)


@dataclass(frozen=True)
class Preference:
    """What lets each head tell keys apart; both zero exactly where its weights are uniform on every input.

    Attributes
    ----------
    content
        ``|D W_Q W_K^T D^T|_F / sqrt(channel)``, ``D`` the directions: the part that depends on query and key.
    constant
        ``|(o W_Q + b_Q) W_K^T D^T| / sqrt(channel)``, ``o`` the origin: the part that depends on the key alone.
    """

    content: Float[Tensor, " head"]
    constant: Float[Tensor, " head"]


def key_preference(weights: AttentionWeights, hull: Hull | None = None) -> Preference:
    r"""Measure what could make the weights of each head other than uniform, over a set of inputs.

    A row is uniform where its scores do not depend on the key. For all inputs of the affine hull
    :math:`x = o + uD` that means

    .. math::  D\, W^Q_h W^{K\top}_h D^\top = 0 \quad\text{and}\quad (o W^Q_h + b^Q_h) W^{K\top}_h D^\top = 0 .

    Where :math:`u` is uniform on the sphere of radius ``sqrt(model)`` (LayerNorm's outputs), the two numbers are,
    up to ``model / (model - 1)``, root mean squares of the two parts of a score over keys, in nats.

    Parameters
    ----------
    weights
        ``b_K``, ``W_V``, ``W_O`` are not read: they have no say in it.
    hull
        The inputs; default: any.

    Notes
    -----
    Ledger M-05, M-24. Traces of ``(channel, channel)`` Gram matrices: no ``(model, model)`` product is formed.

    Examples
    --------
    ``W_Q = 0`` alone is not enough, a query bias still prefers keys:

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2, 2)
    >>> bias = torch.tensor([[3.0, 4.0]])
    >>> layer = AttentionWeights(zero, eye, eye, eye, bias, 0 * bias, 0 * bias, torch.zeros(2))
    >>> key_preference(layer).constant * 2**0.5
    tensor([5.])
    """
    hull = any_input(weights.model, weights.W_Q.dtype, weights.W_Q.device) if hull is None else hull
    if hull.origin.shape[0] != weights.model:
        raise ValueError(f"hull must have the layer's width {weights.model}, got {hull.origin.shape[0]}")
    if hull.origin.dtype != weights.W_Q.dtype or hull.directions.dtype != weights.W_Q.dtype:
        raise ValueError(f"hull must be {weights.W_Q.dtype} as the weights are, "
                         f"got {hull.origin.dtype} and {hull.directions.dtype}")
    query, key = (einsum(hull.directions, W, "direction model, head model channel -> head direction channel")
                  for W in (weights.W_Q, weights.W_K))
    origin = einsum(hull.origin, weights.W_Q, "model, head model channel -> head channel") + weights.b_Q
    grams = [einsum(f, f, "head direction channel, head direction other -> head channel other") for f in (query, key)]
    content = einsum(*grams, "head channel other, head channel other -> head").clamp_min(0).sqrt()
    constant = einsum(origin, key, "head channel, head direction channel -> head direction").norm(dim=-1)
    return Preference(content / math.sqrt(weights.channel), constant / math.sqrt(weights.channel))


def mean_layer(model: int, head: int, channel: int, dtype: torch.dtype = torch.float64) -> AttentionWeights:
    """Build a layer that returns only the mean of what it may see: no scores, ``sum_h W_V_h W_O_h = I``, no bias.

    Head ``h`` carries coordinates ``h * channel`` to ``(h + 1) * channel``.

    Raises
    ------
    ValueError
        If a size is below 1, or ``head * channel < model``: a sum of ``head`` products of rank ``channel`` cannot be
        the identity.

    Notes
    -----
    Ledger M-24. On a residual stream the output is ``x_i`` plus the mean, never the mean alone.
    """
    if min(model, head, channel) < 1:
        raise ValueError(f"model, head and channel must be at least 1, got {model}, {head}, {channel}")
    if head * channel < model:
        raise ValueError(f"head * channel must be at least model = {model} for W_VO = I, got {head} * {channel}")
    split = torch.zeros(head * channel, model, dtype=dtype)
    split[:model] = torch.eye(model, dtype=dtype)
    W_O = split.reshape(head, channel, model)
    zero, nothing = torch.zeros(head, model, channel, dtype=dtype), torch.zeros(head, channel, dtype=dtype)
    return AttentionWeights(zero, zero, W_O.transpose(1, 2).contiguous(), W_O, nothing, nothing, nothing,
                            torch.zeros(model, dtype=dtype))


def entropy(scores: Scores) -> Float[Tensor, "*batch head query"]:
    r"""Return the entropy of each row of ``softmax(scores)``, in nats, without a second logarithm.

    .. math::  H_i = \log Z_i - \sum_j p_{ij} s_{ij}, \qquad Z_i = \sum_j e^{s_{ij}}

    Masked keys (minus infinity) count nothing. ``log i`` where ``i`` keys are equal, 0 where one has all. Refuses
    scores of which no softmax can be taken: nan, plus infinity, a row without any key that it may see.

    >>> entropy(torch.zeros(1, 1, 4)).exp()
    tensor([[4.]])
    """
    _check_scores(scores)
    p = scores.softmax(-1)
    return scores.logsumexp(-1) - (p * scores.masked_fill(p == 0, 0)).sum(-1)


def _check_scores(scores: Scores) -> None:
    """Refuse scores with a row that has no softmax."""
    check_floating("scores", scores, "key")
    if (scores.isnan() | (scores == math.inf)).any():
        raise ValueError("scores hold nan or plus infinity; only minus infinity is allowed, for masked keys")
    if (scores == -math.inf).all(-1).any():
        raise ValueError("scores must leave at least one key to every row, got a row with none")


def visible(scores: Scores) -> Float[Tensor, "*batch head query"]:
    """Count the keys that each row may see (those not at minus infinity); refuses nan."""
    check_floating("scores", scores, "key")
    if scores.isnan().any():
        raise ValueError("scores hold nan: such a key is neither seen nor masked")
    return torch.isfinite(scores).sum(-1).to(scores.dtype)


def spread(scores: Scores) -> Float[Tensor, "*batch head query"]:
    """Return the range of each row's visible scores, in nats; 0 exactly where the row is uniform."""
    _check_scores(scores)
    masked = torch.isinf(scores)
    return scores.masked_fill(masked, -math.inf).amax(-1) - scores.masked_fill(masked, math.inf).amin(-1)


def turn(scores: Scores, dials: Float[Tensor, " dial"]) -> Float[Tensor, "dial *batch head query"]:
    r"""Multiply the scores by each ``t`` and return the rows' entropies: ``log i`` at 0, falling as ``t`` grows.

    .. math::  \frac{dH}{dt} = -t\, \mathrm{Var}_{p_t}(s)

    Raises
    ------
    ValueError
        If a ``t`` is negative or not finite, there is none, or the scores are not those of a softmax.

    Notes
    -----
    Scaling ``W_Q`` and ``b_Q`` of the layer by ``t`` does the same (the terms with ``b_K`` are constant in a row).
    """
    _check_scores(scores)
    check_floating("dials", dials, "dial")
    if dials.ndim != 1:
        raise ValueError(f"dials must be a list of at least one number, got shape {tuple(dials.shape)}")
    if not (torch.isfinite(dials).all() and (dials >= 0).all()):
        raise ValueError(f"dials must be finite and not negative, got {dials.tolist()}")
    masked = torch.isinf(scores)
    bare = scores.masked_fill(masked, 0)
    return torch.stack([entropy((t * bare).masked_fill(masked, -math.inf)) for t in dials])
