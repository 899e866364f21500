"""What the page on the induction head shows and what its verdicts rest on, computed once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from analysis.transformer import induction
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.induction_head.prediction import Prediction, ReadingSearch, measure_prediction, search_readings
from book.studies.induction_head.trained import Trained, Training, measure_trained, read_training
from book.studies.induction_head.walkthrough import ByHand, measure_by_hand

# ---- How sharp the head must be: the attention that its only match gets, measured and in closed form

KEYS = (8, 64, 512)
SEPARATE = 64  # keys of the head whose layers are sharp to different degrees
BETAS = np.arange(13.0)  # nats: where the whole head is measured


@dataclass(frozen=True)
class Sharpness(Numbers):
    """Attention to the only match against the sharpness, in nats.

    Attributes
    ----------
    needed_million
        Sharpness at which the one match among a million keys gets 99.9 %.
    overflow
        Logarithm of the largest float32.
    separate_keys, separate_second, separate_first
        With the layers sharp to different degrees: the number of keys, the sharpness of layer 2 that gives its match
        nine tenths, and the least one of layer 1, in steps of a tenth, at which the match has 0.89.
    betas, closed_form
        The curves of the figure, by number of keys: layer 1 saturated.
    whole_head
        The points of the figure, by number of keys: sharpness and measured attention, both layers as sharp.
    differences
        How far these points lie from the closed form, by number of keys.
    """

    needed_million: float
    overflow: float
    separate_keys: int
    separate_second: float
    separate_first: float
    betas: np.ndarray
    closed_form: Mapping[int, list[float]]
    whole_head: Mapping[int, tuple[np.ndarray, np.ndarray]]
    differences: Mapping[int, np.ndarray]


def measure_sharpness(device: torch.device) -> Sharpness:
    """Measure the whole head at whole sharpnesses, and the closed form between them."""
    betas = np.linspace(0, 12, 121, dtype=np.float32)
    measured = {keys: np.array([attention_to_match(beta, keys, device) for beta in BETAS]) for keys in KEYS}
    return Sharpness(
        induction.required_sharpness(0.999, 10**6),
        math.log(torch.finfo(torch.float32).max),
        SEPARATE,
        induction.required_sharpness(0.9, SEPARATE),
        least_first_sharpness(SEPARATE, device),
        betas,
        {keys: closed_form(betas, keys) for keys in KEYS},
        {keys: (BETAS, measured[keys]) for keys in KEYS},
        {keys: abs(measured[keys] - closed_form(BETAS, keys)) for keys in KEYS},
    )


def closed_form(betas: np.ndarray, keys: int) -> list[float]:
    """Return the attention to the only match with layer 1 saturated."""
    return [induction.target_mass(float(beta), keys, matches=1) for beta in betas]


def least_first_sharpness(keys: int, device: torch.device) -> float:
    """Return the least sharpness of layer 1 that costs the match less than a hundredth of nine tenths, or so."""
    second = induction.required_sharpness(0.9, keys)
    return next(
        beta for beta in np.arange(0, 12, 0.1) if attention_to_match(second, keys, device, first=float(beta)) > 0.89
    )


def attention_to_match(beta: float, keys: int, device: torch.device, first: float | None = None) -> float:
    """Return the attention of the last token of ``! a b ! ! ! ... a`` to its only match.

    Layer 1 is as sharp as layer 2, unless ``first`` says how sharp it is.
    """
    tokens = torch.zeros(keys, dtype=torch.long, device=device)
    tokens[1], tokens[2], tokens[-1] = 1, 2, 1
    head = induction.build(3, keys, beta=float(beta), device=device)
    layer = head.first if first is None else induction.build(3, keys, beta=first, device=device).first
    stored = induction.step(induction.embed(tokens, head), layer).output
    return induction.step(stored, head.second).attention[-1, 2].item()


# ---- What the page on the induction head shows and what its verdicts rest on, computed once


@dataclass(frozen=True)
class Measured(Numbers):
    """The measurement of the chapter, by sections of the page."""

    inputs: Inputs
    by_hand: ByHand
    readings: ReadingSearch
    prediction: Prediction
    sharpness: Sharpness
    training: Training
    trained: Trained


@torch.no_grad()
def measure(device: str = "auto") -> Measured:
    """Measure the hand-built head, the readings of the slides' tables, and the trained transformers.

    Parameters
    ----------
    device
        Where the trained transformer and the long sequences are computed; the slides' six rows stay on the CPU.
    """
    inputs = choose_inputs(device=device)
    return Measured(
        inputs,
        measure_by_hand(),
        search_readings(),
        measure_prediction(),
        measure_sharpness(inputs.device),
        read_training(inputs),
        measure_trained(inputs.device),
    )
