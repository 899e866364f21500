"""What is recorded of trainings on repeated tokens, on a tiny model and a trace known by hand."""

import numpy as np
import torch

from book.experiments.induction_head import formed_at, train_runs
from tests.book.lab.test_induction_probe import SMALL


def test_a_head_has_formed_at_the_first_step_of_one_half():
    prefix = np.array([[[0.1, 0.2]], [[0.5, 0.1]], [[0.9, 0.1]]])
    assert formed_at(np.array([0, 25, 50]), prefix) == 25
    assert formed_at(np.array([0, 25, 50]), prefix / 2) == -1


def test_a_run_of_two_steps_is_kept_under_its_name(monkeypatch):
    monkeypatch.delenv("INDUCTION_RUNS", raising=False)
    found = train_runs({"seed-7": (SMALL, 7)}, torch.device("cpu"), steps=2)
    prefix = found.arrays["seed-7/prefix"]
    assert prefix.shape == (len(found.arrays["seed-7/step"]), SMALL.layers, SMALL.heads)
    assert found.values["seed-7/prefix"].value == prefix[-1].max()
    assert found.values["seed-7/formed"].value == -1
