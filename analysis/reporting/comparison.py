"""What is unusual about a model: where it lies further from all of its controls than chance would put it.

A model that was never trained is one more draw of what its controls are draws of, so that nothing should be said of it.
Each quantity of a layer, and the most that any head does of each pattern, is therefore compared with every control
level of the ladder, in units of the spread between its seeds. One level holds for the whole page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import t as student

from analysis.maps.gates import GATES, PATTERNS
from analysis.models.controls import LEVELS as CONTROLS
from analysis.reporting.measurement import Measurement
from analysis.reporting.observations import OF_HEADS, OF_REPEATS, OF_STATES, Observations

LEVEL = 0.05
"""Expected number of false positives per report."""
FEWEST = 3
"""Seeds of a control level below which nothing is compared: two say next to nothing of a spread."""
LEAST = 0.05
"""Minimum effect size, from 0 to 1: smaller excesses over all controls are not reported, however significant."""
LEAST_NATS = 0.25
FLOOR = 1e-3
"""A spread is counted as no smaller than this share of the least effect: rounding is not a measure of anything."""
FARTHEST = 999
SHOWN = 10
"""How many heads are shown at most."""
OF_ONE_KIND = 3
"""How many of them at most for one and the same reason."""
GATES_IN_WORDS = {
    "directional": "attention of every query to the same keys",
    "open": "attention of each query to itself",
    "backward": "attention a fixed distance back",
    "forward": "attention a fixed distance ahead",
    "cluster": "attention of a block of queries to a block of keys",
    "instance": "attention of single queries to single keys",
    "inverse directional": "attention of one query to several keys",
}
HEADS = {
    "sharpness": "sharp rows (1 - relative entropy)",
    "sink": "weight on one key (the attention sink)",
    "sink with values": "weight times value on one key",
    "previous": "attention to the position before",
    "next": "attention to the position after",
    "itself": "attention to its own position",
    "induction": "induction: attention to what followed the same token",
    "duplicate": "attention to the same token's earlier place",
    "previous on random tokens": "attention to the position before, on random tokens",
    **{gate: f"{GATES_IN_WORDS[gate]} (the gate '{gate}')" for gate in PATTERNS},
}
"""What heads are compared by, each from 0 to 1, more being more of a pattern."""


class Quantity(NamedTuple):
    """Something that every layer has: what a sentence calls it, how it is read, and the least effect of interest."""

    words: str
    read: Callable[[Observations], Float[np.ndarray, " layer"]]
    least: float = LEAST
    unit: str = ""


def _of_heads(name: str) -> Callable[[Observations], np.ndarray]:
    return lambda observed: observed.mean("heads")[..., OF_HEADS.index(name)].mean(-1)


def _of_states(name: str) -> Callable[[Observations], np.ndarray]:
    return lambda observed: observed.mean("states")[:, OF_STATES.index(name)]


LAYERS = {
    "gates": Quantity(
        "the share of the attention in gates (columns, lines and blocks of a map)",
        lambda o: o.mean("gates")[..., : len(PATTERNS)].sum(-1).mean(-1),
    ),
    "sink": Quantity("the weight of the key that gets most", _of_heads("sink")),
    "sink with values": Quantity("the weight times value of the key that gets most", _of_heads("sink with values")),
    "entropy": Quantity("the entropy of a row, as a share of that of uniform attention,", _of_heads("entropy")),
    "cosine": Quantity("the mean cosine of two rows of the stream", _of_states("cosine")),
    "not normal": Quantity(
        "the share of the stream's rows that are not normally distributed", _of_states("not normal")
    ),
    "rank": Quantity("the effective rank of the stream", _of_states("rank")),
    "residual": Quantity("the distance of the stream's rows from all being one", _of_states("residual")),
    "distances": Quantity("what distance adds to the score of the mean input", lambda o: o.ranges, LEAST_NATS, "nats"),
}


@dataclass(frozen=True)
class Comparison:
    """One quantity of a model and of its controls, place by place.

    Attributes
    ----------
    spreads
        How far the nearest control level's mean is, in units of the spread that another seed would show: positive where
        the model has more than every level, negative where it has less, 0 where levels lie on both sides.
    beyond
        By how much the model exceeds all controls, on either side; negative within what they span.
    """

    trained: Float[np.ndarray, " place"]
    controls: Mapping[str, Float[np.ndarray, "seed place"]]
    spreads: Float[np.ndarray, " place"]
    beyond: Float[np.ndarray, " place"]
    least: float
    line: float
    """How many spreads are beyond chance."""
    expected: float
    """How many places chance puts beyond the line, on average."""

    @property
    def outside(self) -> Bool[np.ndarray, " place"]:
        """Where the model is beyond the line, by no less than the least effect."""
        return (np.abs(self.spreads) > self.line) & (self.beyond > self.least)


class UnusualHead(NamedTuple):
    """A head, what it does most, how much of it, and the most that any head of a control does of it."""

    layer: int
    head: int
    reason: str
    value: float
    control: float
    spreads: float

    @property
    def lead(self) -> float:
        """By how much it is ahead of all heads of controls."""
        return self.value - self.control


@dataclass(frozen=True)
class Comparisons:
    """Everything that a model was compared in: ``layers`` by name; ``heads``, whose places are :data:`HEADS`."""

    layers: Mapping[str, Comparison]
    heads: Comparison
    count: int
    """How many comparisons there were, over layers and measures of heads."""
    candidates: Sequence[UnusualHead]
    """All heads that do more of something than controls do, the most first; a head once for each thing."""

    @property
    def shown(self) -> list[UnusualHead]:
        """Return the heads whose maps are shown: each once, and few for one reason."""
        chosen: list[UnusualHead] = []
        for candidate in self.candidates:
            known = any((c.layer, c.head) == (candidate.layer, candidate.head) for c in chosen)
            if not known and sum(c.reason == candidate.reason for c in chosen) < OF_ONE_KIND:
                chosen.append(candidate)
        return chosen[:SHOWN]


def spreads_away(
    trained: Float[np.ndarray, " place"], controls: Mapping[str, Float[np.ndarray, "seed _"]], floor: float
) -> Float[np.ndarray, " place"]:
    """Return how far a model is from the nearest control level of its controls, in spreads (`Comparison.spreads`).

    Where the model is one more draw, this is Student's t of as many degrees of freedom as seeds less one. No spread is
    taken for less than ``floor``.

    Examples
    --------
    >>> level = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> away = spreads_away(np.array([9.0, 1.5]), {"a": level, "b": level + 1}, 1e-9)
    >>> away.round(3).tolist()
    [6.062, 0.0]
    """
    each = []
    for seeds in controls.values():
        spread = np.std(seeds, axis=0, ddof=1) * np.sqrt(1 + 1 / len(seeds))
        each.append((trained - np.mean(seeds, axis=0)) / np.maximum(spread, floor))
    distances = np.stack(each)
    sides = np.sign(distances)
    agree = (sides == sides[0]).all(0)
    return np.where(agree, sides[0] * np.abs(distances).min(0).clip(max=FARTHEST), 0.0)


def ladder_of(controls: Mapping[str, Sequence[Observations]], read) -> dict[str, np.ndarray]:
    """Return one number of every control, ``(seed, layer)`` by control level, in the order of the ladder."""
    return {level: np.stack([read(seen) for seen in controls[level]]) for level in CONTROLS if level in controls}


def measure_heads(observed: Observations) -> dict[str, Float[np.ndarray, "layer head"]]:
    """Return what heads are compared by, in the order of :data:`HEADS`."""
    heads, gates = observed.mean("heads"), observed.mean("gates")
    found = {name: heads[..., i] for i, name in enumerate(OF_HEADS)}
    found |= {name: observed.repeats[..., i] for i, name in enumerate(OF_REPEATS)}
    found |= {gate: gates[..., GATES.index(gate)] for gate in PATTERNS}
    found["sharpness"] = 1 - found["entropy"]
    return {name: found[name] for name in HEADS}


def compare(measured: Measurement) -> Comparisons | None:
    """Compare a model with its controls; nothing if it was not run or a control level has under 3 seeds."""
    if measured.beside is None or min(map(len, measured.controls.values()), default=0) < FEWEST:
        return None

    def most(observed: Observations) -> np.ndarray:
        return np.array([values.max() for values in measure_heads(observed).values()])

    quantities = {name: quantity for name, quantity in LAYERS.items() if quantity.read(measured.beside).any()}
    seeds = len(next(iter(measured.controls.values())))
    count = len(HEADS) + sum(len(quantity.read(measured.beside)) for quantity in quantities.values())
    line = float(student.isf(LEVEL / (2 * count), seeds - 1))

    def one(quantity: Quantity) -> Comparison:
        trained, controls = quantity.read(measured.beside), ladder_of(measured.controls, quantity.read)
        every = np.concatenate(list(controls.values()))
        return Comparison(
            trained,
            controls,
            spreads_away(trained, controls, FLOOR * quantity.least),
            np.maximum(trained - every.max(0), every.min(0) - trained),
            quantity.least,
            line,
            LEVEL * len(trained) / count,
        )

    heads = one(Quantity("", most))
    return Comparisons({name: one(q) for name, q in quantities.items()}, heads, count, _find_heads(measured, heads))


def _find_heads(measured: Measurement, heads: Comparison) -> list[UnusualHead]:
    """Return the heads that do more of something than controls do, the most first."""
    candidates = []
    for place, (name, values) in enumerate(measure_heads(measured.beside).items()):
        seeds = {level: of[:, place : place + 1] for level, of in heads.controls.items()}
        most = max(of.max() for of in seeds.values())
        away = spreads_away(values.ravel(), seeds, FLOOR * heads.least).reshape(values.shape)
        candidates += [
            UnusualHead(*where, name, float(value), float(most), float(away[where]))
            for where, value in np.ndenumerate(values)
            if value > most + heads.least and away[where] > heads.line
        ]
    return sorted(candidates, key=lambda candidate: -candidate.lead)


def name_sides(comparison: Comparison) -> str:
    """Say in how many layers a quantity is larger than in all controls, and in how many smaller."""
    return " and ".join(
        f"{word} than in all controls in {here.sum()}"
        for word, here in (
            ("larger", comparison.outside & (comparison.spreads > 0)),
            ("smaller", comparison.outside & (comparison.spreads < 0)),
        )
        if here.any()
    )


def find_most(comparison: Comparison) -> tuple[int, float]:
    """Return the layer that lies furthest outside of the controls, and what the nearest of them has there."""
    layer = int(np.where(comparison.outside, comparison.beyond, -np.inf).argmax())
    every = np.concatenate(list(comparison.controls.values()))[:, layer]
    return layer, float(every.max() if comparison.spreads[layer] > 0 else every.min())


def say_layers(comparison: Comparison, quantity: Quantity) -> str:
    """Describe where a quantity lies outside of its controls, and how many places chance would put there.

    Examples
    --------
    >>> level = {"random": np.array([[0.1], [0.12], [0.14]])}
    >>> away = spreads_away(np.array([0.9]), level, 1e-9)
    >>> left = np.array([0.76])
    >>> found = Comparison(np.array([0.9]), level, away, left, 0.05, 9.0, 0.01)
    >>> said = say_layers(found, Quantity("the weight", read=None))
    >>> print(*said.split(", "), sep="\\n")
    The weight is larger than in all controls in 1 of 1 layers (chance: 0.01)
    most in layer 0: 0.90
    where the nearest control has 0.14 (34 spreads).
    """
    outside = comparison.outside
    subject = quantity.words[0].upper() + quantity.words[1:]
    if not outside.any():
        return f"{subject} differs from the controls in no layer by more than chance."
    layer, nearest = find_most(comparison)
    unit = f" {quantity.unit}" if quantity.unit else ""
    return (
        f"{subject} is {name_sides(comparison)} of {len(outside)} layers (chance: {comparison.expected:.1g}), most in "
        f"layer {layer}: {comparison.trained[layer]:.2f}{unit}, where the nearest control has {nearest:.2f} "
        f"({abs(comparison.spreads[layer]):.0f} spreads)."
    )
