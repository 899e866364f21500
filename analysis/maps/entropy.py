"""Entropies of attention: of each row, from weights or from scores, comparable across lengths, and of grey levels."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.axes import Attention, Scores
from analysis.core.checks import check_distributions
from analysis.core.signatures import checked


def _check_maps(attention: Attention) -> None:
    if (attention < 0).any() or not attention.flatten(-2).any(-1).all():
        raise ValueError("attention must have no negative entry and no map of zeros alone")


@checked(finite=True)
def relative_entropy(attention: Attention, keys: int | None = None) -> Float[Tensor, "*batch head query"]:
    """Return each row's entropy as a share of ln n, its value for uniform attention: comparable across lengths.

    Parameters
    ----------
    keys
        How many keys there are to attend to, where others are masked (padding); all by default.

    Raises
    ------
    TypeError, ValueError
        If ``attention`` is not a finite float32 or float64 tensor, has a negative entry or a row that does not sum to 1
        or attends to more than ``keys``, or there are fewer than two keys.

    Examples
    --------
    >>> relative_entropy(torch.tensor([[[0.5, 0.5]]])).round(decimals=3)
    tensor([[1.]])
    >>> relative_entropy(torch.tensor([[[0.5, 0.5, 0.0]]]), keys=2).round(decimals=3)
    tensor([[1.]])
    """
    _check_maps(attention)
    keys = attention.shape[-1] if keys is None else keys
    if not 2 <= keys <= attention.shape[-1]:
        raise ValueError(f"relative_entropy needs two keys (ln 1 is 0) and at most {attention.shape[-1]}, got {keys}")
    check_distributions("attention", attention)
    if (most := int((attention > 0).sum(-1).max())) > keys:
        raise ValueError(f"keys must be at least {most}, to as many a row attends, got {keys}")
    return row_entropy(attention) / math.log(keys)


@checked(finite=True)
def histogram_entropy(attention: Attention, bins: int = 256) -> Float[Tensor, "*batch head"]:
    r"""Return the entropy of the histogram of a map's values, in nats: how many different grey levels the picture has.

    The entries of each map are sorted into equal bins between 0 and its largest value; the place of a value does not
    matter. It is 0 for uniform attention, where `row_entropy` is largest ("The geometry of BERT", section 5.2).

    Raises
    ------
    TypeError, ValueError
        If ``attention`` is not a finite float32 or float64 tensor, has a negative entry or a map of zeros alone, or
        ``bins`` is below 2.

    Examples
    --------
    >>> histogram_entropy(torch.full((1, 4, 4), 0.25))
    tensor([0.])
    >>> histogram_entropy(torch.eye(2)[None])  # half zeros, half ones
    tensor([0.6931])
    """
    if bins < 2:
        raise ValueError(f"bins must be at least 2, got {bins}")
    _check_maps(attention)
    values = attention.flatten(-2)
    level = (values / values.amax(-1, keepdim=True) * bins).long().clamp(max=bins - 1)
    counts = torch.zeros(*values.shape[:-1], bins, dtype=attention.dtype, device=attention.device)
    counts.scatter_add_(-1, level, torch.ones_like(values))
    return row_entropy(counts / values.shape[-1])


@checked
def entropy_of_scores(scores: Float[Tensor, "*any key"]) -> Float[Tensor, "*any"]:
    r"""Return the entropy of each row of ``softmax(scores)``, in nats, without a second logarithm.

    .. math::  H_i = \log Z_i - \sum_j p_{ij} s_{ij}, \qquad Z_i = \sum_j e^{s_{ij}}

    Masked keys (minus infinity) count nothing. ``log i`` where ``i`` keys are equal, 0 where one has all. Raises for
    scores of which no softmax can be taken: nan, plus infinity, a row without any key that it may see.

    >>> entropy_of_scores(torch.zeros(1, 1, 4)).exp().round(decimals=3)
    tensor([[4.]])
    """
    _check_scores(scores)
    # The entropy doesn't change with a constant; counted from the largest score, large scores don't cancel.
    below = scores - scores.detach().amax(-1, keepdim=True)
    p = below.softmax(-1)
    return below.logsumexp(-1) - (p * below.masked_fill(p == 0, 0)).sum(-1)


def _check_scores(scores: Float[Tensor, "*any key"]) -> None:
    """Raise for scores with a row that has no softmax."""
    if (scores.isnan() | (scores == math.inf)).any():
        raise ValueError("scores hold nan or plus infinity; only minus infinity is allowed, for masked keys")
    if (scores == -math.inf).all(-1).any():
        raise ValueError("scores must leave at least one key to every row, got a row with none")


@checked
def count_visible_keys(scores: Scores) -> Float[Tensor, "*batch head query"]:
    """Count the keys that each row may see (those not at minus infinity); raises for nan."""
    if scores.isnan().any():
        raise ValueError("scores hold nan: such a key is neither visible nor masked")
    return torch.isfinite(scores).sum(-1).to(scores.dtype)


@checked(mixed=True)
def entropy_at(
    scores: Scores, inverse_temperatures: Float[Tensor, " temperature"]
) -> Float[Tensor, "temperature *batch head query"]:
    r"""Multiply the scores by each inverse temperature ``t`` and return the rows' entropies.

    ``log i`` at 0, where a row may see ``i`` keys, falling as ``t`` grows:

    .. math::  \frac{dH}{dt} = -t\, \mathrm{Var}_{p_t}(s)

    Raises
    ------
    ValueError
        If a ``t`` is negative or not finite, there is none, or the scores are not those of a softmax.

    Notes
    -----
    Scaling ``W_Q`` and ``b_Q`` of the layer by ``t`` does the same (the terms with ``b_K`` are constant in a row).

    Examples
    --------
    >>> entropy_at(torch.tensor([[[0.0, 30.0]]]),
    ...            torch.tensor([0.0, 1.0])).exp().flatten().round(decimals=3)
    tensor([2., 1.])
    """
    _check_scores(scores)
    if not (torch.isfinite(inverse_temperatures).all() and (inverse_temperatures >= 0).all()):
        raise ValueError(f"inverse_temperatures must be finite and not negative, got {inverse_temperatures.tolist()}")
    masked = torch.isinf(scores)
    bare = scores.masked_fill(masked, 0)
    return torch.stack([entropy_of_scores((t * bare).masked_fill(masked, -math.inf)) for t in inverse_temperatures])


def row_entropy(attention: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query"]:
    r"""Return each row's entropy :math:`-\sum_k s_k \ln s_k` in nats, with :math:`0 \ln 0 = 0`.

    Raises
    ------
    TypeError, ValueError
        If the rows are not finite floating numbers that sum to 1, none of them negative.

    Examples
    --------
    >>> row_entropy(torch.tensor([[0.5, 0.5]])).exp().round(decimals=3)
    tensor([2.])
    """
    check_distributions("attention", attention, "query", "key")
    return torch.special.entr(attention).sum(-1)


@checked(finite=True)
def kullback_leibler(p: Float[Tensor, "*any key"], q: Float[Tensor, "*any key"]) -> Float[Tensor, "*any"]:
    r"""Return :math:`KL(p \,\|\, q) = \sum_k p_k \ln(p_k / q_k)` of each row, in nats, with :math:`0 \ln 0 = 0`.

    Infinite where ``q`` is 0 and ``p`` is not. The divergence of a row from uniform attention, taken from its scores,
    is :func:`analysis.maps.attribution.divergence`.

    Examples
    --------
    >>> kullback_leibler(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])).exp()
    tensor(2.)
    """
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)  # p / q may be too large for the dtype
