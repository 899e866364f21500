"""What is recorded of models with rotary positions: kernels of released models, and the trainings of this chapter.

The trainings are of three variants of neox-mini with several seeds each: all coordinates turned, a quarter of them, and
no bias anywhere; attention and MLP are parallel. Beside them gpt2-mini, in which the key bias cancels; and neox-mini
with the MLP after attention.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from book.lab.kernel_survey import survey_model
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value
from book.studies.rotary_bias.runs import RUNS, SEQUENTIAL, measure_gpt2, measure_runs

WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""
QWEN = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B")
"""Names on the hub, as of all models here: two pairs of one team, with biases and with norms in their place."""
PHI = ("microsoft/phi-2",)
GPT_OSS = ("openai/gpt-oss-20b",)
STEPS = (0, *(2**k for k in range(10)), *range(1000, 144_000, 1000))
"""The 154 steps of Pythia that are published, each a branch of the model's repository."""
PYTHIA = tuple(f"EleutherAI/pythia-160m@step{step}" for step in STEPS)


def survey_models(names: Sequence[str], device: torch.device) -> Result:
    """Survey each model, weights only, layer by layer; arrays carry the model's name before their own."""
    values, arrays = {}, {}
    for name in names:
        survey = survey_model(name)
        short = name.rpartition("/")[2]
        values[f"{short} range"] = Value(float(survey["range"].max()), 1e-3, unit="nats")
        arrays |= {f"{short} {key}": value.astype(np.float32) for key, value in survey.items()}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))


def survey_steps(device: torch.device) -> Result:
    """Survey one model at every step of its training, weights only: when do its kernels appear?"""
    surveys = [survey_model(name) for name in PYTHIA]
    arrays = {name: np.stack([survey[name] for survey in surveys]).astype(np.float32) for name in surveys[0]}
    return Result(
        {"range": Value(float(arrays["range"][-1].max()), 1e-3, unit="nats")},
        {"step": np.array(STEPS), **arrays},
        dict.fromkeys(arrays, 1e-3),
    )


def train_variants(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model: biases as they grow, and losses without parts."""
    corpus = gpt2_mini.read_corpus()
    losses, arrays = measure_runs(RUNS, corpus, device)
    arrays |= measure_gpt2(corpus, device)
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


def train_sequential(device: torch.device) -> Result:
    """Train and measure, in the same way, neox-mini with the MLP after attention."""
    losses, arrays = measure_runs(SEQUENTIAL, gpt2_mini.read_corpus(), device)
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


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
        survey_steps,
        models=PYTHIA,
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
    "sequential": Experiment(
        "What biases and mean input do in neox-mini where the MLP follows attention",
        train_sequential,
        minutes=30.0,
        seed=0,
    ),
    "trainings": Experiment(
        "How query and key bias grow in neox-mini and its variants, and what the models lose without their parts",
        train_variants,
        models=("gpt2-mini",),
        minutes=90.0,
        seed=0,
    ),
}
