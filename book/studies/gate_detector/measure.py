"""Everything that the page on the gate detector shows: alarms and power, gates of known truth, the cost of reading."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from analysis.maps import gates
from analysis.maps.gates.synthetic import HELD_OUT, draw, read_specimens
from analysis.statistics.intervals import Interval, mean_interval, share_interval
from book.publish import Inputs, Numbers, choose_inputs, live_or_record
from book.publish.phrases import enumerated, percent
from book.studies.gate_detector.calibration import COUNT, DRAWN, INDEPENDENT, KINDS, ORDERS, SIZES, UNKIND
from book.studies.gate_detector.specimens import LABELS, MIXED

CAUSAL_POSITIONS, CAUSAL_DRAWS = 64, 8
CAUSAL_GATES = ("directional", "open", "backward", "cluster", "closed")
PRESENT = 0.05  # a gate is there if it carries this share of the attention
LINES = gates.PATTERNS[:4]
RANDOM_ROWS = (*INDEPENDENT, *UNKIND)
BLOCKS_AND_POINTS = gates.PATTERNS[4:]


@dataclass(frozen=True)
class Calibration:
    """What the detector sees in maps of known make: shares of the maps, and of the cells of drawn gates."""

    source: str
    alarms: Float[np.ndarray, "size kind pattern"]
    power: Float[np.ndarray, "size drawn"]
    covered: Float[np.ndarray, "size strength"]  # of a full diagonal, by its longest run

    def of(self, kinds: tuple[str, ...], patterns: tuple[str, ...]) -> Float[np.ndarray, "size kind pattern"]:
        """Return the alarms of some gates in some kinds of map."""
        rows, columns = [KINDS.index(kind) for kind in kinds], [gates.PATTERNS.index(name) for name in patterns]
        return self.alarms[:, rows][..., columns]

    def rate(self, kind: str, pattern: str) -> Interval:
        """Return the rate of alarms in a kind of map, all sizes together, with its interval over maps."""
        alarms = self.of((kind,), (pattern,)).sum()
        return share_interval(round(COUNT * float(alarms)), COUNT * len(SIZES))

    def worst(self) -> pd.DataFrame:
        """Tabulate the highest rate of each gate at any size, in per cent of the maps, by kind of map."""
        worst = pd.DataFrame(100 * self.alarms.max(0), pd.Index(KINDS, name="kind of map"), gates.PATTERNS)
        return worst.loc[[*INDEPENDENT, *UNKIND, *(kind for kind in KINDS if kind not in RANDOM_ROWS)]]

    def found(self) -> pd.DataFrame:
        """Tabulate how much of a drawn gate is named after it, in per cent of its cells, by size."""
        return pd.DataFrame(100 * self.power.T, pd.Index(DRAWN, name="what is drawn"), [str(n) for n in SIZES])


@dataclass(frozen=True)
class OwnScores:
    """Shares of MiniLM's attention on each gate, over documents, with positions as they are and shuffled."""

    source: str
    shares: Float[np.ndarray, "document order gate"]
    present: Float[np.ndarray, "document order gate"]

    def table(self) -> pd.DataFrame:
        """Tabulate the maps with 5 % of their attention on a gate, by order of positions, with intervals."""

        def written(order: int, gate: int) -> str:
            span = mean_interval(self.present[:, order, gate])
            return f"{100 * span.value:.1f} ({100 * span.low:.1f} to {100 * span.high:.1f})"

        rows = {name: [written(k, g) for k in range(len(ORDERS))] for g, name in enumerate(gates.PATTERNS)}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(ORDERS)).rename_axis("gate")


@dataclass(frozen=True)
class Specimens:
    """What the detector calls maps of known truth; counts are of maps, shares of the attention.

    ``accuracy`` is the share of maps of one gate that are named rightly, ``recall`` the share of gates in mixtures that
    are found, by size of the map, and ``causal`` the number named rightly and the number drawn.
    """

    source: str
    confusion: Float[np.ndarray, "drawn named"]
    accuracy: Mapping[str, float]
    recall: Mapping[str, Float[np.ndarray, " size"]]
    false_alarms: Mapping[str, float]
    shuffled_shares: Float[np.ndarray, "size pattern"]
    causal: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class DetectorNumbers(Numbers):
    """The numbers of the page's text; rates in per cent of the maps."""

    line_alarms: str  # the most in rows of any kind, at any size
    other_alarms_kind: str
    other_alarms_unkind: str
    lines_as_they_are: int  # diagonals of 5 % for a hundred of MiniLM's maps, and with both orders shuffled
    lines_shuffled: int
    clusters_as_they_are: str
    clusters_keys_shuffled: str
    clusters_shuffled: str
    columns_shuffled: str
    bands_as_clusters: str
    calibrated: str
    calibration_maps: int
    paper_point: str
    paper_point_noisy: str
    reader_maps: str
    named_cluster: str
    named_instance: str
    named_inverse_directional: str
    named_closed: str
    shuffled_most: str  # of the attention, averaged over the sizes; and the most at one size
    shuffled_most_at_a_size: str
    cost_small: int  # milliseconds
    cost_large: float  # seconds
    cost_ratio: int
    cost_mb: int


@dataclass(frozen=True)
class Measured(Numbers):
    """The measurement of the page."""

    prefix: ClassVar[str] = "detector"

    inputs: Inputs
    calibration: Calibration
    own: OwnScores
    specimens: Specimens
    cost_source: str
    numbers: DetectorNumbers


def measure(device: str = "auto") -> Measured:
    """Read the records, and read causal maps now."""
    inputs = choose_inputs(device=device)
    calibration, own, specimens = measure_calibration(inputs), measure_own_scores(inputs), measure_specimens(inputs)
    record, source = live_or_record("gate-detector-cost", inputs, recompute=False)
    sizes = record.array("sizes").tolist()
    seconds, megabytes = (dict(zip(sizes, record.array(name), strict=True)) for name in ("seconds", "megabytes"))
    drawn = record_of_specimens(inputs)[0]

    def present(order: str, *patterns: str) -> str:
        places = [gates.GATES.index(name) for name in patterns]
        return percent(float(own.present[:, ORDERS.index(order)][:, places].sum(-1).mean()), 1)

    def found(kind: str) -> str:
        return percent(float(calibration.power[:, list(DRAWN).index(kind)].mean()))

    numbers = DetectorNumbers(
        line_alarms=percent(calibration.of(RANDOM_ROWS, LINES).max(), 1),
        other_alarms_kind=percent(calibration.of(INDEPENDENT, BLOCKS_AND_POINTS).max(), 1),
        other_alarms_unkind=percent(calibration.of(UNKIND, BLOCKS_AND_POINTS).max()),
        lines_as_they_are=round(100 * float(own.present[:, 0, 1:4].sum(-1).mean())),
        lines_shuffled=round(100 * float(own.present[:, 2, 1:4].sum(-1).mean())),
        clusters_as_they_are=present(ORDERS[0], "cluster"),
        clusters_keys_shuffled=present(ORDERS[1], "cluster"),
        clusters_shuffled=present(ORDERS[2], "cluster"),
        columns_shuffled=present(ORDERS[2], "directional"),
        bands_as_clusters=percent(calibration.rate("band", "cluster").value),
        calibrated=enumerated([str(n) for n in SIZES]),
        calibration_maps=COUNT,
        paper_point=found("the paper's point, 1 % noise"),
        paper_point_noisy=found("the paper's point, 10 % noise"),
        reader_maps=f"{specimens.confusion.sum() + drawn.array('mixed_maps')[..., 0].sum():,.0f}",
        **{
            f"named_{label.replace(' ', '_')}": percent(specimens.accuracy[label])
            for label in ("cluster", "instance", "inverse directional", "closed")
        },
        shuffled_most=percent(specimens.shuffled_shares.mean(0).max(), 1),
        shuffled_most_at_a_size=percent(specimens.shuffled_shares.max(), 1),
        cost_small=round(1e3 * seconds[512]),
        cost_large=round(float(seconds[2048]), 1),
        cost_ratio=round(seconds[2048] / seconds[512]),
        cost_mb=round(megabytes[2048]),
    )
    return Measured(inputs, calibration, own, specimens, source, numbers)


def measure_calibration(inputs: Inputs) -> Calibration:
    """Read what the detector sees in maps of known make."""
    record, source = live_or_record("gate-detector-calibration", inputs, recompute=False)
    return Calibration(source, *(record.array(name) for name in ("alarms", "power", "covered")))


def measure_own_scores(inputs: Inputs) -> OwnScores:
    """Read what the detector sees in MiniLM's scores with positions shuffled."""
    record, source = live_or_record("gate-detector-own-scores", inputs, recompute=False)
    return OwnScores(source, *(record.array(name).astype(float) for name in ("shares", "present")))


def record_of_specimens(inputs: Inputs):
    """Return the record of maps with known truth, and where it is from."""
    return live_or_record("gate-detector-specimens", inputs, recompute=False)


def measure_specimens(inputs: Inputs) -> Specimens:
    """Take what the detector called maps of known truth from the record, and read causal maps."""
    record, source = record_of_specimens(inputs)
    hits, present = record.array("mixed_found").sum(1), record.array("mixed_present").sum(1)
    false, absent = record.array("mixed_false").sum((0, 1)), record.array("mixed_absent").sum((0, 1))
    return Specimens(
        source,
        record.array("confusion").sum((0, 1)),
        {label: record[f"named_{label}"] for label in LABELS},
        {gate: hits[:, i] / present[:, i] for i, gate in enumerate(MIXED)},
        {gate: false[i] / absent[i] for i, gate in enumerate(MIXED) if absent[i]},
        record.array("shuffled").mean(1),
        read_causal_gates(inputs.device),
    )


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
