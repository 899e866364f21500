"""What the page on the induction head shows and what its verdicts rest on, computed once."""

from dataclasses import dataclass

import torch

from book.publish import Inputs, Numbers, choose_inputs
from book.studies.induction_head.by_hand import ByHand, measure_by_hand
from book.studies.induction_head.prediction import Prediction, measure_prediction
from book.studies.induction_head.printed import ReadingSearch, search_readings
from book.studies.induction_head.sharpness import Sharpness, measure_sharpness
from book.studies.induction_head.trained import Trained, Training, measure_trained, read_training


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
