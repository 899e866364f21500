"""The nearest model to the paper's classifier that can be had: its recipe repeated in small (``variant-fine-tuned``).

The authors fine-tuned a model of English text under fresh rows of k-mers. So the nearest is MiniLM's body, fine-tuned
in the same way on simulated genes; next is the classifier of twelve layers that was trained from random weights, which
has the architecture and not the start; then MiniLM on text, of the family. What the first says decides a claim about
the paper's own model, and the others stand beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.maps.gates import GATES, PATTERNS
from analysis.models.controls import RUNGS
from analysis.plotting.ladder import Ladder
from analysis.statistics import normality
from analysis.statistics.intervals import Interval, mean_interval
from book.experiments.variant_fine_tuned import COUNTED, READ, RECIPE, SEEDS
from book.lab.dna.simulate import CLASSES
from book.lab.mathematics.stretching import MAPS
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated, first_to_last, percent
from book.publish.records import Record
from book.studies.shared.averages import over_heads
from book.studies.shared.census import RATIOS, ratio_interval

STAND_IN = "MiniLM fine-tuned on simulated genes"
NEAREST = f"In {STAND_IN}, "
"""What evidence about it begins with."""
BY_LAYER = (
    "first_failing",
    "bare_failing",
    "failing_kept",
    "padded_first_failing",
    "D_sum",
    "sum_kept",
    "cone",
    "padded_cone",
    "cone_bare",
    "cosine",
    "resultant",
    "entropy",
    "largest",
    "stable_rank",
)
"""Measures that have one number per layer and sequence; of those by head, the mean over heads."""
COUNTS = {name: parts for name, parts in RATIOS.items() if set(parts) <= set(COUNTED)}
"""Ratios of what was counted on maps, by the names of the census."""
CARRIES = 0.05
"""A map holds a gate when the gate carries this share of its attention."""
SHOWN = [GATES.index("directional"), GATES.index("cluster")]
START = "start"
"""The trained body under rows of k-mers that nothing has trained."""


@dataclass(frozen=True)
class Nearest(Numbers):
    """The fine-tuned classifier by layer, its start and its controls over five seeds.

    Means and intervals are over the sequences of all trainings, ``by_seed`` has means over those of each. ``controls``
    has, by measure and rung, means over two sequences, the start among the rungs. ``gates`` and ``control_gates`` hold
    what gates carry, means over sequences. ``ratios`` are those of the census, with intervals over sequences.
    ``D_total`` and ``mean_total`` are of the sum of all rows of all layers, ``failing_sums`` the share of sequences in
    which a layer's sum fails, ``failing_sums_kept`` without its extreme coordinates. ``grown`` is the share of rows
    that become longer in Q, K and V, means over sequences. ``by_mlp`` is what the MLP adds to the mean cosine of two
    rows, ``by_norm`` what the LayerNorm behind it would without one. ``effect_within`` correlates the effect of making
    a head uniform with its entropy, within each layer.
    """

    prefix: ClassVar[str] = "nearest"
    layers: Mapping[str, Float[np.ndarray, "layer 3"]]
    by_seed: Mapping[str, Float[np.ndarray, "seed layer"]]
    controls: Mapping[str, Mapping[str, Float[np.ndarray, "draw layer"]]]
    gates: Float[np.ndarray, "layer head gate"]
    control_gates: Mapping[str, Float[np.ndarray, "draw layer head gate"]]
    ratios: Mapping[str, Interval]
    ratios_by_seed: Mapping[str, Float[np.ndarray, " seed"]]
    control_ratios: Mapping[str, Mapping[str, Float[np.ndarray, " draw"]]]
    counts: Mapping[str, int]
    company: Interval  # of the maps with a cluster those that hold another gate, mean over sequences
    failing_sums: Float[np.ndarray, " layer"]
    failing_sums_kept: Float[np.ndarray, " layer"]
    control_failing_sums: Mapping[str, Float[np.ndarray, "draw layer"]]
    D_total: Float[np.ndarray, " sequence"]
    mean_total: Float[np.ndarray, " sequence"]
    control_D_total: Mapping[str, Float[np.ndarray, "draw sequence"]]
    grown: Float[np.ndarray, "map layer head"]
    control_grown: Mapping[str, Float[np.ndarray, "map layer head"]]
    largest_weights: Float[np.ndarray, "map layer head"]  # mean over trainings
    control_largest_weights: Mapping[str, Float[np.ndarray, "draw map layer head"]]
    diagonal: Float[np.ndarray, "sequence layer head part"]
    by_mlp: Float[np.ndarray, "seed layer"]
    by_norm: Float[np.ndarray, "seed layer"]
    effect_with_entropy: float
    effect_with_depth: float
    effect_within: Float[np.ndarray, " layer"]
    critical: float
    test_right: str
    follow: str
    bases: str
    trainings: int
    sequences: int
    failing_rows: str
    composed: str
    composed_start: str
    with_diagonal: str
    in_company: str
    run: str
    short_verticals: str
    end_of_diagonal: str
    apart_failing: str
    apart_cosine: str
    cosine_ends: str
    start_cosine_ends: str
    largest_by_layer: str
    entropy_by_layer: str
    amplified: str
    amplified_named: str
    total_passes: int
    updates: int
    batch: int
    rate: str

    def ladder(self, measure: str) -> Ladder:
        """Return a measure beside its controls, the start left out."""
        return Ladder(self.layers[measure], {rung: self.controls[measure][rung] for rung in RUNGS})

    def panels(self) -> dict[str, tuple[Ladder, Float[np.ndarray, "seed layer"]]]:
        """Return what the figure of the classifier draws: by title, a ladder and the start."""
        titles = {
            "rows that fail": "first_failing",
            "D of the sum": "D_sum",
            "mean cosine": "cosine",
            "largest value": "largest",
            "row entropy": "entropy",
        }
        drawn = {title: (self.ladder(name), self.controls[name][START]) for title, name in titles.items()}
        carried = {rung: values[..., SHOWN].sum(-1).mean(-1) for rung, values in self.control_gates.items()}
        gates = Ladder(self.gates[..., SHOWN].sum(-1).mean(-1), {rung: carried[rung] for rung in RUNGS})
        return drawn | {"columns and clusters": (gates, carried[START])}

    @property
    def clusters_at_start(self) -> bool:
        """Say whether clusters carried as much before the fine-tuning as after it."""
        cluster = GATES.index("cluster")
        return bool(self.control_gates[START][..., cluster].mean((1, 2)).min() > self.gates[..., cluster].mean())

    def rise(self, measure: str) -> float:
        """Return the rank correlation of a measure with depth."""
        middle = self.layers[measure][:, 0]
        return float(spearmanr(range(len(middle)), middle).statistic)

    def rises(self, measure: str) -> list[float]:
        """Return the same in each training."""
        return [float(spearmanr(range(len(own)), own).statistic) for own in self.by_seed[measure]]

    def phrase(self, measure: str, form: str = ".2f") -> str:
        """List a measure by layer."""
        return enumerated(self.layers[measure][:, 0], form)

    def shares(self, measure: str) -> str:
        """List a share by layer, in per cent."""
        return f"{enumerated(100 * self.layers[measure][:, 0], '.0f')} %"

    def phrase_ends(self, measure: str, form: str = ".2f") -> str:
        """Write a measure's first and last layer."""
        return first_to_last(self.layers[measure][:, 0], form)

    def apart(self, measure: str) -> float:
        """Return how far the trainings are apart, in the layer where they are furthest."""
        return furthest_apart(self.by_seed[measure])

    def rung(self, measure: str, rung: str) -> Float[np.ndarray, " layer"]:
        """Return a control's measure by layer, mean over its draws."""
        return self.controls[measure][rung].mean(0)

    def carries(self, *gates: str) -> Float[np.ndarray, "layer head"]:
        """Return what some gates carry together."""
        return self.gates[..., [GATES.index(gate) for gate in gates]].sum(-1)


def read_nearest(inputs: Inputs) -> Nearest:
    """Read the record."""
    return summarise(live_or_record("variant-fine-tuned", inputs, recompute=False)[0])


def summarise(record: Record) -> Nearest:
    """Take means over heads and sequences."""
    critical = normality.critical_value(RECIPE.width)
    own, by_rung = _readers(record)
    layers = _by_layer(record, own, by_rung)
    total, gates, grown = own("D_total")[:, 0], own("gates"), own("grown").mean(0)
    return Nearest(
        **layers,
        **_effects(record),
        **_counts(record, own, by_rung),
        **_phrases(record, own, by_rung, layers["by_seed"]),
        gates=gates.mean(0),
        control_gates={rung: values.mean(1) for rung, values in by_rung("gates").items()},
        company=measure_company(gates),
        failing_sums=(own("D_sum") > critical).mean(0),
        failing_sums_kept=(own("sum_kept") > 1).mean(0),
        control_failing_sums={rung: (values > critical).mean(1) for rung, values in by_rung("D_sum").items()},
        D_total=total,
        mean_total=own("mean_total")[:, 0],
        control_D_total={rung: values[..., 0] for rung, values in by_rung("D_total").items()},
        grown=grown,
        amplified=_of_maps(grown.mean((1, 2))),
        amplified_named=_of_maps(grown[:, 0, 3]),
        control_grown={rung: values.mean((0, 1)) for rung, values in by_rung("grown").items()},
        largest_weights=record.array("maps").mean(0),
        control_largest_weights=by_rung("maps"),
        diagonal=own("diagonal"),
        critical=critical,
        trainings=len(SEEDS),
        sequences=len(total),
        total_passes=int((total <= critical).sum()),
        updates=RECIPE.steps,
        batch=RECIPE.batch,
        rate=f"{RECIPE.rate:.1e}".replace("e-0", "e-"),
    )


def _of_maps(shares: Float[np.ndarray, " map"]) -> str:
    """Write a share for each of Q, K and V."""
    return ", ".join(f"{percent(share, 1)} ({name})" for share, name in zip(shares, MAPS, strict=True))


def _by_layer(record: Record, own, by_rung) -> dict:
    """Average what has one number per layer, and take the MLP's part of the mean cosine."""
    before, without = np.moveaxis(record.array("mlp_cosine").astype(float), -1, 0)
    after = record.array("cosine").astype(float)
    return {
        "layers": {
            name: np.array([mean_interval(column) for column in over_heads(own(name), 1).T]) for name in BY_LAYER
        },
        "by_seed": {name: over_heads(record.array(name), 2).mean(1) for name in BY_LAYER},
        "controls": {
            name: {rung: over_heads(values, 2).mean(1) for rung, values in by_rung(name).items()} for name in BY_LAYER
        },
        "by_mlp": (after - without).mean(1),
        "by_norm": (without - before).mean(1),
    }


def _effects(record: Record) -> dict:
    """Correlate what making a head uniform does with the entropy of its maps and with its depth, means over all."""
    places = [sorted(CLASSES).index(label) for label in READ]
    effects = record.array("effects").mean((0, 1))
    entropy = record.array("entropy")[:, places].mean((0, 1))
    depth = np.indices(effects.shape)[0].ravel()
    return {
        "effect_with_entropy": float(spearmanr(effects.ravel(), entropy.ravel()).statistic),
        "effect_with_depth": float(spearmanr(effects.ravel(), depth).statistic),
        "effect_within": np.array([spearmanr(*both).statistic for both in zip(effects, entropy)]),
    }


def _counts(record: Record, own, by_rung) -> dict:
    """Divide what was counted on maps, summed over layers."""
    counts = own("counts").sum(1)
    by_seed, controls = record.array("counts").sum((1, 2)), by_rung("counts")
    places = {name: [COUNTED.index(part) for part in parts] for name, parts in COUNTS.items()}
    ratios = {name: ratio_interval(counts[:, part], counts[:, whole]) for name, (part, whole) in places.items()}
    start = {name: _divide(controls[START].sum((1, 2)), *both) for name, both in places.items()}
    return {
        "ratios": ratios,
        **_count_phrases(ratios, start),
        "ratios_by_seed": {name: _divide(by_seed, *both) for name, both in places.items()},
        "control_ratios": {
            rung: {name: _divide(values.sum((1, 2)), *both) for name, both in places.items()}
            for rung, values in controls.items()
        },
        "counts": {name: int(counts[:, k].sum().round()) for k, name in enumerate(COUNTED)},
    }


def _count_phrases(ratios: Mapping[str, Interval], start: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write the ratios that the page on gates names."""
    names = {
        "composed": "composed",
        "with_diagonal": "open_with_either",
        "in_company": "in_company",
        "run": "run_covers",
        "short_verticals": "short_verticals",
    }
    return {name: percent(ratios[field].value) for name, field in names.items()} | {
        "composed_start": percent(start["composed"].mean()),
        "end_of_diagonal": f"{ratios['end_of_diagonal'].value:.1f}",
    }


def _divide(totals: Float[np.ndarray, "draw count"], part: int, whole: int) -> Float[np.ndarray, " draw"]:
    """Divide totals; nan where there is nothing to divide by."""
    divisor = totals[:, whole].astype(float)
    return np.divide(totals[:, part], divisor, out=np.full(len(totals), np.nan), where=divisor > 0)


def _phrases(record: Record, own, by_rung, by_seed: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write how well the trainings do, one after another, and what the page on normality says by layer."""

    def each(name: str, digits: int = 0) -> str:
        return ", ".join(percent(record[f"{name}_{seed}"], digits) for seed in SEEDS)

    return {
        "apart_failing": percent(furthest_apart(by_seed["first_failing"])),
        "apart_cosine": f"{furthest_apart(by_seed['cosine']):.2f}",
        "test_right": each("whole_test", 1),
        "follow": each("exchanged_deletions"),
        "bases": each("exchanged_bases"),
        "failing_rows": enumerated(100 * own("first_failing").mean(0), ".0f"),
        "cosine_ends": first_to_last(own("cosine").mean(0)),
        "start_cosine_ends": first_to_last(by_rung("cosine")[START].mean((0, 1))),
        "largest_by_layer": enumerated(own("largest").mean((0, 2)), ".0f"),
        "entropy_by_layer": enumerated(own("entropy").mean((0, 2)), ".2f"),
    }


def furthest_apart(by_seed: Float[np.ndarray, "seed layer"]) -> float:
    """Return how far the trainings are apart, in the layer where they are furthest.

    Examples
    --------
    >>> furthest_apart(np.array([[1.0, 2.0], [1.5, 4.0]]))
    2.0
    """
    return float(np.ptp(by_seed, axis=0).max())


def measure_company(gates: Float[np.ndarray, "sequence layer head gate"]) -> Interval:
    """Return the share of maps with a cluster that hold another pattern as well, mean over sequences."""
    held = gates[..., : len(PATTERNS)] >= CARRIES
    cluster = held[..., GATES.index("cluster")]
    others = np.delete(held, GATES.index("cluster"), -1).any(-1)
    return mean_interval([one[has].mean() for one, has in zip(others, cluster, strict=True)])


def _readers(record: Record):
    """Return readers of an array: of all sequences of all trainings, and of the start and the controls by rung."""

    def own(name: str) -> np.ndarray:
        return np.concatenate(record.array(name)).astype(float)

    def by_rung(name: str) -> dict[str, np.ndarray]:
        return {START: record.array(f"start_{name}")} | dict(zip(RUNGS, record.array(f"ladder_{name}"), strict=True))

    return own, by_rung
