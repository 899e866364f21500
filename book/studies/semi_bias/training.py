"""When, in gpt2-mini's training, the semi-bias points along the positions: the bundled seed, and another."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from book.publish import Inputs, Numbers, live_or_record
from book.studies.semi_bias.emergence import SEEDS


@dataclass(frozen=True)
class Emergence(Numbers):
    """The training of two seeds of gpt2-mini, of which the first is bundled.

    Held-out loss, and of the first layer the rank correlation and the spread of the semi-bias of raw positions. The
    numbers are those of the bundled seed, but for ``em_other_step``.
    """

    step: Int[np.ndarray, " time"]
    held_out: Float[np.ndarray, "seed time"]
    rho: Float[np.ndarray, "seed time head"]
    spread: Float[np.ndarray, "seed time head"]
    em_step: int  # from here on, half of the heads or more have a rank correlation above one half
    em_other_step: int  # the same in the other seed
    em_loss: float
    em_half: int  # where the median spread reaches half of its final size
    em_half_loss: float
    em_last: int
    em_last_loss: float
    em_first_loss: float


def measure_emergence(inputs: Inputs) -> Emergence:
    """Find when the semi-bias points along the positions, and when it has half its size."""
    record, _ = live_or_record("semi-bias-emergence", inputs, recompute=False)
    step, loss = record.array("step"), record.array("held_out")
    rho, spread = (record.array(name)[:, :, 0] for name in ("rank_correlation", "size"))
    first, other = (record[f"appears_{seed}"] for seed in SEEDS)
    half_size = np.flatnonzero(np.median(spread[0], 1) > np.median(spread[0, -1]) / 2)[0]
    return Emergence(
        step, loss, rho, spread, em_step=first, em_other_step=other, em_loss=float(loss[0, step == first][0]),
        em_half=int(step[half_size]), em_half_loss=float(loss[0, half_size]), em_last=int(step[-1]),
        em_last_loss=float(loss[0, -1]), em_first_loss=float(loss[0, 0]))
