"""The semi-bias in every layer: raw positions and weights of GPT-2, and the states of gpt2-mini."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from analysis.maps.locality import position_share
from analysis.models.controls import RUNGS
from book.publish import Numbers
from book.publish.records import Record, Result
from book.studies.semi_bias.first_layer import FirstLayer

LATER = 2  # the first layer that counts as a later one


@dataclass(frozen=True)
class Layers(Numbers):
    """Raw positions in every layer of GPT-2, and what of the position is left in the states of gpt2-mini.

    The effective semi-bias, over sigma(p): its rank correlation with the position, its spread, and the lead of key 0
    over the mean of the other positions, in nats. ``ladder`` holds, by rung, in how many heads key 0 is ahead.
    """

    rho: Float[np.ndarray, "layer head"]
    spread: Float[np.ndarray, "layer head"]
    first_lead: Float[np.ndarray, "layer head"]
    ahead: Int[np.ndarray, " layer"]
    ladder: Mapping[str, Int[np.ndarray, "seed layer"]]
    deep_0: float  # median spread in layers 0 and 6, in nats
    deep_6: float
    ahead_low: int  # heads in which key 0 is ahead, from layer 2 on: fewest in a layer, and all
    ahead_all: int
    deep_heads: int
    ahead_control_low: int  # the same from layer 2 on in the controls: fewest and most of all rungs and seeds
    ahead_control_high: int
    top_all: int  # heads from layer 2 on in which no other position scores higher than key 0
    share_0: float  # share of the variance of what layers 0 and 1 read that the position explains
    share_1: float
    cos_0: float  # median cosine of the mean state at a position with the position's vector
    cos_1: float


def measure_layers(
    gpt2: Record | Result, mini: FirstLayer, language_model: nn.Module, windows: Int[Tensor, "window position"]
) -> Layers:
    """Feed raw positions to every layer of GPT-2; measure what is left of the position in gpt2-mini's states."""
    spread, lead = gpt2.array("effective_std"), gpt2.array("first_lead")
    medians, ahead = np.median(spread, axis=1), (lead > 0).sum(1)
    controls = (gpt2.array("ladder_first_lead") > 0).sum(-1)
    later = ahead[LATER:] if len(ahead) > LATER else ahead
    late_controls = controls[..., -len(later) :].sum(-1)
    states = language_model.transformer(windows[:, :-1], output_hidden_states=True).hidden_states[:2]
    shares = [position_share(state) for state in states]
    cosines = [_cosine_with_positions(state, mini.positions) for state in states]
    return Layers(
        gpt2.array("effective_rho"),
        spread,
        lead,
        ahead,
        dict(zip(RUNGS, controls, strict=True)),
        float(medians[0]),
        float(medians[min(6, len(medians) - 1)]),
        ahead_low=int(later.min()),
        ahead_all=int(later.sum()),
        deep_heads=len(later) * lead.shape[1],
        ahead_control_low=int(late_controls.min()),
        ahead_control_high=int(late_controls.max()),
        top_all=int((gpt2.array("first_beaten_by")[-len(later) :] == 0).sum()),
        share_0=shares[0],
        share_1=shares[1],
        cos_0=cosines[0],
        cos_1=cosines[1],
    )


def _cosine_with_positions(state: Float[Tensor, "window position model"], p: Float[Tensor, "position model"]) -> float:
    """Return the median cosine of the mean state at a position with the position's vector, both less their mean."""
    mean_state = state.mean(0) - state.mean((0, 1))
    return float(torch.nn.functional.cosine_similarity(mean_state, p - p.mean(0), dim=1).median())
