r"""Scores of any family as sums: content, semi-bias, query side, kernel, and what positions add.

With queries :math:`x_iW_Q + b_Q` and keys :math:`x_jW_K + b_K` a score is bilinear in both once each has been divided
by its own norm and turned by its own position, so it has four parts in every family; which of them a softmax cannot
see differs. What belongs here: the parts, and folding into the general layer. What does not: what becomes of the parts
with rotary positions alone, the plain case (:mod:`analysis.decomposition.score_terms`).
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual, Scores
from analysis.core.signatures import checked
from analysis.transformer.general_attention import added_by_positions, arrange, meet, project_rows


@dataclass(frozen=True)
class GeneralTerms:
    """Parts of scores, before any soft cap and mask; ``positions`` is ``None`` where they add nothing."""

    content: Scores
    semi_bias: Scores
    query_side: Scores
    kernel: Scores
    positions: Float[Tensor, "*any head query key"] | None

    def sum(self) -> Scores:
        """Return the score before soft cap and mask."""
        total = self.content + self.semi_bias + self.query_side + self.kernel
        return total if self.positions is None else total + self.positions


@checked
def general_terms(x: Residual, layer: AttentionLayer) -> GeneralTerms:
    r"""Take the scores of any layer apart by its query and key biases.

    Where queries and keys pass through a norm, each part is divided by the norms of the whole query and the whole key,
    so the sum is still exact; a part that would be constant along a row then is not. A norm's own bias belongs to
    ``b_Q`` or ``b_K``.

    Parameters
    ----------
    x
        What the attention reads.

    Returns
    -------
    GeneralTerms
        ``content`` without biases, ``semi_bias`` with ``b_Q`` alone, ``query_side`` with ``b_K`` alone, ``kernel``
        with both.

    Examples
    --------
    >>> from analysis.core.attention_layer import Mask
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero + 2, zero + 3, zero, zero[0],
    ...                        1.0, Mask(causal=True))
    >>> terms = general_terms(torch.tensor([[5.0]]), layer)
    >>> [round(part.item())
    ...  for part in (terms.content, terms.semi_bias, terms.query_side, terms.kernel)]
    [25, 10, 15, 6]
    """
    parts, wholes = {}, {}
    for side, W, b in (("query", layer.W_Q, layer.b_Q), ("key", layer.W_K, layer.b_K)):
        whole, bare = project_rows(x, W, b), project_rows(x, W, torch.zeros_like(b))
        bias = b[:, None].expand_as(bare)
        wholes[side] = arrange(whole, layer, side)
        content = arrange(bare, layer, side, by=whole)
        own = wholes[side] - content if layer.qk_norm else arrange(bias, layer, side)  # with the bias of a norm
        parts[side] = content, own
    terms = [meet(query, key, layer) for key in parts["key"] for query in parts["query"]]
    return GeneralTerms(*terms, added_by_positions(wholes["query"], wholes["key"], layer))


def fold_general_value_bias(layer: AttentionLayer) -> AttentionLayer:
    r"""Move the value bias into the output bias, :math:`b_O + \sum_h b_V^{g(h)} W_O^h`, groups repeated.

    Raises
    ------
    ValueError
        If the layer has sinks: rows of attention then sum to less than 1, and how often the bias arrives depends on
        the text.

    Examples
    --------
    >>> from analysis.core.attention_layer import Mask
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero, zero, zero + 5, zero[0] + 1,
    ...                        1.0, Mask(causal=True))
    >>> fold_general_value_bias(layer).b_O
    tensor([6.])
    """
    if layer.sinks is not None:
        raise ValueError("layer has sinks: its rows of attention sum to less than 1, so the value bias is no constant")
    b_V = layer.b_V.repeat_interleave(layer.heads // layer.groups, 0)
    update = einsum(b_V, layer.W_O, "head value, head value model -> model")
    return replace(layer, b_V=torch.zeros_like(layer.b_V), b_O=layer.b_O + update)


def fold_input_norm(layer: AttentionLayer) -> AttentionLayer:
    r"""Fold gain and bias of the norm before the layer into queries, keys and values; the norm then only scales.

    .. math::  W \to \mathrm{diag}(\gamma) W, \qquad b \to \beta W + b

    Exact for every layer with a norm before it, whether LayerNorm or RMSNorm.

    Raises
    ------
    ValueError
        If no norm stands before the layer.
    """
    norm = layer.norm("input")
    if norm is None:
        raise ValueError(
            "layer has no norm before it: one that stands after the sum is read by the stream too, and "
            "cannot be folded into the layer alone"
        )
    fields = {}
    for name in "QKV":
        W, b = getattr(layer, f"W_{name}"), getattr(layer, f"b_{name}")
        fields[f"W_{name}"] = norm.gain[:, None] * W
        fields[f"b_{name}"] = b + einsum(norm.bias, W, "model, head model channel -> head channel")
    bare = replace(norm, gain=torch.ones_like(norm.gain), bias=torch.zeros_like(norm.bias), has_bias=False)
    return replace(layer, **fields, norms=tuple(bare if each is norm else each for each in layer.norms))
