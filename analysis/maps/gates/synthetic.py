"""Attention maps with known truth, to measure the gate reader on: gates of random place and strength over noise.

A specimen is a sum of gates, each with its own weight in each row, over rows of noise. The reader's constants were
chosen on ``TUNING``; what a page reports is measured on ``HELD_OUT``: other noise, other sizes, several gates at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.maps.gates.reader import GATES, PATTERNS, read_gates

TUNING = ("flat", "lognormal", "dirichlet", "heavy", "spikes")
HELD_OUT = ("ragged", "popular", "smooth", "low rank", "patchy")


@dataclass(frozen=True)
class Specimen:
    """A map and the share of attention that each gate has, in the order of ``GATES`` (noise under ``closed``)."""

    attention: Float[np.ndarray, "query key"]
    truth: Float[np.ndarray, " gate"]


def draw_noise(kind: str, n: int, rng: np.random.Generator) -> Float[np.ndarray, "query key"]:
    """Draw rows of noise that sum to 1.

    ``flat``: uniform. ``lognormal``: independent, spread 0.2 to 1. ``heavy``: log weights with Student's t (3 degrees).
    ``dirichlet``: Dirichlet(0.5) rows, near zero in most cells. ``popular``: lognormal, times a lognormal factor for
    each key, so that weak columns are there. ``smooth``: lognormal with neighbours correlated over 3 cells.
    ``ragged``: gamma weights whose shape differs from row to row (0.3 to 5).
    ``spikes``: uniform with a few random cells that take 30 % of each row. ``low rank``: softmax of scores of random
    queries and keys of 8 channels. ``patchy``: lognormal, but a fifth of the cells, anywhere, are eight times as large.

    >>> draw_noise("flat", 2, np.random.default_rng(0))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> spikes = draw_noise("spikes", 16, np.random.default_rng(0))
    >>> bool(np.allclose(16 * spikes.min(1), 0.7))
    True
    """
    normal = rng.standard_normal((n, n))
    if kind == "flat":
        weights = np.ones((n, n))
    elif kind == "lognormal":
        weights = np.exp(rng.uniform(0.2, 1.0) * normal)
    elif kind == "heavy":
        weights = np.exp(0.4 * rng.standard_t(3, (n, n)).clip(-20, 8))
    elif kind == "dirichlet":
        weights = rng.gamma(0.5, size=(n, n)) + 1e-12
    elif kind == "ragged":
        weights = rng.gamma(rng.uniform(0.3, 5, size=(n, 1)), size=(n, n)) + 1e-12
    elif kind == "popular":
        weights = np.exp(0.5 * normal + 0.3 * rng.standard_normal(n))
    elif kind == "smooth":
        padded = np.pad(normal, 1, mode="wrap")
        mean = sum(padded[i : i + n, j : j + n] for i in range(3) for j in range(3)) / 3
        weights = np.exp(0.5 * mean)
    elif kind == "spikes":
        spikes = (rng.random((n, n)) < 3 / n) * rng.random((n, n))
        total = spikes.sum(1, keepdims=True)
        weights = 0.7 / n + 0.3 * np.divide(spikes, total, out=np.full((n, n), 1 / n), where=total > 0)
    elif kind == "low rank":
        weights = np.exp(0.7 * rng.standard_normal((n, 8)) @ rng.standard_normal((8, n)) / 8**0.5)
    elif kind == "patchy":
        weights = np.exp(0.3 * normal) * np.where(rng.random((n, n)) < 0.2, 8, 1)
    else:
        raise ValueError(f"kind must be one of {TUNING + HELD_OUT}, got {kind!r}")
    return weights / weights.sum(1, keepdims=True)


def place(gate: str, n: int, rng: np.random.Generator) -> Float[np.ndarray, "query key"]:
    """Place one gate at random: rows that sum to 1 where it is, and to 0 where it is not.

    Lines run through the map or (3 in 10) over a stretch of at least a third of it. Columns are (3 in 10) several side
    by side, up to an eighth of the map, from end to end. Clusters are from a tenth (and 5 cells) to half of the map
    wide, and up to four fifths of it high.
    """
    rows = np.arange(n)
    shape = np.zeros((n, n))
    # A band of columns; or a line, over a stretch or from end to end; or one of the gates without lines.
    if gate == "directional" and rng.random() < 0.3:
        wide = int(rng.integers(2, max(3, n // 8) + 1))
        k = int(rng.integers(0, n - wide + 1))
        shape[:, k : k + wide] = 1 / wide
    elif gate in ("directional", "open", "backward", "forward"):
        if rng.random() < 0.3:
            length = int(rng.integers(max(6, n // 3), n + 1))
            start = int(rng.integers(0, n - length + 1))
            rows = rows[start : start + length]
        offset = int(rng.integers(1, max(2, min(9, n // 8))))
        keys = {
            "directional": np.full(len(rows), rng.integers(n)),
            "open": rows,
            "backward": rows - offset,
            "forward": rows + offset,
        }[gate]
        inside = (keys >= 0) & (keys < n)
        shape[rows[inside], keys[inside]] = 1
    elif gate == "cluster":
        high = rng.integers(max(5, n // 10), n * 4 // 5 + 1)
        wide = rng.integers(max(5, n // 10), n // 2 + 1)
        q, k = rng.integers(0, n - high + 1), rng.integers(0, n - wide + 1)
        shape[q : q + high, k : k + wide] = 1 / wide
    elif gate == "instance":
        for q in rng.choice(n, size=rng.integers(1, max(2, n // 16) + 1), replace=False):
            shape[q, rng.integers(n)] = 1
    elif gate == "inverse directional":
        count = rng.integers(3, 7)
        shape[rng.integers(n), rng.choice(n, size=count, replace=False)] = 1 / count
    else:
        raise ValueError(f"gate must be one of {PATTERNS}, got {gate!r}")
    return shape


def draw(n: int, gates: Sequence[str], noise: str, rng: np.random.Generator, *, causal: bool = False) -> Specimen:
    """Draw a specimen: gates of random place, strength 0.3 to 0.9 (shared where several), varying by row, over noise.

    With ``causal``, what a query may not see is cut off, of gates and of noise; little or nothing of a gate may then
    be left, as the truth tells. The first row, which sees one key, does not count.

    Raises
    ------
    ValueError
        If a gate or a noise is unknown, or ``n`` is below 16.

    Examples
    --------
    >>> specimen = draw(16, ["open"], "flat", np.random.default_rng(0))
    >>> bool(np.allclose(specimen.attention.sum(1),
    ...                  1)), round(specimen.truth.sum().item(), 6)
    (True, 1.0)
    """
    if n < 16:
        raise ValueError(f"n must be at least 16, got {n}")
    attention, truth, first = np.zeros((n, n)), np.zeros(len(GATES)), int(causal)
    strength = rng.uniform(0.3, 0.9)
    shares = strength * rng.dirichlet(np.full(max(len(gates), 1), 3.0))
    for gate, share in zip(gates, shares, strict=False):
        part = place(gate, n, rng) * share * rng.beta(8, 2, size=(n, 1)) / 0.8
        part = np.tril(part) if causal else part
        attention += part
        truth[GATES.index(gate)] += part[first:].sum() / (n - first)
    over = np.maximum(attention.sum(1, keepdims=True), 1)
    attention, rest = attention / over, 1 - attention.sum(1, keepdims=True) / over
    truth[GATES.index("closed")] = rest[first:].mean()
    truth[:7] *= (1 - truth[7]) / max(truth[:7].sum(), 1e-12)
    weights = draw_noise(noise, n, rng)
    if causal:
        weights = np.tril(weights) / np.tril(weights).sum(1, keepdims=True)
    return Specimen(attention + rest * weights, truth)


def read_specimens(specimens: Sequence[Specimen], *, causal: bool = False, device: torch.device | str = "cpu"):
    """Read specimens, those of one size at once; yields (specimen, scores, name) in no particular order."""
    for n in sorted({len(s.attention) for s in specimens}):
        group = [s for s in specimens if len(s.attention) == n]
        reading = read_gates(torch.as_tensor(np.stack([s.attention for s in group])).to(device), causal=causal)
        yield from zip(group, reading.scores.cpu().numpy(), reading.names(), strict=True)
