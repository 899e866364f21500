"""What the recorded trainings say: seeds and variants side by side."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from book.lab.training import gpt2_mini
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Record
from book.studies.rotary_bias.parts import WAYS
from book.studies.rotary_bias.run_measures import LENGTHS, LONG_TOKENS, SCALINGS
from book.studies.rotary_bias.runs import RUNS, seeds_of
from book.studies.rotary_bias.shares import COUNTED, PARTS

WHOLE = list(WAYS).index("whole")
SPREADS = {
    "rise_query": ("neox-mini", "bias", "no query bias"),
    "rise_key": ("neox-mini", "bias", "no key bias"),
    "rise_kernel": ("neox-mini", "bias", "no kernel"),
    "rise_side": ("neox-mini", "bias", "no query side"),
    "mean_semi": ("neox-mini", "mean", "no semi-bias"),
    "mean_side": ("neox-mini", "mean", "no query side"),
    "mean_kernel": ("neox-mini", "mean", "no kernel"),
    "unbiased_kernel": ("neox-mini-unbiased", "mean", "no kernel"),
    "partial_kernel": ("neox-mini-partial", "mean", "no kernel"),
    "partial_key": ("neox-mini-partial", "bias", "no key bias"),
}
"""Names of numbers on the page: the rise of which variant's loss without what, counted from where."""


@dataclass(frozen=True)
class Seeds(Numbers):
    """Losses in nats per token on held-out text; arrays are by run, in the order of ``runs``.

    ``rise`` is that of the loss when parts are left out, by what they are counted from; ``rise_piece`` that without the
    coordinates of the key vector that are turned, and without the others; ``shares`` ends with the part that nothing
    turns; ``longer`` holds loss and accuracy by the length of the window.
    """

    prefix = "rb"

    runs: tuple[tuple[str, int], ...]
    loss: Float[np.ndarray, " run"]
    rise: Float[np.ndarray, "run counted way"]
    rise_piece: Float[np.ndarray, "run counted piece"]
    shares: Float[np.ndarray, "run counted layer head part"]
    longer: Float[np.ndarray, "run length measure"]
    stretched: Float[np.ndarray, "run scaling measure"]
    gpt2_rise: Float[np.ndarray, "counted way"]
    run_count: int
    seeds: int  # of each variant
    partial_seeds: int
    unbiased_seeds: int
    loss_low: float  # of all runs
    loss_high: float
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
    partial_kernel_low: float
    partial_kernel_high: float
    partial_key_low: float
    partial_key_high: float
    turned_piece_low: float  # of neox-mini-partial, without the turned coordinates of the mean key
    turned_piece_high: float
    gpt2_query: float  # gpt2-mini without b_Q
    mean_semi_low: float  # without the semi-bias of the mean input
    mean_semi_high: float
    losses_at_first_low: float  # at the trained length, on the text that the lengths are compared on
    losses_at_first_high: float
    longer_biased_low: float  # by how much the loss rises from 128 to 1,024 tokens
    longer_biased_high: float
    longer_unbiased_low: float
    longer_unbiased_high: float
    longer_partial_low: float
    longer_partial_high: float
    yarn_gain_low: float  # by how much YaRN's frequencies lower the loss at four times the trained length
    yarn_gain_high: float
    length_first: int = LENGTHS[0]
    length_last: int = LENGTHS[-1]
    length_tokens: int = LONG_TOKENS - 1  # that each length is measured on, from the start of the held-out text
    windows: int = gpt2_mini.WINDOWS  # that all other losses are measured on, spread over the held-out text


def measure_seeds(inputs: Inputs) -> tuple[Seeds, Record, str]:
    """Read the record of the trainings; nothing is trained for a page."""
    record, sentence = live_or_record("rotary-bias-trainings", inputs, recompute=False)
    without, longer, gpt2 = (record.array(name) for name in ("without", "longer", "gpt2_without"))
    rise = without - without[..., WHOLE : WHOLE + 1]
    piece = record.array("without_piece") - without[..., WHOLE : WHOLE + 1]
    full, part, bare = (seeds_of(name) for name in ("neox-mini", "neox-mini-partial", "neox-mini-unbiased"))
    stretched = record.array("stretched")[..., 0]
    gain = stretched[:, SCALINGS.index("as trained")] - stretched[:, SCALINGS.index("YaRN")]
    grow = longer[:, -1, 0] - longer[:, 0, 0]
    numbers: dict[str, float] = {}
    for name, (variant, counted, way) in SPREADS.items():
        values = rise[seeds_of(variant), COUNTED.index(counted), list(WAYS).index(way)]
        numbers |= {f"{name}_low": float(values.min()), f"{name}_high": float(values.max())}
    for name, runs in (("biased", full), ("unbiased", bare), ("partial", part)):
        numbers |= {f"longer_{name}_low": float(grow[runs].min()), f"longer_{name}_high": float(grow[runs].max())}
    turned, loss = piece[part, COUNTED.index("mean"), 0], record.array("held_out")[:, -1]
    return (
        Seeds(
            RUNS,
            loss,
            rise,
            piece,
            record.array("shares"),
            longer,
            record.array("stretched"),
            gpt2 - gpt2[:, WHOLE : WHOLE + 1],
            run_count=len(RUNS),
            seeds=len(full),
            partial_seeds=len(part),
            unbiased_seeds=len(bare),
            loss_low=float(loss.min()),
            loss_high=float(loss.max()),
            **numbers,
            turned_piece_low=float(turned.min()),
            turned_piece_high=float(turned.max()),
            gpt2_query=float(gpt2[0, list(WAYS).index("no query bias")] - gpt2[0, WHOLE]),
            losses_at_first_low=float(longer[:, 0, 0].min()),
            losses_at_first_high=float(longer[:, 0, 0].max()),
            yarn_gain_low=float(gain.min()),
            yarn_gain_high=float(gain.max()),
        ),
        record,
        sentence,
    )


def mean_shares(shares: Float[np.ndarray, "*run layer head part"]) -> Float[np.ndarray, "*run layer part"]:
    """Return what each of the four parts explains of the divergence of a layer's heads together.

    >>> mean_shares(np.ones((1, 2, 2, 8, 5))).round(2).tolist()[0][0][0]
    [0.25, 0.25, 0.25, 0.25]
    """
    by_layer = shares[..., : len(PARTS)].sum(-2)
    return by_layer / by_layer.sum(-1, keepdims=True)


__all__ = ["LENGTHS", "SCALINGS", "Seeds", "mean_shares", "measure_seeds"]
