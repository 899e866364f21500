"""How well the reader names what was drawn: recorded on held-out noise, and drawn now for causal maps."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.maps import gates
from analysis.maps.gates.synthetic import HELD_OUT, draw, read_specimens
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.studies.bert_gates.reader import LABELS, MIXED, SIZES

CAUSAL_POSITIONS, CAUSAL_DRAWS = 64, 8
CAUSAL_GATES = ("directional", "open", "backward", "cluster", "closed")
PRESENT = 0.05  # a gate is there if it carries this share of the attention


@dataclass(frozen=True)
class ReaderQuality:
    """What the reader calls maps of known truth; counts are of maps, shares of the attention.

    ``accuracy`` is the share of maps of one gate that are named rightly, ``recall`` the share of gates in mixtures that
    are found, by size of the map, and ``causal`` the number named rightly and the number drawn.
    """

    source: str
    labels: tuple[str, ...]
    sizes: tuple[int, ...]
    confusion: Float[np.ndarray, "drawn named"]
    by_size: Mapping[str, Float[np.ndarray, "drawn named"]]
    by_noise: Mapping[str, Float[np.ndarray, "drawn named"]]
    accuracy: Mapping[str, float]
    recall: Mapping[str, Float[np.ndarray, " size"]]
    false_alarms: Mapping[str, float]
    shuffled_shares: Float[np.ndarray, "size pattern"]
    causal: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class ReadingCost:
    """What reading one map costs, by its positions: CPU milliseconds and MB of memory."""

    source: str
    milliseconds: Mapping[int, float]
    megabytes: Mapping[int, float]


@dataclass(frozen=True)
class ReaderNumbers(Numbers):
    """The numbers about the reader in the page's text; ``cost_small`` is in milliseconds, ``cost_large`` in seconds."""

    reader_maps: str
    lines_named: str
    named_cluster: str
    named_instance: str
    named_inverse_directional: str
    named_closed: str
    shuffled_most: str  # of the attention, averaged over the sizes; and the most at one size
    shuffled_most_at_a_size: str
    cost_small: int
    cost_large: float
    cost_ratio: int
    cost_mb: int


def measure_reader(inputs: Inputs) -> tuple[ReaderQuality, ReadingCost, ReaderNumbers]:
    """Take the reader's quality and cost from their records, and read causal maps."""
    record, source = live_or_record("bert-gates-reader", inputs)
    confusion, shuffled = record.array("confusion"), record.array("shuffled")
    quality = ReaderQuality(
        source,
        LABELS,
        tuple(SIZES),
        confusion.sum((0, 1)),
        {f"n = {n}": counts for n, counts in zip(SIZES, confusion.sum(1), strict=True)},
        dict(zip(HELD_OUT, confusion.sum(0), strict=True)),
        {label: record[f"named_{label}"] for label in LABELS},
        recall_in_mixtures(record),
        false_alarms(record),
        shuffled.mean(1),
        read_causal_gates(inputs.device),
    )
    cost = measure_cost(inputs)
    numbers = ReaderNumbers(
        reader_maps=f"{confusion.sum() + record.array('mixed_maps')[..., 0].sum():,.0f}",
        lines_named=percent(record["lines_named"]),
        **{
            f"named_{label.replace(' ', '_')}": percent(quality.accuracy[label])
            for label in ("cluster", "instance", "inverse directional", "closed")
        },
        shuffled_most=percent(shuffled.mean((0, 1)).max(), 1),
        shuffled_most_at_a_size=percent(quality.shuffled_shares.max(), 1),
        cost_small=round(cost.milliseconds[512]),
        cost_large=round(cost.milliseconds[2048] / 1e3, 1),
        cost_ratio=round(cost.milliseconds[2048] / cost.milliseconds[512]),
        cost_mb=round(cost.megabytes[2048]),
    )
    return quality, cost, numbers


def recall_in_mixtures(record) -> dict[str, np.ndarray]:
    """Return, for each size of map, the share of the gates in mixtures that are read with half their true share."""
    hits, present = record.array("mixed_found").sum(1), record.array("mixed_present").sum(1)
    return {gate: hits[:, i] / present[:, i] for i, gate in enumerate(MIXED)}


def false_alarms(record) -> dict[str, float]:
    """Return, for each gate, the share of the mixtures without it into which it is read."""
    false, absent = record.array("mixed_false").sum((0, 1)), record.array("mixed_absent").sum((0, 1))
    return {gate: false[i] / absent[i] for i, gate in enumerate(MIXED) if absent[i]}


def read_causal_gates(device: torch.device) -> dict[str, tuple[int, int]]:
    """Draw single gates in causal maps, those that are not cut off, and count what is named rightly.

    Noise alone is named rightly if it is called closed or residual.
    """
    generator, counts = np.random.default_rng(0), {}
    for gate in CAUSAL_GATES:
        present = [gate] if gate in gates.PATTERNS else []
        specimens = [
            draw(CAUSAL_POSITIONS, present, noise, generator, causal=True)
            for noise in HELD_OUT
            for _ in range(CAUSAL_DRAWS)
        ]
        whole = [specimen for specimen in specimens if specimen.truth[gates.GATES.index(gate)] >= PRESENT]
        names = [name for _, _, name in read_specimens(whole, causal=True, device=device)]
        right = (gate, "residual") if gate == "closed" else (gate,)
        counts[gate] = sum(name in right for name in names), len(names)
    return counts


def measure_cost(inputs: Inputs) -> ReadingCost:
    """Take time and memory from their record."""
    record, source = live_or_record("bert-gates-cost", inputs, recompute=False)
    sizes = record.array("sizes").tolist()
    return ReadingCost(
        source,
        dict(zip(sizes, 1e3 * record.array("seconds"), strict=True)),
        dict(zip(sizes, record.array("megabytes"), strict=True)),
    )
