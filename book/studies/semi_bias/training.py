"""When, in gpt2-mini's training, the semi-bias points along the positions, and where several seeds of it end."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from analysis.models.controls import RUNGS
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Record
from book.studies.semi_bias.experiments import SEEDS
from book.studies.semi_bias.locality import MEASURES

STEADY = 0.9  # a rank correlation above this is called steady


@dataclass(frozen=True)
class Emergence(Numbers):
    """The training of several seeds of gpt2-mini, of which the first is bundled.

    Held-out loss, and of the first layer the rank correlation and the spread of the semi-bias of raw positions. Numbers
    are those of the bundled seed, or with ``low`` and ``high`` the least and the largest of all seeds.
    """

    step: Int[np.ndarray, " time"]
    held_out: Float[np.ndarray, "seed time"]
    rho: Float[np.ndarray, "seed time head"]
    spread: Float[np.ndarray, "seed time head"]
    em_seeds: int
    em_step_low: int  # from here on, half of the heads or more have a rank correlation above one half
    em_step_high: int
    em_loss: float  # the loss there, in the bundled seed
    em_half_low: int  # where the median spread reaches half of its final size
    em_half_high: int
    em_half_loss: float
    em_last: int
    em_last_loss: float
    em_last_loss_low: float
    em_last_loss_high: float
    em_first_loss: float


@dataclass(frozen=True)
class Endings(Numbers):
    """The first layer of several seeds of gpt2-mini when training has ended, and of the controls of the first.

    ``tilt`` and, by rung, ``ladder`` are in the order of ``endings.MEASURES``. Of a seed's heads the median is meant
    where nothing else is said; ``low`` and ``high`` are the least and the largest seed.
    """

    tilt: Float[np.ndarray, "seed measure head"]
    ladder: Mapping[str, Float[np.ndarray, "seed measure head"]]
    end_heads: int  # of all seeds
    end_rising: int
    end_rho: float  # the least rank correlation of T^p with the position
    end_sum_low: float  # mass on the nearest 16 keys: of T^p and T^pp, and of T^p alone
    end_sum_high: float
    end_p_low: float
    end_p_high: float
    end_spread_low: float  # of T^p over positions, in nats
    end_spread_high: float
    end_control_spread: float  # the most of any head of a control
    end_control_sum: float  # the most that a head of a control puts on the nearest 16
    end_control_steady: int  # heads of controls whose rank correlation is above 0.9, of so many
    end_control_heads: int
    end_overlap_low: float
    end_overlap_high: float
    end_bq_low: float  # by how much the loss on the passages, in nats, rises without b_Q in the first layer
    end_bq_high: float
    end_positive_low: int  # heads in which token norm and semi-bias correlate positively, and at equal frequency
    end_positive_high: int
    end_partial_low: int
    end_partial_high: int


def read(inputs: Inputs) -> Record:
    """Read the record of the several seeds."""
    return live_or_record("semi-bias-emergence", inputs, recompute=False)[0]


def measure_emergence(inputs: Inputs) -> Emergence:
    """Find when the semi-bias points along the positions, and when it has half its size."""
    record = read(inputs)
    step, loss = record.array("step"), record.array("held_out")
    rho, spread = (record.array(name)[:, :, 0] for name in ("rank_correlation", "size"))
    appears = [record[f"appears_{seed}"] for seed in SEEDS]
    medians = np.median(spread, -1)
    half = (medians > medians[:, -1:] / 2).argmax(1)
    return Emergence(
        step,
        loss,
        rho,
        spread,
        em_seeds=len(SEEDS),
        em_step_low=min(appears),
        em_step_high=max(appears),
        em_loss=float(loss[0, step == appears[0]][0]),
        em_half_low=int(step[half.min()]),
        em_half_high=int(step[half.max()]),
        em_half_loss=float(loss[0, half[0]]),
        em_last=int(step[-1]),
        em_last_loss=float(loss[0, -1]),
        em_last_loss_low=float(loss[:, -1].min()),
        em_last_loss_high=float(loss[:, -1].max()),
        em_first_loss=float(loss[0, 0]),
    )


def measure_endings(inputs: Inputs) -> Endings:
    """Set the trained first layers of the seeds beside the controls of one."""
    record = read(inputs)
    tilt, controls, tokens = (record.array(name) for name in ("tilt", "ladder", "tokens"))
    losses = record.array("losses")
    rho, spread, alone, both = (MEASURES.index(name) for name in MEASURES)
    positive, partial = (tokens > 0).sum(-1).T
    medians, overlap = np.median(tilt, -1), np.median(record.array("overlap"), -1)
    return Endings(
        tilt,
        dict(zip(RUNGS, controls, strict=True)),
        end_heads=tilt[:, rho].size,
        end_rising=int((tilt[:, rho] > 0).sum()),
        end_rho=float(tilt[:, rho].min()),
        **ends("sum", medians[:, both]),
        **ends("p", medians[:, alone]),
        **ends("spread", medians[:, spread]),
        end_control_spread=float(controls[:, :, spread].max()),
        end_control_sum=float(controls[:, :, both].max()),
        end_control_steady=int((controls[:, :, rho] > STEADY).sum()),
        end_control_heads=controls[:, :, rho].size,
        **ends("overlap", overlap),
        **ends("bq", losses[:, 1] - losses[:, 0]),
        **ends("positive", positive),
        **ends("partial", partial),
    )


def ends(name: str, values: np.ndarray) -> dict[str, float | int]:
    """Return the least and the largest value as fields of :class:`Endings`.

    >>> ends("loss", np.array([2, 1, 3]))
    {'end_loss_low': 1, 'end_loss_high': 3}
    """
    return {f"end_{name}_low": values.min().item(), f"end_{name}_high": values.max().item()}
