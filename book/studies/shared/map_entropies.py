"""Entropies of one map in two readings, where the answer is known: ideal gates, and maps of noise."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.maps import entropy, gates
from book.studies.shared import released_code as code

DEVIATIONS = (0.01, 0.1, 0.5, 1.0, 2.0)
"""Standard deviations of the Gaussian scores of maps of noise."""
CLUSTER = range(100, 164)
"""Queries and keys of the cluster whose entropy is taken."""


class MapEntropies(NamedTuple):
    """The code's entropy of one map, whole and in the code's layout, in nats, and that of its rows over ln n."""

    whole: float
    blanked: float
    rows: float


def measure_map(attention: Float[Tensor, "query key"]) -> MapEntropies:
    """Take the entropies of one map; the code's layout keeps all tokens but the last, [SEP]."""
    blanked = code.blank_from(attention[: code.TOKENS, : code.TOKENS], code.TOKENS - 1)
    return MapEntropies(
        code.value_entropy(attention).item(),
        code.value_entropy(blanked).item(),
        entropy.relative_entropy(attention[None]).mean().item(),
    )


def make_gates(n: int = code.ROWS) -> dict[str, Float[Tensor, "query key"]]:
    """Return the ideal gates of so many rows, by name."""
    return {
        "closed": gates.closed(n),
        "directional": gates.directional(n, 5),
        "open": gates.open_gate(n),
        "backward": gates.backward(n, 1),
        "instance": gates.instance(n, 7, 2),
        "cluster": gates.cluster(n, CLUSTER, CLUSTER),
    }


def draw_noise(deviation: float, n: int = code.ROWS) -> Float[Tensor, "query key"]:
    """Return the map of independent Gaussian scores."""
    scores = torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (deviation * scores).softmax(-1)


def measure_gates() -> dict[str, MapEntropies]:
    """Take the entropies of the ideal gates, by name."""
    return {name: measure_map(gate) for name, gate in make_gates().items()}


def measure_noise() -> dict[float, MapEntropies]:
    """Take the entropies of maps of noise, by the standard deviation of their scores."""
    return {deviation: measure_map(draw_noise(deviation)) for deviation in DEVIATIONS}
