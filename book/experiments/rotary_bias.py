"""What waits for released models with rotary positions: their kernels, read off the weights one layer at a time."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch

from book.lab.kernel_survey import survey_model
from book.publish.records import Experiment, Result, Value

QWEN = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B")
"""Names on the hub, as of all models here: two pairs of one team, with biases and with norms in their place."""
PHI = ("microsoft/phi-2",)
GPT_OSS = ("openai/gpt-oss-20b",)
PYTHIA = {
    step: f"EleutherAI/pythia-160m@step{step}" for step in (0, *(2**k for k in range(10)), *range(1000, 144_000, 1000))
}
"""The 154 steps of Pythia that are published, each a branch of the model's repository."""


def survey_models(names: Sequence[str], device: torch.device) -> Result:
    """Survey each model, weights only, layer by layer; arrays carry the model's name before their own."""
    values, arrays = {}, {}
    for name in names:
        survey = survey_model(name)
        short = name.rpartition("/")[2]
        values[f"{short} range"] = Value(float(survey["range"].max()), 1e-3, unit="nats")
        arrays |= {f"{short} {key}": value.astype(np.float32) for key, value in survey.items()}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))


def survey_steps(steps: Mapping[int, str], device: torch.device) -> Result:
    """Survey one model at steps of its training, weights only: when do its kernels appear?"""
    surveys = [survey_model(name) for name in steps.values()]
    arrays = {name: np.stack([survey[name] for survey in surveys]).astype(np.float32) for name in surveys[0]}
    return Result(
        {"range": Value(float(arrays["range"][-1].max()), 1e-3, unit="nats")},
        {"step": np.array(list(steps)), **arrays},
        dict.fromkeys(arrays, 1e-3),
    )


EXPERIMENTS = {
    "gpt-oss": Experiment(
        "The kernels and the sinks of gpt-oss-20b",
        partial(survey_models, GPT_OSS),
        models=GPT_OSS,
        minutes=3.0,
        awaits="the weights of gpt-oss",
    ),
    "phi": Experiment(
        "The kernels of Phi-2, which turns a part of each head",
        partial(survey_models, PHI),
        models=PHI,
        minutes=3.0,
        awaits="the weights of Phi-2",
    ),
    "pythia": Experiment(
        "The kernels of Pythia-160M at every checkpoint of its training",
        partial(survey_steps, PYTHIA),
        models=tuple(PYTHIA.values()),
        minutes=15.0,
        awaits="the checkpoints of Pythia",
    ),
    "qwen": Experiment(
        "The kernels of Qwen2.5, which has biases, and of Qwen3, which has none",
        partial(survey_models, QWEN),
        models=QWEN,
        minutes=6.0,
        awaits="the weights of Qwen2.5 and Qwen3",
    ),
}
