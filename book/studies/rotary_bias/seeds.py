"""What the recorded trainings say: seeds and variants side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from book.publish import Inputs, Numbers, live_or_record
from book.studies.rotary_bias.parts import WAYS
from book.studies.rotary_bias.trainings import COUNTED, LENGTHS, RUNS, SCALINGS, seeds_of

WHOLE = list(WAYS).index("whole")


@dataclass(frozen=True)
class Seeds(Numbers):
    """Losses in nats per token on held-out text; arrays are by run, in the order of ``runs``.

    ``rise`` is that of the loss when parts are left out, by what they are counted from; ``previous`` is the mean
    attention to the previous position; ``longer`` holds loss and accuracy by the length of the window.
    """

    prefix = "rb"

    runs: tuple[tuple[str, int], ...]
    loss: Float[np.ndarray, " run"]
    rise: Float[np.ndarray, "run counted way"]
    rise_by_head: Float[np.ndarray, "run counted layer head"]
    previous: Float[np.ndarray, "run counted way layer head"]
    longer: Float[np.ndarray, "run length measure"]
    stretched: Float[np.ndarray, "run scaling measure"]
    gpt2_rise: Float[np.ndarray, " way"]
    seeds: int  # of neox-mini
    variants: int
    rise_query_low: float  # without b_Q, over the seeds of neox-mini
    rise_query_high: float
    rise_key_low: float
    rise_key_high: float
    rise_kernel_low: float  # without the kernel of the biases
    rise_kernel_high: float
    rise_side_low: float
    rise_side_high: float
    mean_kernel_low: float  # without the kernel of the mean input
    mean_kernel_high: float
    mean_side_low: float
    mean_side_high: float
    unbiased_kernel_low: float
    unbiased_kernel_high: float
    gpt2_query: float  # gpt2-mini without b_Q
    previous_best: float  # the largest attention to the previous position, of the bundled model
    previous_head: str
    previous_no_kernel: float  # the same head without the kernel of its biases, and of the mean input
    previous_no_mean_kernel: float
    previous_content: float  # and from content alone, counted from the mean input
    longer_biased: float  # by how much the loss rises from 128 to 1,024 tokens, mean over seeds
    longer_unbiased: float
    yarn_gain_low: float  # by how much YaRN's frequencies lower the loss at four times the trained length
    yarn_gain_high: float
    extrapolation: str  # a sentence: which kind of model does worse, seed by seed
    length_first: int = LENGTHS[0]
    length_last: int = LENGTHS[-1]


def measure_seeds(inputs: Inputs) -> tuple[Seeds, str]:
    """Read the record of the trainings; nothing is trained for a page."""
    record, sentence = live_or_record("rotary-bias-trainings", inputs, recompute=False)
    without, previous, longer = (record.array(name) for name in ("without", "previous", "longer"))
    rise = without - without[..., WHOLE:WHOLE + 1]
    gpt2 = record.array("gpt2_without")
    full, bare = seeds_of("neox-mini"), seeds_of("neox-mini-unbiased")
    layer, head = np.unravel_index(previous[0, 0, WHOLE].argmax(), previous.shape[-2:])
    stretched = record.array("stretched")[..., 0]
    gain = stretched[:, SCALINGS.index("none")] - stretched[:, SCALINGS.index("yarn")]
    grow = longer[:, -1, 0] - longer[:, 0, 0]
    ways, bias, mean = list(WAYS), *range(len(COUNTED))

    def ends(runs: Sequence[int], counted: int, way: str) -> tuple[float, float]:
        values = rise[runs, counted, ways.index(way)]
        return float(values.min()), float(values.max())

    numbers = {}
    for name, runs, counted, way in (
            ("rise_query", full, bias, "no query bias"), ("rise_key", full, bias, "no key bias"),
            ("rise_kernel", full, bias, "no kernel"), ("rise_side", full, bias, "no query side"),
            ("mean_kernel", full, mean, "no kernel"), ("mean_side", full, mean, "no query side"),
            ("unbiased_kernel", bare, mean, "no kernel")):
        numbers[f"{name}_low"], numbers[f"{name}_high"] = ends(runs, counted, way)
    best = previous[0, :, :, layer, head]
    return Seeds(
        RUNS, record.array("held_out")[:, -1], rise, record.array("by_head"), previous, longer,
        record.array("stretched"), gpt2 - gpt2[WHOLE], seeds=len(full),
        variants=len({name for name, _ in RUNS}), **numbers,
        gpt2_query=float(gpt2[ways.index("no query bias")] - gpt2[WHOLE]),
        previous_best=float(best[0, WHOLE]), previous_head=f"{layer}.{head}",
        previous_no_kernel=float(best[bias, ways.index("no kernel")]),
        previous_no_mean_kernel=float(best[mean, ways.index("no kernel")]),
        previous_content=float(best[mean, ways.index("content only")]),
        longer_biased=float(grow[full].mean()), longer_unbiased=float(grow[bare].mean()),
        yarn_gain_low=float(gain.min()), yarn_gain_high=float(gain.max()),
        extrapolation=_compare(grow[full], grow[bare])), sentence


def _compare(biased: Float[np.ndarray, " seed"], unbiased: Float[np.ndarray, " seed"]) -> str:
    """Say which models lose more at length, if all seeds agree.

    >>> _compare(np.array([1.0, 2.0]), np.array([0.5]))
    'Every model with biases loses more than any without them, so the reported effect is not seen here.'
    """
    if biased.min() > unbiased.max():
        return "Every model with biases loses more than any without them, so the reported effect is not seen here."
    if biased.max() < unbiased.min():
        return "Every model with biases loses less than any without them, as reported; how much less is another matter."
    return "The seeds overlap, so that nothing can be said for or against the reported effect."


__all__ = ["LENGTHS", "SCALINGS", "Seeds", "measure_seeds"]
