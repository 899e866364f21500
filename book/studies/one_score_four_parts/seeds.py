"""Seeds of gpt2-mini: what the parts of the score explain in each, and what a change of a head does to the loss."""

import numpy as np
import torch

from analysis.models import checkpoints
from book.publish.records import Experiment, Result
from book.studies.one_score_four_parts import interventions, parts
from book.studies.shared.gpt2_mini_runs import SEEDS, find_run


def compute(device: torch.device) -> Result:
    """Return ``divergence``, ``parts``, ``first`` and ``effects`` as the survey and the interventions do, by seed."""
    by_seed = [measure(checkpoints.find(str(find_run(seed, device))), device) for seed in SEEDS]
    arrays = {name: np.stack([each[name] for each in by_seed]).astype(np.float32) for name in by_seed[0]}
    return Result({}, arrays, dict.fromkeys(arrays, 0.5))


def measure(checkpoint: checkpoints.Checkpoint, device: torch.device) -> dict[str, np.ndarray]:
    """Measure one seed."""
    survey = parts.survey(checkpoint, device=device)
    return {
        "divergence": survey.divergence,
        "parts": survey.parts,
        "first": survey.first,
        "effects": interventions.measure(checkpoint, device),
    }


EXPERIMENT = Experiment(
    "What the parts of the score explain in several seeds of gpt2-mini, and what their loss says",
    compute,
    models=("gpt2-mini",),
    minutes=25.0,
    seed=SEEDS[-1],
)
