"""What the parts of the score explain in several seeds of gpt2-mini, and what each loses with a changed head."""

import numpy as np
import torch

from analysis.models import checkpoints
from book.lab.gpt2_mini_runs import SEEDS, find_run
from book.lab.head_changes import change_heads
from book.lab.score_survey import survey
from book.publish.records import Experiment, Result


def compute(device: torch.device) -> Result:
    """Return ``divergence``, ``parts``, ``first`` and ``effects`` as the survey and the changes do, by seed."""
    by_seed = [measure_seed(checkpoints.find(str(find_run(seed, device))), device) for seed in SEEDS]
    arrays = {name: np.stack([each[name] for each in by_seed]).astype(np.float32) for name in by_seed[0]}
    return Result({}, arrays, dict.fromkeys(arrays, 0.5))


def measure_seed(checkpoint: checkpoints.Checkpoint, device: torch.device) -> dict[str, np.ndarray]:
    """Measure one seed."""
    found = survey(checkpoint, device=device)
    return {name: found[name] for name in ("divergence", "parts", "first")} | {
        "effects": change_heads(checkpoint, device)
    }


EXPERIMENT = Experiment(
    "What the parts of the score explain in several seeds of gpt2-mini, and what their loss says",
    compute,
    models=("gpt2-mini",),
    minutes=25.0,
    seed=SEEDS[-1],
)
