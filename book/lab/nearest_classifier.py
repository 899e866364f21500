"""The nearest model to the paper's classifier that can be had: its recipe repeated in small (``variant-fine-tuned``).

The authors fine-tuned a model of English text under fresh rows of k-mers. So the nearest is MiniLM's body, fine-tuned
in the same way on simulated genes. What it says decides a claim about the paper's own model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.models.controls import LEVELS
from analysis.statistics import normality
from analysis.statistics.intervals import mean_interval
from book.experiments.variant_fine_tuned import READ, RECIPE
from book.lab.averages import over_heads
from book.lab.dna.simulate import CLASSES
from book.publish import Inputs, live_or_record
from book.publish.phrases import enumerated, first_to_last
from book.publish.records import Record

STAND_IN = "MiniLM fine-tuned on simulated genes"
NEAREST = f"In {STAND_IN}, "
"""What evidence about it begins with."""
BY_LAYER = [
    "first_failing",
    "failing_kept",
    "padded_first_failing",
    "D_sum",
    "cone",
    "resultant",
    "cosine",
    "entropy",
    "largest",
]
"""Measures that have one number per layer and sequence; of those by head, the mean over heads."""
START = "start"
"""The trained body under rows of k-mers that nothing has trained."""


@dataclass(frozen=True)
class Nearest:
    """The fine-tuned classifier by layer, its start and its controls over five seeds.

    Means and intervals are over the sequences of all trainings, ``by_seed`` has means over those of each. ``controls``
    has, by measure and level, means over two sequences, the start among the levels. ``D_total`` and ``mean_total`` are
    of the sum of all rows of all layers, ``failing_sums`` the share of sequences in which a layer's sum fails,
    ``failing_sums_kept`` without its extreme coordinates. ``effect_within`` correlates the effect of making a head
    uniform with its entropy, within each layer.
    """

    layers: Mapping[str, Float[np.ndarray, "layer 3"]]
    by_seed: Mapping[str, Float[np.ndarray, "seed layer"]]
    controls: Mapping[str, Mapping[str, Float[np.ndarray, "draw layer"]]]
    failing_sums: Float[np.ndarray, " layer"]
    failing_sums_kept: Float[np.ndarray, " layer"]
    D_total: Float[np.ndarray, " sequence"]
    mean_total: Float[np.ndarray, " sequence"]
    control_D_total: Mapping[str, Float[np.ndarray, "draw sequence"]]
    effect_with_entropy: float
    effect_with_depth: float
    effect_within: Float[np.ndarray, " layer"]
    critical: float

    def rises(self, measure: str) -> list[float]:
        """Return the rank correlation of a measure with depth in each training."""
        return [float(spearmanr(range(len(own)), own).statistic) for own in self.by_seed[measure]]

    def phrase(self, measure: str, form: str = ".2f") -> str:
        """List a measure by layer."""
        return enumerated(self.layers[measure][:, 0], form)

    def shares(self, measure: str) -> str:
        """List a share by layer, in per cent."""
        return f"{enumerated(100 * self.layers[measure][:, 0], '.0f')} %"

    def phrase_ends(self, measure: str) -> str:
        """Write a measure's first and last layer."""
        return first_to_last(self.layers[measure][:, 0])

    def level(self, measure: str, level: str) -> Float[np.ndarray, " layer"]:
        """Return a control's measure by layer, mean over its draws."""
        return self.controls[measure][level].mean(0)


def read_nearest(inputs: Inputs) -> Nearest:
    """Read the record."""
    record = live_or_record("variant-fine-tuned", inputs, recompute=False)[0]
    own, by_level = readers(record)
    critical = normality.critical_value(RECIPE.width)
    return Nearest(
        layers={name: np.array([mean_interval(column) for column in over_heads(own(name), 1).T]) for name in BY_LAYER},
        by_seed={name: over_heads(record.array(name), 2).mean(1) for name in BY_LAYER},
        controls={
            name: {level: over_heads(values, 2).mean(1) for level, values in by_level(name).items()}
            for name in BY_LAYER
        },
        failing_sums=(own("D_sum") > critical).mean(0),
        failing_sums_kept=(own("sum_kept") > 1).mean(0),
        D_total=own("D_total")[:, 0],
        mean_total=own("mean_total")[:, 0],
        control_D_total={level: values[..., 0] for level, values in by_level("D_total").items()},
        critical=critical,
        **_effects(record),
    )


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


def readers(record: Record) -> tuple[Callable[[str], np.ndarray], Callable[[str], dict[str, np.ndarray]]]:
    """Return readers of an array: of all sequences of all trainings, and of the start and the controls by level."""

    def own(name: str) -> np.ndarray:
        return np.concatenate(record.array(name)).astype(float)

    def by_level(name: str) -> dict[str, np.ndarray]:
        return {START: record.array(f"start_{name}")} | dict(zip(LEVELS, record.array(f"ladder_{name}"), strict=True))

    return own, by_level
