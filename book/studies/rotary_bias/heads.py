"""One head at a time: what its kernel is worth to the loss, and whether it makes it look at the previous position."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from book.publish import Numbers
from book.publish.records import Record
from book.studies.rotary_bias.parts import WAYS
from book.studies.rotary_bias.runs import seeds_of

WHOLE, NO_SEMI, NO_SIDE, NO_KERNEL, CONTENT = (
    list(WAYS).index(way) for way in ("whole", "no semi-bias", "no query side", "no kernel", "content only")
)
STRONG = 0.25
"""A head with this share of its attention on the previous position is counted as a previous-token head."""

NAMES = ("kernel of the biases", "kernel of the mean input", "gpt2-mini, either")


@dataclass(frozen=True)
class Heads(Numbers):
    """Arrays are by run, in the order of `runs.RUNS`, layer and head; those of gpt2-mini lack the run.

    ``previous`` is the attention to the previous position; ``without_bias`` and ``without_mean`` are the same without
    the head's own kernel of the biases and of the mean input; ``rise_bias`` and ``rise_mean`` say by how much the loss
    rises without that kernel, in nats per token.
    """

    prefix = "rb"

    previous: Float[np.ndarray, "run layer head"]
    without_bias: Float[np.ndarray, "run layer head"]
    without_mean: Float[np.ndarray, "run layer head"]
    rise_bias: Float[np.ndarray, "run layer head"]
    rise_mean: Float[np.ndarray, "run layer head"]
    gpt2: Mapping[str, Float[np.ndarray, "layer head"]]
    biased: tuple[int, ...]  # runs with biases
    previous_head: str  # of the bundled model, the one that attends most to the previous position, and how much
    previous_best: float
    previous_no_kernel: float  # the same head without the kernel of its biases, and of the mean input
    previous_no_mean_kernel: float
    previous_content: float  # and from content alone, counted from the mean input
    strong_heads: int  # previous-token heads of all runs
    strong_place: str  # the same in words
    strong_left_bias: int  # how many are still without the kernel of the biases, and of the mean input
    strong_left_mean: int
    strong_left_semi: int  # and without the semi-bias of the mean input, and without its query side
    strong_left_side: int
    strong_drop_low: float  # the share of their previous attention that goes with the kernel of the mean input
    strong_drop_high: float
    gpt2_rise_head: float  # the largest change of gpt2-mini's loss
    head_rise_bias_high: float  # the largest rise by one head, over all runs
    head_rise_mean_high: float
    later_least: float  # of layer 1's largest, without the kernel of the mean input of a head of layer 0, at the least
    strong: float = STRONG

    @property
    def previous_panel(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the attention to the previous position with a head's kernel and without it, by what is left out."""
        own, gpt2 = self.previous[list(self.biased)], self.gpt2
        return {
            NAMES[0]: (own, self.without_bias[list(self.biased)]),
            NAMES[1]: (self.previous, self.without_mean),
            NAMES[2]: (gpt2["previous"], gpt2["without_mean"]),
        }

    @property
    def rise_panel(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return that attention with the rise of the loss, by what is left out."""
        own, gpt2 = self.previous[list(self.biased)], self.gpt2
        return {
            NAMES[0]: (own, self.rise_bias[list(self.biased)]),
            NAMES[1]: (self.previous, self.rise_mean),
            NAMES[2]: (gpt2["previous"], gpt2["rise_mean"]),
        }


def measure_heads(record: Record) -> Heads:
    """Read the ablations by head off the record of the trainings."""
    bias, mean, gpt2 = (record.array(name) for name in ("previous_bias", "previous_mean", "gpt2_previous_mean"))
    previous, without_bias, without_mean = bias[:, WHOLE], bias[:, NO_KERNEL], mean[:, NO_KERNEL]
    rise_bias, rise_mean = record.array("by_head_bias"), record.array("by_head_mean")
    layer, head = np.unravel_index(previous[0].argmax(), previous.shape[1:])
    strong = previous >= STRONG
    drop = 1 - without_mean[strong] / previous[strong]
    later = int(previous[0, -1].argmax())
    after = record.array("previous_after_mean")[0, 0, :, -1, later]  # without a head of layer 0, by that head
    control = {
        "previous": gpt2[WHOLE],
        "without_bias": record.array("gpt2_previous_bias")[NO_KERNEL],
        "without_mean": gpt2[NO_KERNEL],
        "rise_bias": record.array("gpt2_by_head_bias"),
        "rise_mean": record.array("gpt2_by_head_mean"),
    }
    biased = tuple(seeds_of("neox-mini") + seeds_of("neox-mini-partial"))
    return Heads(
        previous,
        without_bias,
        without_mean,
        rise_bias,
        rise_mean,
        control,
        biased,
        previous_head=f"{layer}.{head}",
        previous_best=float(previous[0, layer, head]),
        previous_no_kernel=float(without_bias[0, layer, head]),
        previous_no_mean_kernel=float(without_mean[0, layer, head]),
        previous_content=float(mean[0, CONTENT, layer, head]),
        **count_strong(record),
        strong_place=_place(int(strong.sum()), int(strong[:, -1].sum())),
        strong_drop_low=float(drop.min()),
        strong_drop_high=float(drop.max()),
        gpt2_rise_head=float(max(abs(control["rise_bias"]).max(), abs(control["rise_mean"]).max())),
        head_rise_bias_high=float(rise_bias.max()),
        head_rise_mean_high=float(rise_mean.max()),
        later_least=float(after.min()),
    )


def count_strong(record: Record) -> dict[str, int]:
    """Count the previous-token heads of a record's runs, and those that still are without a part of their scores."""
    bias, mean = record.array("previous_bias"), record.array("previous_mean")
    strong = bias[:, WHOLE] >= STRONG
    left = {"bias": bias[:, NO_KERNEL], "mean": mean[:, NO_KERNEL], "semi": mean[:, NO_SEMI], "side": mean[:, NO_SIDE]}
    return {"strong_heads": int(strong.sum())} | {
        f"strong_left_{name}": int((values[strong] >= STRONG).sum()) for name, values in left.items()
    }


def _place(heads: int, last: int) -> str:
    """Say how many of some heads are in the last layer.

    >>> _place(34, 34), _place(34, 3)
    (', all of them in the last layer', ', 3 of them in the last layer')
    """
    return f", {'all' if heads == last else last} of them in the last layer"
