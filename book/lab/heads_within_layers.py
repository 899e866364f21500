"""Rank correlations of two numbers of every head, within each layer and over all heads, held against chance.

Two numbers of the heads of a deep network often go together because both change with the layer. Renumbering the heads
within their layers destroys every link of a head with its own number and leaves what the layers share.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata, spearmanr
from scipy.stats import t as student

from analysis.statistics.intervals import Interval

DRAWS = 4000  # renumberings of the heads of each layer, the same in all texts


class Links(NamedTuple):
    """Spearman's correlations over heads, text by text, and what renumbered heads give.

    ``value`` is the mean of ``within``, and ``chance_of_value`` the share of renumberings that bring it as far from 0.
    ``chance`` is the share of renumberings that bring the mean over texts as far from 0 in that layer. ``corrected`` is
    the share in which *any* layer comes as far, counted in standard deviations of its renumberings, which is what
    looking at all layers asks for; in 95 % of the renumberings no layer is further from 0 than ``widest``.
    ``shuffled`` is the mean correlation over all heads, and where 95 % of it lies, when heads are renumbered within
    layers: what remains there is the layers'.
    """

    within: Float[np.ndarray, "text layer"]
    over_all: Float[np.ndarray, " text"]
    chance: Float[np.ndarray, " layer"]
    corrected: Float[np.ndarray, " layer"]
    widest: Float[np.ndarray, " layer"]
    shuffled: Interval
    value: float
    chance_of_value: float


def link_heads(first: Float[np.ndarray, "text layer head"], second: Float[np.ndarray, "text layer head"]) -> Links:
    """Correlate two numbers of each head in each text.

    In the example both numbers grow with the layer, and within layers they run against each other.

    >>> first = 10.0 * np.arange(3)[:, None] + np.arange(5) + np.zeros((4, 1, 1))
    >>> found = link_heads(first, first[..., ::-1])
    >>> found.within.mean(0).round(6).tolist(), found.over_all.round(2).tolist()
    ([-1.0, -1.0, -1.0], [0.79, 0.79, 0.79, 0.79])
    >>> bool(found.shuffled.low > 0.8)
    True
    """
    texts, layers, heads = first.shape
    order = np.random.default_rng(0).permuted(np.tile(np.arange(heads), (DRAWS, layers, 1)), axis=-1)
    own, other = (_standardise(rankdata(values, axis=-1)) for values in (first, second))
    within = (own * other).mean(-1)
    # Of every two heads of a layer the product, mean over texts; a renumbering picks one of them for each head
    products = np.einsum("tli,tlj->lij", own, other) / (texts * heads)
    picked, value = _pick(products, order), abs(within.mean(0)) - 1e-9
    drawn = abs(picked)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.sqrt((drawn**2).mean(0))
        furthest, reached = (drawn / deviation).max(1), value / deviation
    pooled = [_standardise(rankdata(values.reshape(texts, -1), axis=-1)) for values in (first, second)]
    own, other = (ranks.reshape(first.shape) for ranks in pooled)
    shuffled = _pick(np.einsum("tli,tlj->lij", own, other) / first.size, order).sum(1)
    return Links(
        within=within,
        over_all=(pooled[0] * pooled[1]).mean(-1),
        chance=(drawn >= value).mean(0),
        corrected=(furthest[:, None] >= reached).mean(0),
        widest=np.quantile(furthest, 0.95) * deviation,
        shuffled=Interval(float(shuffled.mean()), *map(float, np.quantile(shuffled, [0.025, 0.975]))),
        value=float(within.mean()),
        chance_of_value=float((abs(picked.mean(1)) >= abs(within.mean()) - 1e-9).mean()),
    )


def leave_out_layers(first: Float[np.ndarray, "layer head"], second: Float[np.ndarray, "layer head"]) -> Interval:
    """Return Spearman's correlation over all heads, with its interval from leaving out one layer after another.

    Heads of one layer are not independent of each other, so the unit is the layer: the jackknife's standard error with
    Student's factor. Layers are few, and the interval is rough.

    >>> round(leave_out_layers(np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)).low, 6)
    1.0
    """
    layers = len(first)
    less = [spearmanr(*(np.delete(values, at, 0).ravel() for values in (first, second))) for at in range(layers)]
    error = np.sqrt((layers - 1) * np.var([each.statistic for each in less]))
    value = spearmanr(first.ravel(), second.ravel()).statistic
    reach = student.ppf(0.975, layers - 1) * error
    return Interval(float(value), float(max(value - reach, -1)), float(min(value + reach, 1)))


def _pick(products: Float[np.ndarray, "layer head head"], order: np.ndarray) -> Float[np.ndarray, "draw layer"]:
    """Add up the products of each head with the one that a renumbering puts in its place."""
    layers, heads = np.indices(order.shape[1:])
    return products[layers[None], order, heads[None]].sum(-1)


def _standardise(ranks: np.ndarray) -> np.ndarray:
    """Shift and scale ranks to mean 0 and variance 1 along the last axis; nan where all are tied."""
    with np.errstate(invalid="ignore"):
        return (ranks - ranks.mean(-1, keepdims=True)) / ranks.std(-1, keepdims=True)
