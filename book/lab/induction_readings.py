r"""Readings of a printed walkthrough: what a table could mean, and which meaning reproduces all of them.

Printed equations leave things open: what a softmax is normalised over, what a sum includes, how numbers are rounded. A
``Reading`` fixes each of them. This module computes the six tables of the induction-head walkthrough under a reading,
searches all readings for those that agree with given tables, and finds inputs that tell the survivors apart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Literal, get_args

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.transformer.induction import Layer, build, embed

TABLES = ("scores 1", "weights 1", "output 1", "scores 2", "weights 2", "output 2")
"""The six tables of the walkthrough, in order."""
NULL = 50.0
"""The score of a null key, in nats: half of the slides' sharpness of 100."""


@dataclass(frozen=True)
class Reading:
    """One way to read the walkthrough; the defaults are its equations at their word, with the sum over all keys."""

    # the query is left; equations 4 and 9 print the second
    scores: Literal["y_i A y_j", "y_j A y_j", "y_j A y_i"] = "y_i A y_j"
    # where the score tables are printed; masked scores as 0
    shown: Literal["before the mask", "after the mask"] = "before the mask"
    # what each softmax sums over; the first is masked then, the last masked and divided by the row sum plus 1e-9
    normaliser: Literal["all s", "s <= i", "s < i", "all s, then s <= i"] = "all s"
    # what a row gets that is left with no weight at all
    empty: Literal["nothing", "itself", "itself, first row"] = "nothing"
    # weights of at most one half, before they are used
    weak: Literal["kept", "dropped"] = "kept"
    # what the output sums over; in the last the first row writes nothing
    summed: Literal["j <= i", "j < i", "j <= i, i > 0"] = "j <= i"
    gain: Literal[100, 1] = 100  # what V_2 multiplies by; 100 is printed
    rounding: Literal["tenths", "whole, halves to even", "whole, halves up"] = "tenths"  # of the tables
    # hard: equal weights on visible keys with a score above 0; null key: one more key, half as sharp, without a value
    attention: Literal["softmax", "hard", "null key"] = "softmax"

    def departures(self) -> dict[str, object]:
        """Return what differs from the equations taken at their word."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}


def every() -> list[Reading]:
    """Return all readings, those that depart least first.

    What a softmax sums over, and whether weak weights are dropped, matters for the softmax alone.

    >>> len(every()), every()[0] == Reading()
    (3240, True)
    """
    choices = [get_args(f.type) for f in fields(Reading)]
    readings = (Reading(*values) for values in product(*choices))
    return sorted(
        (
            reading
            for reading in readings
            if reading.attention == "softmax" or (reading.normaliser, reading.weak) == ("all s", "kept")
        ),
        key=lambda reading: len(reading.departures()),
    )


def tables(tokens: Int[Tensor, " position"], vocab: int, reading: Reading) -> dict[str, Float[Tensor, "row column"]]:
    """Return the six tables as a reading would print them, for any sequence.

    With the mask before the softmax an unseen token attends to all tokens so far:

    >>> tables(torch.tensor([0, 1]), 2, Reading(normaliser="s <= i"))["weights 2"]
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    head = build(vocab, len(tokens), gain=float(reading.gain), device=tokens.device)
    x, found = embed(tokens, head), []
    for layer in (head.first, head.second):
        scores = score(x, layer, reading)
        attention = weigh(scores, reading)
        x = gather(x, attention, layer, reading)
        shown = scores.tril() if reading.shown == "after the mask" else scores
        found += [shown, attention, x]
    return {name: round_table(table, reading) for name, table in zip(TABLES, found)}


def score(x: Tensor, layer: Layer, reading: Reading) -> Float[Tensor, "query key"]:
    """Return the scores, with query and key where the reading puts them."""
    scores = einsum(x, layer.A, x, "query left, left right, key right -> query key")
    if reading.scores == "y_j A y_i":
        return scores.T
    return scores.diagonal().expand_as(scores) if reading.scores == "y_j A y_j" else scores


def weigh(scores: Float[Tensor, "query key"], reading: Reading) -> Float[Tensor, "query key"]:
    """Turn scores into weights as the reading normalises, fills empty rows and drops weak weights."""
    weights = {"softmax": _softmax, "hard": _hard, "null key": _with_null_key}[reading.attention](scores, reading)
    if reading.empty != "nothing":
        empty = weights.sum(-1, keepdim=True) < 1e-9
        if reading.empty == "itself, first row":
            empty[1:] = False
        weights = torch.where(empty, torch.eye(len(scores)).to(scores), weights)
    return torch.where(weights <= 0.5, 0.0, weights) if reading.weak == "dropped" else weights


def _softmax(scores: Tensor, reading: Reading) -> Tensor:
    ones = torch.ones_like(scores)
    allowed = {"s <= i": ones.tril(), "s < i": ones.tril(-1)}.get(reading.normaliser, ones)
    weights = scores.masked_fill(allowed == 0, -math.inf).softmax(-1).nan_to_num(0.0).tril()
    if reading.normaliser == "all s, then s <= i":
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-9)
    return weights


def _hard(scores: Tensor, reading: Reading) -> Tensor:
    matches = (scores > 0).to(scores).tril()
    return matches / matches.sum(-1, keepdim=True).clamp(min=1)


def _with_null_key(scores: Tensor, reading: Reading) -> Tensor:
    visible = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    null = torch.full_like(scores[:, :1], NULL)
    return torch.cat([visible, null], 1).softmax(-1)[:, :-1]


def gather(x: Tensor, attention: Tensor, layer: Layer, reading: Reading) -> Float[Tensor, "position model"]:
    """Return the layer's output, summed over what the reading includes."""
    visible = attention.tril(-1) if reading.summed == "j < i" else attention.clone()
    if reading.summed == "j <= i, i > 0":
        visible[0] = 0
    return visible @ x @ layer.V.T + x @ layer.W.T


def round_table(table: Tensor, reading: Reading) -> Tensor:
    """Round a table as the reading prints it; no minus zero."""
    if reading.rounding == "whole, halves up":
        return (table + 0.5).floor() + 0.0
    return table.round(decimals=1 if reading.rounding == "tenths" else 0) + 0.0


def differing(computed: Mapping[str, Tensor], printed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mark with True each cell of each printed table that the computed one contradicts."""
    return {name: ~((computed[name] - table).abs() <= 1e-9) for name, table in printed.items()}


def classes(tokens: Int[Tensor, " position"], vocab: int, readings: Iterable[Reading]) -> list[list[Reading]]:
    """Group readings that print the same six tables for a sequence."""
    groups: dict[bytes, list[Reading]] = {}
    for reading in readings:
        key = b"".join(table.cpu().numpy().tobytes() for table in tables(tokens, vocab, reading).values())
        groups.setdefault(key, []).append(reading)
    return list(groups.values())


def sequences(length: int, vocab: int) -> Iterable[tuple[int, ...]]:
    """Yield all sequences of a length up to renaming tokens: each new token is the smallest unused one.

    >>> list(sequences(2, 6))
    [(0, 0), (0, 1)]
    """

    def extend(start: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        if len(start) == length:
            yield start
            return
        for token in range(min(max(start, default=-1) + 2, vocab)):
            yield from extend((*start, token))

    return extend(())


def tell_apart(readings: Sequence[Reading], vocab: int, longest: int) -> tuple[tuple[int, ...], list[list[Reading]]]:
    """Find the shortest sequence that splits the readings into the most groups, and those groups."""
    best: tuple[tuple[int, ...], list[list[Reading]]] = ((), [])
    for length in range(1, longest + 1):
        for tokens in sequences(length, vocab):
            groups = classes(torch.tensor(tokens), vocab, readings)
            if len(groups) > len(best[1]):
                best = (tokens, groups)
        if len(best[1]) == len(readings):
            break
    return best
