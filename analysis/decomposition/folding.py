"""Folding: moving a bias or a gain into other weights, so that the layer's output stays the same.

The value bias becomes an output bias, the LayerNorm's gain and bias move into the maps that read it, and the value and
output maps merge into one. What belongs here: equivalent weights, and the term that is missing where folding is not
exact. What does not: parts of scores (:mod:`analysis.decomposition.score_terms`).

Four functions fold the value bias; which one to take depends on what is at hand and what is wanted:

* :func:`fold_value_bias`, for a plain layer (`AttentionWeights`): the same layer with ``b_V = 0`` and a larger ``b_O``.
* :func:`fold_values`, for a plain layer: ``W_V W_O`` of each head as one matrix, and all biases as one vector.
* :func:`analysis.decomposition.qk_ov.update_bias`, for a plain layer: that vector alone.
* :func:`analysis.decomposition.general_terms.fold_general_value_bias`, for a layer of any family (`AttentionLayer`),
  with groups of keys and values: the same layer; one with sinks is refused.
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.axes import Attention, Residual
from analysis.core.checks import check_floating
from analysis.core.precision import without_autocast
from analysis.core.weights import AttentionWeights, LayerNormWeights
from analysis.decomposition.qk_ov import ov_matrix, update_bias
from analysis.transformer.layernorm import centre


def fold_value_bias(weights: AttentionWeights) -> AttentionWeights:
    r"""Move the value bias into the output bias: ``b_O + sum_h b_V W_O`` and ``b_V = 0``.

    Exact because each row of attention sums to 1, so every head adds ``b_V W_O`` once at every query.

    References
    ----------
    Ledger K-09, K-10 (the document's ``b^VO``, which belongs outside the sum over heads).

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = fold_value_bias(AttentionWeights(one, one, one, 2 * one, zero, zero,
    ...                                          zero + 5, torch.ones(1)))
    >>> layer.b_V, layer.b_O
    (tensor([[0.]]), tensor([11.]))
    """
    return replace(weights, b_V=torch.zeros_like(weights.b_V), b_O=update_bias(weights))


def fold_layer_norm(weights: AttentionWeights, ln: LayerNormWeights) -> AttentionWeights:
    r"""Fold the LayerNorm before a layer into it, all but the division by ``sigma``.

    .. math::  \tilde W = C\,\mathrm{diag}(\gamma)\,W, \qquad \tilde b = \beta W + b, \qquad C = I - 11^\top/d

    for queries, keys and values. The folded layer reading ``y / sigma(y)`` computes what the layer computed
    reading ``LN(y)``.

    Raises
    ------
    ValueError
        If the LayerNorm has another width or dtype than the layer.

    References
    ----------
    Ledger K-29 (the document feeds ``p`` where the layer reads ``LN(e + p)``).

    Examples
    --------
    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionWeights(eye, eye, eye, eye, zero, zero, zero, torch.zeros(2))
    >>> layer = fold_layer_norm(layer, LayerNormWeights(torch.tensor([2.0, 4.0]),
    ...                                                 torch.tensor([0.0, 7.0])))
    >>> layer.W_K, layer.b_K
    (tensor([[[ 1., -2.],
             [-1.,  2.]]]), tensor([[0., 7.]]))
    """
    if ln.gain.shape != (weights.model,) or ln.gain.dtype != weights.W_Q.dtype:
        raise ValueError(
            f"ln must have width {weights.model} and {weights.W_Q.dtype} to fit the weights, "
            f"got {tuple(ln.gain.shape)} and {ln.gain.dtype}"
        )
    fields = {}
    for name in "QKV":
        W, b = getattr(weights, f"W_{name}"), getattr(weights, f"b_{name}")
        fields[f"b_{name}"] = b + einsum(ln.bias, W, "model, head model channel -> head channel")
        fields[f"W_{name}"] = centre((ln.gain[:, None] * W).mT).mT.contiguous()
    return replace(weights, **fields)


@dataclass(frozen=True)
class OvCircuit:
    """The merged value and output projections: ``W_VO (head model out)`` for each head, and one bias ``b_VO (out)``."""

    W_VO: Float[Tensor, "head model out"]
    b_VO: Float[Tensor, " out"]


def fold_values(weights: AttentionWeights) -> OvCircuit:
    r"""Merge each head's value and output projections and collect both biases in one.

    .. math::  W^{VO}_h = W^V_h W^O_h, \qquad b^{VO} = b^O + \sum_h b^V_h W^O_h

    Allowed where every row of the attention sums to 1; see :func:`apply_folded`.

    Notes
    -----
    Ledger M-18, M-22 (one head, ``b_VO = b_V W_O + b_O``); with several heads the sum over heads stands before ``b_O``.
    `fold_value_bias` returns a layer of four factors with the biases so moved.

    Examples
    --------
    >>> one, two = torch.ones(1, 1, 1), torch.full((1, 1, 1), 2.0)
    >>> layer = AttentionWeights(one, one, one, two, *torch.full((3, 1, 1), 5.0),
    ...                          torch.ones(1))
    >>> fold_values(layer).b_VO
    tensor([11.])
    """
    return OvCircuit(ov_matrix(weights), update_bias(weights))


@without_autocast
def apply_folded(attention: Attention, x: Residual, circuit: OvCircuit) -> Residual:
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
    >>> circuit = OvCircuit(torch.eye(2)[None], torch.zeros(2))
    >>> running_mean = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> apply_folded(running_mean, torch.tensor([[0.0, 4.0], [2.0, 0.0]]), circuit)
    tensor([[0., 4.],
            [1., 2.]])
    """
    heads, model = circuit.W_VO.shape[:2]
    check_floating("attention", attention, "head", "query", "key")
    check_floating("x", x, "key", "model")
    if attention.shape[-3] != heads or attention.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"attention must be (..., {heads}, query, key) with one key for each row of x, got "
            f"{tuple(attention.shape)} and x {tuple(x.shape)}"
        )
    for name, part in (("attention", attention), ("x", x)):
        if part.dtype != circuit.W_VO.dtype:
            raise ValueError(f"{name} must be in {circuit.W_VO.dtype} to fit W_VO, got {part.dtype}")
    if x.shape[-1] != model:
        raise ValueError(f"x must be (..., key, {model}) to fit W_VO, got {tuple(x.shape)}")
    off = (attention.sum(-1) - 1).abs().max().item()
    if not off <= 64 * torch.finfo(attention.dtype).eps * max(1, attention.shape[-1] ** 0.5):
        raise ValueError(
            f"attention must have rows that sum to 1, one misses it by {off:.3g}: "
            "with dropout or a null key the value bias cannot be folded into the output bias"
        )
    mixtures = einsum(attention, x, "... head query key, ... key model -> ... head query model")
    return einsum(mixtures, circuit.W_VO, "... head query model, head model out -> ... query out") + circuit.b_VO


@without_autocast
def missing_bias(attention: Attention, weights: AttentionWeights) -> Residual:
    r"""Return what folding gets wrong where rows sum to ``r != 1``: ``sum_h (r_hi - 1) b_V_h W_O_h`` at each query.

    Add it to the folded output to get the layer's. Zero where all rows sum to 1. Ledger M-20.
    """
    check_floating("attention", attention, "head", "query", "key")
    if attention.shape[-3] != weights.heads or attention.dtype != weights.b_V.dtype:
        raise ValueError(
            f"attention must be (..., {weights.heads}, query, key) in {weights.b_V.dtype} to fit the "
            f"weights, got {tuple(attention.shape)} in {attention.dtype}"
        )
    return einsum(
        attention.sum(-1) - 1,
        weights.b_V,
        weights.W_O,
        "... head query, head channel, head channel model -> ... query model",
    )
