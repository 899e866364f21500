"""The golden values of one attention layer: plain numpy in float64, written down here and nowhere else.

Nothing of the libraries under test is imported. Names of axes: ``h`` heads, ``g`` groups of keys, ``i`` queries, ``j``
keys, ``m`` the width of the rows that the layer reads, ``c`` channels.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Norm:
    """A LayerNorm (``centred``) or an RMSNorm; ``gain`` is what the normalised row is multiplied by."""

    gain: np.ndarray
    bias: np.ndarray
    eps: float
    centred: bool

    def of(self, rows: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Divide rows by the size of others, and multiply by the gain: linear in the rows."""
        if self.centred:
            rows, by = (each - each.mean(-1, keepdims=True) for each in (rows, by))
        return rows / np.sqrt((by**2).mean(-1, keepdims=True) + self.eps) * self.gain


@dataclass
class Rotation:
    """Turn the first ``2 * len(frequencies)`` channels; a pair is ``f, f + r/2``, or two neighbours."""

    frequencies: np.ndarray
    neighbours: bool = False

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Turn rows ``(h, i, c)``, each by its place."""
        pairs = len(self.frequencies)
        angle = np.arange(rows.shape[-2])[:, None] * self.frequencies
        first = slice(0, 2 * pairs, 2) if self.neighbours else slice(0, pairs)
        second = slice(1, 2 * pairs, 2) if self.neighbours else slice(pairs, 2 * pairs)
        turned = rows.copy()
        turned[..., first] = rows[..., first] * np.cos(angle) - rows[..., second] * np.sin(angle)
        turned[..., second] = rows[..., second] * np.cos(angle) + rows[..., first] * np.sin(angle)
        return turned


@dataclass
class Disentangled:
    """DeBERTa's rows for each distance: ``keys`` meet queries, ``queries`` meet keys, both ``(h, row, c)``."""

    keys: np.ndarray
    queries: np.ndarray
    buckets: int
    longest: int

    def added(self, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return what is added to the scores ``(h, i, j)``, before the scale."""
        place = np.arange(queries.shape[1])
        row = log_buckets(place[:, None] - place, self.buckets, self.longest) + self.buckets
        to_position = np.einsum("hic,hrc->hir", queries, self.keys)
        from_position = np.einsum("hjc,hrc->hjr", keys, self.queries)
        back = np.take_along_axis(from_position, np.broadcast_to(row.T, from_position.shape[:1] + row.shape), 2)
        return np.take_along_axis(to_position, np.broadcast_to(row, back.shape), 2) + back.transpose(0, 2, 1)


@dataclass
class Layer:
    """One attention layer. ``added`` is what positions add to scores ``(h, i, j)``; ``seen`` is ``(i, j)``."""

    W_Q: np.ndarray
    b_Q: np.ndarray
    W_K: np.ndarray
    b_K: np.ndarray
    W_V: np.ndarray
    b_V: np.ndarray
    W_O: np.ndarray
    b_O: np.ndarray
    scale: float
    seen: np.ndarray
    rotation: Rotation | None = None
    added: np.ndarray | Disentangled | None = None
    norm: Norm | None = None
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    whole_norm: bool = False
    sinks: np.ndarray | None = None
    cap: float | None = None
    value_bias: bool = True
    position_rows: np.ndarray | None = None


def alibi(heads: int, n: int) -> np.ndarray:
    """Return ``-slope * (i - j)``, slopes ``2^(-8/h), 2^(-16/h), ...`` for ``h`` a power of 2 (Press et al., 2022)."""
    slopes = 2.0 ** (-8 / heads * np.arange(1, heads + 1))
    place = np.arange(n)
    return -slopes[:, None, None] * (place[:, None] - place)


def t5_buckets(n: int, buckets: int, longest: int, two_sided: bool) -> np.ndarray:
    """Return T5's bucket of each query and key: one for each small distance, then ever wider ones (Raffel, 2020)."""
    place = np.arange(n)
    ahead = place - place[:, None]
    start = np.zeros_like(ahead)
    if two_sided:
        buckets //= 2
        start = (ahead > 0) * buckets
    far = np.abs(ahead) if two_sided else np.maximum(-ahead, 0)
    exact = buckets // 2
    wide = exact + np.floor(np.log(np.maximum(far, 1) / exact) / np.log(longest / exact) * (buckets - exact) + 1e-9)
    return start + np.where(far < exact, far, np.minimum(wide, buckets - 1)).astype(int)


def log_buckets(distance: np.ndarray, buckets: int, longest: int) -> np.ndarray:
    """Return DeBERTa's signed bucket of each distance: itself up to half the buckets, then logarithmic (He, 2021)."""
    half = buckets // 2
    far = np.abs(distance)
    wide = np.ceil(np.log(np.maximum(far, half) / half) / math.log((longest - 1) / half) * (half - 1) - 1e-9) + half
    return np.where(far <= half, distance, np.sign(distance) * wide).astype(int)


def project(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return ``x W`` for each head, ``(h, i, c)``."""
    return np.einsum("im,hmc->hic", x, W)


def arrange(rows: np.ndarray, whole: np.ndarray, layer: Layer, norm: Norm | None) -> np.ndarray:
    """Normalise and turn rows that are a part of whole queries or keys, divided by the whole's own size."""
    rows = np.broadcast_to(rows, whole.shape)
    if norm and layer.whole_norm:
        side_by_side = [each.transpose(1, 0, 2).reshape(each.shape[1], -1) for each in (rows, whole)]
        rows = norm.of(*side_by_side).reshape(whole.shape[1], whole.shape[0], -1).transpose(1, 0, 2)
    elif norm:
        rows = norm.of(rows, whole)
    return layer.rotation.of(rows) if layer.rotation else rows


def parts(x: np.ndarray, layer: Layer) -> dict[str, np.ndarray]:
    """Multiply queries of three parts with keys of two, the queries counted from the mean of the rows."""
    heads, n = len(layer.W_Q), len(x)
    origin, repeat = x.mean(0, keepdims=True), heads // len(layer.W_K)
    bias_Q, bias_K = layer.b_Q[:, None], layer.b_K[:, None]
    whole_Q, whole_K = project(x, layer.W_Q) + bias_Q, project(x, layer.W_K) + bias_K
    own, about, bias = (
        arrange(each, whole_Q, layer, layer.query_norm)
        for each in (project(x - origin, layer.W_Q), project(origin, layer.W_Q), bias_Q)
    )
    keys, bias_key = (arrange(e, whole_K, layer, layer.key_norm) for e in (project(x, layer.W_K), bias_K))
    by_head, bias_by_head = keys.repeat(repeat, 0), bias_key.repeat(repeat, 0)

    def meet(queries, met):
        return layer.scale * np.einsum("hic,hjc->hij", queries, met)

    found = {
        "queries": own + about + bias,
        "keys": keys + bias_key,
        "content": meet(own, by_head),
        "common": meet(about, by_head),
        "semi_bias": meet(bias, by_head),
        "query_side": meet(own + about, bias_by_head),
        "kernel": meet(bias, bias_by_head),
    }
    if layer.added is not None:
        added = layer.added
        if isinstance(added, Disentangled):
            added = layer.scale * added.added(found["queries"], by_head + bias_by_head)
        found["positions"] = np.broadcast_to(added, (heads, n, n))
    return found


PARTS = "content", "common", "semi_bias", "query_side", "kernel", "positions"


def attend(x: np.ndarray, layer: Layer) -> dict[str, np.ndarray]:
    """Return all golden values of a layer that reads the rows ``x``; scores that no query sees are 0."""
    found = parts(x, layer)
    scores = sum(found[name] for name in PARTS if name in found)
    if layer.cap:
        scores = layer.cap * np.tanh(scores / layer.cap)
    exponents = np.where(layer.seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    total = exponents.sum(-1, keepdims=True)
    if layer.sinks is not None:
        total = total + np.exp(layer.sinks[:, None, None] - scores.max(-1, keepdims=True))
    attention = exponents / total
    values = (project(x, layer.W_V) + layer.b_V[:, None]).repeat(len(layer.W_Q) // len(layer.W_V), 0)
    weighted = attention @ values
    output = np.einsum("hic,hcm->im", weighted, layer.W_O) + layer.b_O
    seen = np.broadcast_to(layer.seen, scores.shape)
    found |= {"x": x, "scores": np.where(seen, scores, 0), "attention": attention}
    return found | {"weighted_values": weighted, "output": output} | folds(layer)


def folds(layer: Layer) -> dict[str, np.ndarray]:
    """Return the weights into which the value bias and the norm fold, and what positions alone make of the semi-bias.

    A value bias folds where rows of attention sum to 1, so not beside sinks.
    """
    found, maps, biases = {}, [layer.W_Q, layer.W_K, layer.W_V], [layer.b_Q, layer.b_K, layer.b_V]
    if layer.value_bias and layer.sinks is None:
        by_head = layer.b_V.repeat(len(layer.W_Q) // len(layer.W_V), 0)
        found["folded_b_O"] = layer.b_O + np.einsum("hc,hcm->m", by_head, layer.W_O)
    if layer.norm:
        biases = [b + np.einsum("m,hmc->hc", layer.norm.bias, W) for W, b in zip(maps, biases, strict=True)]
        maps = [layer.norm.gain[:, None] * W for W in maps]
        maps = [W - W.mean(1, keepdims=True) if layer.norm.centred else W for W in maps]
        found |= {"folded_W": np.concatenate(maps), "folded_b": np.concatenate(biases)}
    if layer.position_rows is not None:
        keys = project(layer.position_rows, maps[1]).repeat(len(maps[0]) // len(maps[1]), 0)
        found["position_rows"] = layer.position_rows
        found["semi_bias_by_position"] = layer.scale * np.einsum("hc,hjc->hj", biases[0], keys)
    return found
