"""What attention does when only positions count: how near it looks, and how a score grows along the sequence.

Position-only scores of a first layer (the positional semi-bias ``T^p``, position against position ``T^pp``), the mass
on the nearest keys, the distance of the largest weight.
"""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Scores
from analysis.core.signatures import checked
from analysis.decomposition.terms import semi_bias
from analysis.transformer.attention import mask_future, project, softmax


@checked(finite="p")
def position_scores(
    p: Float[Tensor, "position model"], width: Float[Tensor, " position"], folded: AttentionLayer
) -> tuple[Float[Tensor, "head key"], Scores]:
    r"""Return ``T^p`` and ``T^pp``: what positions alone add to a first layer's scores.

    .. math::

        T^p_j = \frac{\tilde b_Q \tilde W_K^\top p_j^\top}{\sqrt{c}\,\sigma_j}, \qquad
        T^{pp}_{ij} = \frac{p_i \tilde W_Q \tilde W_K^\top p_j^\top}{\sqrt{c}\,\sigma_i \sigma_j}

    Parameters
    ----------
    p
        The table of positions.
    width
        ``sigma`` at each position: of one text, or ``1 / E[1/sigma]`` over a vocabulary
        (:mod:`analysis.transformer.layernorm_scale`). With the latter ``T^p`` is its mean over tokens, and ``T^pp`` its
        mean over independent tokens at ``i`` and ``j``.
    folded
        The first layer with its LayerNorm folded in (``folding.fold_norm``).

    Raises
    ------
    ValueError
        If ``width`` does not fit ``p`` or is not positive, or ``p`` does not fit the layer.

    References
    ----------
    Kamoda, *Dissecting GPT*, "Positional encoding and attention bias".

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero + 10, zero, zero,
    ...                          torch.zeros(1))
    >>> position_scores(torch.tensor([[2.0], [3.0]]), torch.tensor([1.0, 0.5]), layer)
    (tensor([[20., 60.]]), tensor([[[ 4., 12.],
             [12., 36.]]]))
    """
    if not ((width > 0) & width.isfinite()).all():
        raise ValueError("width must be positive, finite numbers")
    folded = folded.plain()
    y, zero = p / width[..., None], torch.zeros_like(folded.b_Q)
    queries, keys = project(y, folded.W_Q, zero), project(y, folded.W_K, zero)
    both = einsum(queries, keys, "head query channel, head key channel -> head query key")
    return semi_bias(y, folded), both / math.sqrt(folded.channel)


@checked
def causal_attention(scores: Float[Tensor, "*any row key"]) -> Attention:
    """Turn scores into causal attention; ``(head, key)`` scores are the same for every query.

    >>> causal_attention(torch.zeros(1, 2))
    tensor([[[1.0000, 0.0000],
             [0.5000, 0.5000]]])
    """
    if scores.ndim == 2:
        scores = scores[:, None, :].expand(-1, scores.shape[-1], -1)
    return softmax(mask_future(scores))


@checked
def nearest_mass(attention: Float[Tensor, "*any query key"], reach: int = 50) -> Float[Tensor, "*any query"]:
    """Sum each query's attention over the nearest ``reach`` keys, its own position among them.

    Kamoda, *Dissecting GPT*, "Positional encoding and attention bias". Queries are taken to be the last of the keys.

    >>> nearest_mass(torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0],
    ...                             [0.2, 0.3, 0.5]]]), reach=1)
    tensor([[1.0000, 0.5000, 0.5000]])
    """
    if reach < 1:
        raise ValueError(f"reach must be at least 1, got {reach}")
    distance = _distance(attention)
    return (attention * ((distance >= 0) & (distance < reach))).sum(-1)


@checked(finite=True)
def peak_distance(attention: Float[Tensor, "*any query key"]) -> Int[Tensor, "*any query"]:
    """Return how far back each query's largest weight lies; where several are largest, the nearest of them.

    >>> peak_distance(torch.tensor([[[1.0, 0.0, 0.0], [0.7, 0.3, 0.0],
    ...                              [0.2, 0.4, 0.4]]]))
    tensor([[0, 1, 0]])
    """
    behind_last = attention.flip(-1).argmax(-1)
    return behind_last + _distance(attention)[:, -1]


@dataclass(frozen=True)
class PositionOnly:
    """Attention of ``T^p`` alone, ``T^pp`` alone and their sum, in this order along ``part``.

    ``mass[r]`` is the mean over queries of the mass on the nearest ``reaches[r]`` keys, ``uniform[r]`` what equal
    weights would put there; ``peak`` is the distance of the largest weight at every query.
    """

    reaches: tuple[int, ...]
    mass: Float[Tensor, "reach part head"]
    uniform: Float[Tensor, " reach"]
    peak: Int[Tensor, "part head query"]


@checked(finite=True)
def position_only(
    own: Float[Tensor, "head key"],
    both: Float[Tensor, "head key key"],
    reaches: tuple[int, ...] = (3, 50),
    *,
    first: int = 50,
) -> PositionOnly:
    """Measure how local the attention is that positions alone would give; queries from ``first`` on are averaged.

    Parameters
    ----------
    own, both
        ``T^p`` and ``T^pp``, as `position_scores` returns them.
    reaches
        Numbers of nearest keys whose mass is wanted.
    first
        Queries before it have few keys, and are left out of the means.

    References
    ----------
    Kamoda, *Dissecting GPT*, "Positional encoding and attention bias".

    Examples
    --------
    Two keys alike, so the second query puts half on itself whatever the part:

    >>> position_only(torch.zeros(1, 2), torch.zeros(1, 2, 2), (1,), first=1).mass
    tensor([[[0.5000],
             [0.5000],
             [0.5000]]])
    """
    if not 0 <= first < own.shape[1]:
        raise ValueError(f"first must be below the number of keys, {own.shape[1]}, and not negative, got {first}")
    if not reaches:
        raise ValueError("reaches is empty: give at least one number of nearest keys")
    heads, keys = own.shape
    mass = own.new_empty(len(reaches), 3, heads)
    peak = torch.empty(3, heads, keys, dtype=torch.int64, device=own.device)
    for head in range(heads):
        alone = own[head].expand(keys, keys)
        for part, scores in enumerate((alone, both[head], alone + both[head])):
            attention = softmax(mask_future(scores))  # one map at a time stays in the cache
            peak[part, head] = peak_distance(attention)
            for r, reach in enumerate(reaches):
                mass[r, part, head] = nearest_mass(attention[first:], reach).mean()
    visible = torch.arange(first + 1, keys + 1, dtype=own.dtype, device=own.device)
    uniform = torch.stack([(reach / visible).clamp(max=1).mean() for reach in reaches])
    return PositionOnly(tuple(reaches), mass, uniform, peak)


def _distance(attention: Tensor) -> Int[Tensor, "query key"]:
    queries, keys = attention.shape[-2:]
    query = torch.arange(keys - queries, keys, device=attention.device)
    return query[:, None] - torch.arange(keys, device=attention.device)


@checked(finite=True, gradient=False)
def position_share(states: Float[Tensor, "text position model"]) -> float:
    """Return how much of the variance of a stream is explained by the position alone.

    Variance of the mean state of each position, less what averaging over so few texts leaves in it, over that plus
    the variance between texts at a position.

    Examples
    --------
    Every text alike: all variance is the position's.

    >>> position_share(torch.tensor([[1.0, 2.0, 3.0]] * 4)[..., None])
    1.0
    """
    if min(states.shape[:2]) < 2:
        raise ValueError(f"states must hold at least 2 texts and 2 positions, got {tuple(states.shape)}")
    states = states.double()  # in float32 the squares of small rows vanish
    within = states.var(0).mean(0).sum()
    between = (states.mean(0).var(0).sum() - within / states.shape[0]).clamp(min=0)
    return float(between / (between + within))
