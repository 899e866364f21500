"""How far two attention maps are apart: total variation, by row and over whole maps."""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Residual
from analysis.core.checks import check_distributions
from analysis.core.signatures import checked
from analysis.transformer.attention import compute_scores, softmax


@checked(mixed=True)
def mean_total_variation(
    maps: Attention, others: Float[Tensor, "other query key"]
) -> Float[Tensor, "*batch head other"]:
    r"""Return the mean over rows of the total variation between maps: the attention that lies elsewhere, 0 to 1.

    .. math::  \frac{1}{n} \sum_i \tfrac12 \sum_j |a_{ij} - a'_{ij}|

    Examples
    --------
    >>> eye, even = torch.eye(2)[None], torch.full((1, 2, 2), 0.5)
    >>> mean_total_variation(eye, torch.cat([eye, even]))
    tensor([[0.0000, 0.5000]])
    """
    return torch.stack([_row_distance(maps, other).mean(-1) for other in others.to(maps)], -1)


@checked(finite=True)
def attention_moved(
    x: Residual, weights: AttentionLayer, *, rows: Residual | None = None, instead: AttentionLayer | None = None
) -> Float[Tensor, "*batch head query"]:
    """Return the share of each row's attention that moves when the rows or the weights are replaced by others.

    Notes
    -----
    "The geometry of BERT", section 3.1.
    """
    other = compute_scores(x if rows is None else rows, weights if instead is None else instead)
    return total_variation(softmax(compute_scores(x, weights)), softmax(other))


def total_variation(p: Float[Tensor, "*any key"], q: Float[Tensor, "*any key"]) -> Float[Tensor, "*any"]:
    """Return the share of a row's attention that moved between two maps: half the summed difference, 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If the maps have different shapes (nothing is broadcast), or rows that do not sum to 1.

    Examples
    --------
    >>> total_variation(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
    tensor(0.5000)
    """
    for name, attention in (("p", p), ("q", q)):
        check_distributions(name, attention, "key")
    if p.shape != q.shape:
        raise ValueError(f"p and q must have one shape, got {tuple(p.shape)} and {tuple(q.shape)}")
    return _row_distance(p, q)


def _row_distance(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).abs().sum(-1) / 2
