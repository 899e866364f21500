"""What maps carry, what the sink is made of, and how the detector is calibrated: records."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.maps import gates
from analysis.statistics.intervals import Interval, share_interval
from analysis.surveys.map_counts import PRESENT
from book.lab.documents import KINDS
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated, percent
from book.studies.bert_gates.calibration import COUNT, DRAWN, INDEPENDENT, SIZES, UNNAMED
from book.studies.bert_gates.weighted import CLASSES, FIRST
from book.studies.shared.documents import LADDER, Rungs, load_rungs

PLACES = {
    **{name: ("first", k) for k, name in enumerate(FIRST)},
    **{name: ("classes", k) for k, name in enumerate(CLASSES)},
    **{f"{gate}, by contribution": ("weighted gates", k) for k, gate in enumerate(gates.GATES)},
    "length of first": ("length of first",),
}


@dataclass(frozen=True)
class Calibration:
    """What the detector sees in maps of known make: shares of the maps ``(size, kind, pattern)``."""

    alarms: Float[np.ndarray, "size kind pattern"]
    present: Float[np.ndarray, "size kind pattern"]
    shares: Float[np.ndarray, "size kind pattern"]
    power: Float[np.ndarray, "size drawn"]  # cells named after the gate, of those that were drawn
    covered: Float[np.ndarray, "size strength"]  # of a full diagonal, by its longest run

    @property
    def independent(self) -> Float[np.ndarray, "size kind pattern"]:
        """The alarms in maps of independent rows."""
        return self.alarms[:, : len(INDEPENDENT)]

    def rate(self, kind: int, pattern: int) -> Interval:
        """Return the rate of alarms in a kind of map, all sizes together, with its interval over maps."""
        return share_interval(round(COUNT * float(self.alarms[:, kind, pattern].sum())), COUNT * len(SIZES))

    def table(self) -> pd.DataFrame:
        """Tabulate the rates in per cent of the maps, with intervals: what is promised first."""
        rows = {"promised, at most": ["5"] * len(gates.PATTERNS)}
        for k, kind in enumerate((*INDEPENDENT, *UNNAMED)):
            spans = [self.rate(k, pattern) for pattern in range(len(gates.PATTERNS))]
            rows[kind] = [f"{100 * s.value:.1f} ({100 * s.low:.1f} to {100 * s.high:.1f})" for s in spans]
        return pd.DataFrame.from_dict(rows, orient="index", columns=gates.PATTERNS).rename_axis("kind of map")

    def rates(self) -> dict[str, list[Interval]]:
        """Return for each gate its rates in all kinds of independent rows."""
        return {
            gate: [self.rate(k, pattern) for k in range(len(INDEPENDENT))]
            for pattern, gate in enumerate(gates.PATTERNS)
        }

    def power_table(self) -> pd.DataFrame:
        """Tabulate how much of a drawn gate is named after it, in per cent of its cells, by size."""
        rows = {
            kind: [gate, *(f"{100 * share:.0f}" for share in self.power[:, k])]
            for k, (kind, gate) in enumerate(DRAWN.items())
        }
        columns = ["gate", *(f"{n} positions" for n in SIZES)]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("what is drawn")


@dataclass(frozen=True)
class Classifier:
    """The maps of the classifier of virus variants: shares of them with a pattern, and with two or more."""

    patterned: float
    composed: float
    diagonals: float  # the largest share of the attention that a map has on any diagonal


@dataclass(frozen=True)
class CarriedNumbers(Numbers):
    """The numbers of these sections in the page's text."""

    first_lengths: str
    first_attention: str
    first_contribution: str
    columns_contribution: str
    sink_semi_bias: str
    sink_common: str
    sink_content: str
    most_alarms: str
    most_alarms_together: str
    most_independent_share: str
    bands_as_clusters: str  # of the maps with a band
    calibrated: str
    calibration_maps: int
    points_even: str
    points_uneven: str
    points_spiky: str


def measure_carried(inputs: Inputs) -> Rungs:
    """Read what maps carry, and how they are classed."""
    return load_rungs("bert-gates-weighted", inputs, PLACES)


def measure_calibration(inputs: Inputs) -> Calibration:
    """Read what the detector sees in maps of known make."""
    record, _ = live_or_record("bert-gates-calibration", inputs)
    return Calibration(*(record.array(name) for name in ("alarms", "present", "shares", "power", "covered")))


def measure_classifier(inputs: Inputs) -> Classifier:
    """Read the gates of every map of the classifier off the record of the case study."""
    scores = live_or_record("variant-measures", inputs, recompute=False)[0].array("gates")
    there = scores[..., : len(gates.PATTERNS)] >= PRESENT
    return Classifier(float(there.any(-1).mean()), float((there.sum(-1) >= 2).mean()), float(scores[..., 1:4].max()))


def class_table(carried: Rungs) -> pd.DataFrame:
    """Tabulate the classes of maps by kind of text and in the controls, in per cent of the maps."""
    columns = {kind: [carried[name].by_kind[kind].mean() for name in CLASSES] for kind in KINDS}
    columns |= {rung: [carried[name].controls[rung].mean() for name in CLASSES] for rung in LADDER}
    return pd.DataFrame(columns, index=pd.Index(list(CLASSES), name="class")).map(lambda share: f"{100 * share:.0f}")


def sink_table(carried: Rungs) -> pd.DataFrame:
    """Tabulate by layer what the first token gets in all, for what reason, and what it contributes."""
    own, bare, centred, contributed = (carried[name].documents.mean(0) for name in FIRST)
    rows = {
        "attention": own,
        "of it by the semi-bias": own - bare,
        "by what queries share besides": bare - centred,
        "by content": centred,
        "share of what arrives": contributed,
        "length of what it brings, over others": carried["length of first"].documents.mean(0),
    }
    table = pd.DataFrame(rows).T.map(lambda value: f"{value:.3f}").rename_axis("what the first token gets")
    return table.rename(columns=lambda layer: f"layer {layer}")


def carried_numbers(carried: Rungs, calibration: Calibration) -> CarriedNumbers:
    """Write the numbers."""
    own, bare, centred, contributed = (carried[name].documents.mean() for name in FIRST)
    lengths = carried["length of first"].documents.mean(0)
    even, uneven, spiky = (
        calibration.power[1:, list(DRAWN).index(f"points, {noise}")].mean() for noise in ("even", "uneven", "spiky")
    )
    independent = calibration.independent
    band = (*INDEPENDENT, *UNNAMED).index("band")
    bands = calibration.rate(band, gates.PATTERNS.index("cluster")).value
    return CarriedNumbers(
        first_lengths=enumerated(lengths, ".2f"),
        first_attention=percent(own),
        first_contribution=percent(contributed),
        columns_contribution=percent(carried["directional, by contribution"].documents.mean()),
        sink_semi_bias=percent(own - bare),
        sink_common=percent(bare - centred),
        sink_content=percent(centred),
        most_alarms=percent(independent.max(), 1),
        most_alarms_together=percent(independent.mean(0).max(), 1),
        most_independent_share=percent(calibration.shares[:, : len(INDEPENDENT)].max(), 1),
        bands_as_clusters=percent(bands),
        calibrated=enumerated([str(n) for n in SIZES]),
        calibration_maps=COUNT,
        points_even=percent(even),
        points_uneven=percent(uneven),
        points_spiky=percent(spiky),
    )
