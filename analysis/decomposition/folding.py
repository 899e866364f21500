r"""Folding: moving a bias, a gain or an origin into other weights, so that the layer's output stays the same.

The value bias becomes an output bias, the gain and bias of a norm move into the maps that read it, and the value and
output maps merge into one.
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.axes import Attention
from analysis.core.signatures import checked
from analysis.decomposition.qk_ov import ov_matrix, update_bias
from analysis.transformer.layernorm import centre


def fold_value_bias(layer: AttentionLayer) -> AttentionLayer:
    r"""Move the value bias into the output bias: :math:`b_O + \sum_h b_V^h W_O^h` and ``b_V = 0``, in any family.

    Exact because each row of attention sums to 1, so every head adds ``b_V W_O`` once at every query; once for all
    heads together, outside the sum over them.

    Raises
    ------
    ValueError
        If the layer has sinks: rows of attention then sum to less than 1, and how often the bias arrives depends on
        the text.

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, 2 * one, zero, zero, zero + 5,
    ...                        torch.ones(1))
    >>> folded = fold_value_bias(layer)
    >>> folded.b_V, folded.b_O
    (tensor([[0.]]), tensor([11.]))
    """
    return replace(layer, b_V=torch.zeros_like(layer.b_V), b_O=update_bias(layer))


@checked
def fold_norm(layer: AttentionLayer, norm: Norm | None = None) -> AttentionLayer:
    r"""Fold the norm before a layer into it, all but the division by the size of a row.

    .. math::  \tilde W = C\,\mathrm{diag}(\gamma)\,W, \qquad \tilde b = \beta W + b, \qquad C = I - 11^\top/d

    for queries, keys and values; without ``C`` for a norm that does not centre (RMSNorm). The folded layer reading
    ``y / sigma(y)`` computes what the layer computed reading the norm of ``y``; its own norm, if it has one, has gain 1
    and no bias.

    Parameters
    ----------
    norm
        By default the layer's own input norm.

    Raises
    ------
    ValueError
        If the norm has another width or dtype than the layer; or if none is given and the layer has no input norm.

    Examples
    --------
    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionLayer(eye, eye, eye, eye, zero, zero, zero, torch.zeros(2))
    >>> norm = Norm(torch.tensor([2.0, 4.0]), torch.tensor([0.0, 7.0]))
    >>> layer = fold_norm(layer, norm)
    >>> layer.W_K, layer.b_K
    (tensor([[[ 1., -2.],
             [-1.,  2.]]]), tensor([[0., 7.]]))
    """
    own = layer.norm("input")
    norm = own if norm is None else norm
    if norm is None:
        raise ValueError(
            "layer has no norm before it: one applied after the sum is read by the stream too, and "
            "cannot be folded into the layer alone"
        )
    matrices = {f"W_{name}": norm.gain[:, None] * getattr(layer, f"W_{name}") for name in "QKV"}
    if norm.kind == "layer":
        matrices = {name: centre(W.mT).mT.contiguous() for name, W in matrices.items()}
    bare = {"gain": torch.ones_like(norm.gain), "bias": torch.zeros_like(norm.bias), "has_bias": False}
    norms = tuple(replace(each, **bare) if each is own else each for each in layer.norms)
    return replace(layer, **_biases_at(layer, norm.bias), **matrices, norms=norms)


def _biases_at(layer: AttentionLayer, row: Float[Tensor, " model"]) -> dict[str, Tensor]:
    """Return ``b + row W`` for queries, keys and values: what the layer makes of one row."""
    return {
        f"b_{name}": getattr(layer, f"b_{name}")
        + einsum(row, getattr(layer, f"W_{name}"), "model, head model channel -> head channel")
        for name in "QKV"
    }


@dataclass(frozen=True)
class OvCircuit:
    """The merged value and output projections: ``W_VO (head model out)`` for each head, and one bias ``b_VO (out)``."""

    W_VO: Float[Tensor, "head model out"]
    b_VO: Float[Tensor, " out"]


def fold_values(weights: AttentionLayer) -> OvCircuit:
    r"""Merge each head's value and output projections and collect both biases in one.

    .. math::  W^{VO}_h = W^V_h W^O_h, \qquad b^{VO} = b^O + \sum_h b^V_h W^O_h

    Allowed where every row of the attention sums to 1; see :func:`apply_folded`. `fold_value_bias` returns a layer of
    four factors with the biases so moved.

    Raises
    ------
    ValueError
        If the layer has sinks.

    Examples
    --------
    >>> one, two = torch.ones(1, 1, 1), torch.full((1, 1, 1), 2.0)
    >>> layer = AttentionLayer(one, one, one, two, *torch.full((3, 1, 1), 5.0),
    ...                          torch.ones(1))
    >>> fold_values(layer).b_VO
    tensor([11.])
    """
    return OvCircuit(ov_matrix(weights), update_bias(weights))


@checked
def apply_folded(
    attention: Attention, x: Float[Tensor, "*others key model"], circuit: OvCircuit
) -> Float[Tensor, "*batch query model"]:
    r"""Weight the inputs, not the values: ``sum_h (A_h x) W_VO_h + b_VO``.

    Raises
    ------
    ValueError
        If a row of ``attention`` does not sum to 1 (dropout, a null key, a masked-out row): there the value bias
        arrives multiplied by the row sum and cannot be folded. :func:`missing_bias` says by how much. Or if heads,
        keys or widths do not fit.

    Examples
    --------
    >>> circuit = OvCircuit(torch.eye(2)[None], torch.zeros(2))
    >>> running_mean = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> apply_folded(running_mean, torch.tensor([[0.0, 4.0], [2.0, 0.0]]), circuit)
    tensor([[0., 4.],
            [1., 2.]])
    """
    off = (attention.sum(-1) - 1).abs().max().item()
    if not off <= 64 * torch.finfo(attention.dtype).eps * max(1, attention.shape[-1] ** 0.5):
        raise ValueError(
            f"attention must have rows that sum to 1, one misses it by {off:.3g}: "
            "with dropout or a null key the value bias cannot be folded into the output bias"
        )
    mixtures = einsum(attention, x, "... head query key, ... key model -> ... head query model")
    return einsum(mixtures, circuit.W_VO, "... head query model, head model out -> ... query out") + circuit.b_VO


@checked
def missing_bias(attention: Attention, weights: AttentionLayer) -> Float[Tensor, "*batch query model"]:
    r"""Return what folding gets wrong where rows sum to ``r != 1``: ``sum_h (r_hi - 1) b_V_h W_O_h`` at each query.

    Add it to the folded output to get the layer's. Zero where all rows sum to 1.
    """
    return einsum(
        attention.sum(-1) - 1,
        weights.per_head(weights.b_V),
        weights.W_O,
        "... head query, head channel, head channel model -> ... query model",
    )
