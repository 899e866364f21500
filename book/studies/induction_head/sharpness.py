"""How sharp the head must be: the attention that its only match gets, measured and in closed form."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from analysis.transformer import induction
from book.publish import Numbers

KEYS = (8, 64, 512)
BETAS = np.arange(13.0)      # nats: where the whole head is measured


@dataclass(frozen=True)
class Sharpness(Numbers):
    """Attention to the only match against the sharpness, in nats.

    Attributes
    ----------
    needed_million
        Sharpness at which the one match among a million keys gets 99.9 %.
    overflow
        Logarithm of the largest float32.
    betas, closed_form
        The curves of the figure, by number of keys: layer 1 saturated.
    whole_head
        The points of the figure, by number of keys: sharpness and measured attention, both layers as sharp.
    differences
        How far these points lie from the closed form, by number of keys.
    """

    needed_million: float
    overflow: float
    betas: np.ndarray
    closed_form: Mapping[int, list[float]]
    whole_head: Mapping[int, tuple[np.ndarray, np.ndarray]]
    differences: Mapping[int, np.ndarray]


def measure_sharpness(device: torch.device) -> Sharpness:
    """Measure the whole head at whole sharpnesses, and the closed form between them."""
    betas = np.linspace(0, 12, 121, dtype=np.float32)
    measured = {keys: np.array([attention_to_match(beta, keys, device) for beta in BETAS]) for keys in KEYS}
    return Sharpness(
        induction.required_sharpness(0.999, 10**6), math.log(torch.finfo(torch.float32).max), betas,
        {keys: closed_form(betas, keys) for keys in KEYS}, {keys: (BETAS, measured[keys]) for keys in KEYS},
        {keys: abs(measured[keys] - closed_form(BETAS, keys)) for keys in KEYS})


def closed_form(betas: np.ndarray, keys: int) -> list[float]:
    """Return the attention to the only match with layer 1 saturated."""
    return [induction.target_mass(float(beta), keys, matches=1) for beta in betas]


def attention_to_match(beta: float, keys: int, device: torch.device) -> float:
    """Return the attention of the last token of ``! a b ! ! ! ... a`` to its only match, both layers as sharp."""
    tokens = torch.zeros(keys, dtype=torch.long, device=device)
    tokens[1], tokens[2], tokens[-1] = 1, 2, 1
    steps = induction.run(tokens, induction.build(3, keys, beta=float(beta), device=device))
    return steps[1].attention[-1, 2].item()
