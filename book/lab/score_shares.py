"""Divergence from even attention, split over the parts of the score: about an origin, or over tokens and positions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.terms import score_terms, six_terms
from analysis.maps import attribution

PARTS = ("content", "common", "semi-bias")  # what reaches the attention; the parts of a split begin with these
SIX = ("ee", "ep", "pe", "pp", "e", "p")  # of a layer that reads tokens and positions
ROWS = 64  # of a long text that are split


class Split(NamedTuple):
    """A layer's divergence from even attention, mean over rows and texts, in nats.

    ``parts (head, part)`` are about the mean input, ``from_zero`` about 0, ``by_text (text, head, part)`` are the
    former text by text. ``gap`` is how far the parts of a row are from its divergence at most.
    """

    divergence: Float[np.ndarray, " head"]
    parts: Float[np.ndarray, "head part"]
    from_zero: Float[np.ndarray, "head part"]
    by_text: Float[np.ndarray, "text head part"]
    gap: float


def choose_rows(x: Tensor) -> Int[Tensor, " row"]:
    """Choose the rows of a text that are split: all but the first, or evenly spread ones of a long text."""
    length = len(x)
    rows = torch.arange(1, length) if length <= ROWS + 1 else torch.linspace(1, length - 1, ROWS).round().long()
    return rows.to(x.device)  # rounded on the CPU: the same rows everywhere


def visible(queries: Int[Tensor, " row"], keys: int, causal: bool) -> Bool[Tensor, "row key"]:
    """Return which keys the given queries see."""
    if causal:
        return torch.arange(keys, device=queries.device) <= queries[:, None]
    return torch.ones(len(queries), keys, dtype=torch.bool, device=queries.device)


def mean_input(xs: Sequence[Tensor]) -> Float[Tensor, " model"]:
    """Return the mean of a layer's inputs over all positions of all texts, the origin of the common part."""
    return torch.cat(list(xs)).mean(0)


def split_layer(xs: Sequence[Tensor], layer: AttentionLayer, causal: bool, *, first: bool = True) -> Split:
    """Split one layer's divergence on several texts, of the attention to all keys or to all but the first."""
    origin, found = mean_input(xs), []
    for x in xs:
        rows = choose_rows(x)
        parts = score_terms(x, layer, origin, x[rows]).stack()
        seen = visible(rows, len(x), causal)
        seen[:, 0] &= first
        split = attribution.attribute_divergence(parts, seen)
        found.append((split.divergence.mean(-1), split.parts.mean(-1), split.gap))
    by_text = torch.stack([parts for _, parts, _ in found])
    whole, parts = torch.stack([divergence for divergence, *_ in found]).mean(0), by_text.mean(0)
    zero = torch.stack([parts[0] + parts[1], *parts[2:]])  # counted from 0 the common part is in the content
    return Split(*(t.cpu().numpy() for t in (whole, parts.T, zero.T, by_text.mT)), max(gap for *_, gap in found))


def split_six(
    e: Float[Tensor, "position model"], p: Float[Tensor, "position model"], layer: AttentionLayer, norm, causal: bool
) -> Float[Tensor, "head term"]:
    """Split the divergence of a layer that reads ``LN(e + p)`` over its terms, in the order of ``SIX``."""
    terms, rows = six_terms(e, p, layer, norm), choose_rows(e)
    parts = [getattr(terms, name) for name in SIX[:4]]
    parts += [getattr(terms, name)[:, None].expand_as(parts[0]) for name in SIX[4:]]
    split = attribution.attribute_divergence(torch.stack(parts)[:, :, rows], visible(rows, len(e), causal))
    return split.parts.mean(-1).T
