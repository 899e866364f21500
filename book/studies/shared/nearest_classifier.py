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
from analysis.representations import normality
from analysis.statistics.intervals import Interval, mean_interval
from analysis.surveys.records import Record, Value
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated, percent
from book.studies.shared.variant_fine_tuned import RECIPE

BY_LAYER = ("first_failing", "bare_failing", "failing_kept", "D_sum", "cone", "cone_bare", "cosine", "resultant",
            "entropy", "largest", "stable_rank")
"""Measures that have one number per layer and sequence; of those by head, the mean over heads."""
CARRIES = 0.05
"""A map holds a gate when the gate carries this share of its attention."""
SHOWN = [GATES.index("directional"), GATES.index("cluster")]
START = "start"
"""The trained body under rows of k-mers that nothing has trained."""


@dataclass(frozen=True)
class Nearest(Numbers):
    """The fine-tuned classifier by layer, its start and its controls over five seeds.

    ``layers`` holds means over sequences with intervals; ``controls`` has, by measure and rung, means over two
    sequences, the start among the rungs. ``gates`` and ``control_gates`` hold what gates carry, means over sequences.
    ``D_total`` and ``mean_total`` are of the sum of all rows of all layers, ``failing_sums`` the share of sequences in
    which a layer's sum fails. ``grown`` is the share of rows that become longer in Q, K and V, means over sequences.
    """

    prefix: ClassVar[str] = "nearest"
    layers: Mapping[str, Float[np.ndarray, "layer 3"]]
    controls: Mapping[str, Mapping[str, Float[np.ndarray, "seed layer"]]]
    gates: Float[np.ndarray, "layer head gate"]
    control_gates: Mapping[str, Float[np.ndarray, "seed layer head gate"]]
    company: Interval  # of the maps with a cluster those that hold another gate, mean over sequences
    failing_sums: Float[np.ndarray, " layer"]
    control_failing_sums: Mapping[str, Float[np.ndarray, "seed layer"]]
    D_total: Float[np.ndarray, " sequence"]
    mean_total: Float[np.ndarray, " sequence"]
    control_D_total: Mapping[str, Float[np.ndarray, "seed sequence"]]
    grown: Float[np.ndarray, "map layer head"]
    largest_weights: Float[np.ndarray, "map layer head"]
    diagonal: Float[np.ndarray, "sequence layer head part"]
    effect_with_entropy: float
    effect_with_depth: float
    critical: float
    test: Value
    test_right: str
    follow: str
    bases: str
    substitutions: str
    sequences: int
    failing_rows: str
    total_passes: int
    updates: int
    batch: int
    rate: str

    def ladder(self, measure: str) -> Ladder:
        """Return a measure beside its controls, the start left out."""
        return Ladder(self.layers[measure], {rung: self.controls[measure][rung] for rung in RUNGS})

    def panels(self) -> dict[str, tuple[Ladder, Float[np.ndarray, "seed layer"]]]:
        """Return what the figure of the classifier draws: by title, a ladder and the start."""
        titles = {"rows that fail": "first_failing", "D of the sum": "D_sum", "mean cosine": "cosine",
                  "largest value": "largest", "row entropy": "entropy"}
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

    def phrase(self, measure: str, form: str = ".2f") -> str:
        """List a measure by layer."""
        return enumerated(self.layers[measure][:, 0], form)

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
    effects, entropy = own("effects").mean(0), own("entropy")[-len(own("effects")):].mean(0)
    depth = np.indices(effects.shape)[0].ravel()
    return Nearest(
        updates=RECIPE.steps, batch=RECIPE.batch, rate=f"{RECIPE.rate:.1e}".replace("e-0", "e-"),
        layers={name: np.array([mean_interval(column) for column in by_layer(own(name), 1).T]) for name in BY_LAYER},
        controls={name: {rung: by_layer(values, 2).mean(1) for rung, values in by_rung(name).items()}
                  for name in BY_LAYER},
        gates=own("gates").mean(0), control_gates={rung: values.mean(1) for rung, values in by_rung("gates").items()},
        company=measure_company(own("gates")), failing_sums=(own("D_sum") > critical).mean(0),
        control_failing_sums={rung: (values > critical).mean(1) for rung, values in by_rung("D_sum").items()},
        D_total=own("D_total")[:, 0], mean_total=own("mean_total")[:, 0],
        control_D_total={rung: values[..., 0] for rung, values in by_rung("D_total").items()},
        grown=own("grown").mean(0), largest_weights=own("maps"), diagonal=own("diagonal"),
        effect_with_entropy=float(spearmanr(effects.ravel(), entropy.ravel()).statistic),
        effect_with_depth=float(spearmanr(effects.ravel(), depth).statistic), critical=critical,
        test=record.values["whole_test_0"], test_right=percent(record["whole_test_0"], 1),
        follow=percent(record["exchanged_deletions_0"]), bases=percent(record["exchanged_bases_0"]),
        substitutions=percent(record["only_substitutions_0"]), sequences=len(own("D_sum")),
        failing_rows=enumerated(100 * own("first_failing").mean(0), ".0f"),
        total_passes=int((own("D_total") <= critical).sum()))


def measure_company(gates: Float[np.ndarray, "sequence layer head gate"]) -> Interval:
    """Return the share of maps with a cluster that hold another pattern as well, mean over sequences."""
    held = gates[..., :len(PATTERNS)] >= CARRIES
    cluster = held[..., GATES.index("cluster")]
    others = np.delete(held, GATES.index("cluster"), -1).any(-1)
    return mean_interval([one[has].mean() for one, has in zip(others, cluster, strict=True)])


def _readers(record: Record):
    """Return readers of an array: of the fine-tuned classifier, and of its start and controls by rung."""
    def own(name: str) -> np.ndarray:
        return record.array(name)[0].astype(float)

    def by_rung(name: str) -> dict[str, np.ndarray]:
        return {START: record.array(f"start_{name}")} | dict(zip(RUNGS, record.array(f"ladder_{name}"), strict=True))
    return own, by_rung


def by_layer(values: np.ndarray, leading: int) -> np.ndarray:
    """Average over heads, where there are any, after so many leading axes and the layer.

    >>> by_layer(np.ones((2, 6, 12)), 1).shape, by_layer(np.ones((5, 2, 6)), 2).shape
    ((2, 6), (5, 2, 6))
    """
    return values.reshape(*values.shape[:leading + 1], -1).mean(-1)
