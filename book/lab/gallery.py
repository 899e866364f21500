"""The heads whose maps are drawn: those in which each kind of gate is strongest, and what gates carry in them."""

import numpy as np
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool2d

from analysis.maps.gates import GATES, read_gates

KINDS = {
    "directional": ("directional",),
    "open": ("open",),
    "contextual": ("backward", "forward"),
    "cluster": ("cluster",),
}
"""What figures 3 to 6 of "The geometry of BERT" show, by the gates that make it; figure 7 shows several at once."""
SEVERAL = "several"
POOLED = 3
"""A map is kept as means over squares of so many tokens: a picture has fewer points than the map has cells."""


def strengths(shares: Float[np.ndarray, "... gate"]) -> Float[np.ndarray, "kind ..."]:
    """Return how much of each kind maps hold, from the shares of their gates; of several, the second largest.

    >>> shares = np.zeros(len(GATES))
    >>> shares[[GATES.index("cluster"), GATES.index("open")]] = 0.3, 0.1
    >>> strengths(shares).tolist()
    [0.0, 0.1, 0.0, 0.3, 0.1]
    """
    of_kinds = np.stack([shares[..., [GATES.index(gate) for gate in gates]].sum(-1) for gates in KINDS.values()])
    return np.concatenate([of_kinds, np.sort(of_kinds, 0)[-2:-1]])


def choose_heads(strength: Float[np.ndarray, "kind layer head"]) -> list[tuple[int, int]]:
    """Return of each kind the head with most of it, of those not chosen before where there are any.

    >>> choose_heads(np.array([[[0.5, 0.1]], [[0.4, 0.3]]]))
    [(0, 0), (0, 1)]
    """
    chosen: list[tuple[int, int]] = []
    for scores in strength:
        order = np.argsort(-scores, axis=None, kind="stable")
        places = [tuple(int(index) for index in np.unravel_index(place, scores.shape)) for place in order]
        chosen.append(next((place for place in places if place not in chosen), places[0]))
    return chosen


def pool(maps: Float[Tensor, "map query key"], square: int = POOLED) -> Float[Tensor, "map row column"]:
    """Return means over squares of cells, in multiples of an even share; what is left over at the end is dropped.

    >>> import torch
    >>> pool(torch.eye(4)[None], 2).tolist()
    [[[2.0, 0.0], [0.0, 2.0]]]
    """
    return avg_pool2d(maps[None], square)[0] * maps.shape[-1]


def shares(maps: Float[Tensor, "*batch query key"]) -> Float[np.ndarray, "*batch gate"]:
    """Return what each gate carries in each map."""
    flat = maps.reshape(-1, *maps.shape[-2:])
    return read_gates(flat).scores.cpu().numpy().reshape(*maps.shape[:-2], len(GATES))
