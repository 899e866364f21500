"""The heads worth a look: those that do something more than any head of any control does."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from analysis.maps.gates import GATES, PATTERNS
from analysis.reporting.observations import OF_HEADS, Observations

HOW_MANY = 10
LEAST = 0.02
"""By how much a head must exceed every head of every control to be worth a look."""
OF_ONE_KIND = 3
"""How many heads are shown at most for one and the same reason."""
WORDS = {
    "sharpness": "sharp rows (1 - relative entropy)",
    "sink": "weight on one key",
    "sink with values": "weight times value on one key",
    "previous": "attention to the position before",
    "next": "attention to the position after",
    "itself": "attention to its own position",
    **{gate: f"the gate '{gate}'" for gate in PATTERNS},
}


class NotableHead(NamedTuple):
    """A head, what it does most, how much of it, and the most that any head of a control does of it."""

    layer: int
    head: int
    reason: str
    value: float
    control: float


def measures(observed: Observations) -> dict[str, Float[np.ndarray, "layer head"]]:
    """Return what heads are compared by, each from 0 to 1, more being more of a pattern."""
    heads, scores = observed.mean("heads"), observed.mean("gates")
    by_name = {name: heads[..., i] for i, name in enumerate(OF_HEADS) if name != "entropy"}
    return {
        "sharpness": 1 - heads[..., OF_HEADS.index("entropy")],
        **by_name,
        **{gate: scores[..., GATES.index(gate)] for gate in PATTERNS},
    }


def notable_heads(
    trained: Mapping[str, Float[np.ndarray, "layer head"]],
    controls: Sequence[Mapping[str, Float[np.ndarray, "layer head"]]],
    count: int = HOW_MANY,
) -> list[NotableHead]:
    """Return the heads that exceed the controls most, the most first, each with the measure in which it does so.

    Parameters
    ----------
    trained, controls
        As :func:`measures` returns them. Without controls, heads are compared with 0.
    count
        How many heads to return at most. Heads that exceed the controls by :data:`LEAST` or less are left out.

    Examples
    --------
    >>> head = notable_heads({"sink": np.array([[0.9, 0.2]])},
    ...                      [{"sink": np.array([[0.3, 0.1]])}])
    >>> [(h.layer, h.head, h.reason, h.control) for h in head]
    [(0, 0, 'sink', 0.3)]
    """
    candidates = []
    for name, values in trained.items():
        most = max((float(np.nanmax(control[name])) for control in controls), default=0.0)
        candidates += [
            NotableHead(layer, head, name, float(value), most)
            for (layer, head), value in np.ndenumerate(values)
            if value > most + LEAST
        ]
    chosen: list[NotableHead] = []
    kinds: Counter[str] = Counter()
    for candidate in sorted(candidates, key=lambda c: c.control - c.value):
        if any((c.layer, c.head) == (candidate.layer, candidate.head) for c in chosen):
            continue
        if kinds[candidate.reason] < OF_ONE_KIND:
            chosen.append(candidate)
            kinds[candidate.reason] += 1
        if len(chosen) == count:
            break
    return chosen
