"""Every training on a GPU that is only pretended: it comes to its end, with the losses of the CPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.core import device
from book.lab.training import attention_only, dna_classifier, gpt2_mini
from tests.analysis.fake_device import GPU, pretended
from tests.book.lab.training.test_attention_only import SMALL, make_probe
from tests.book.lab.training.test_gpt2_mini import TINY as TEXTS
from tests.book.lab.training.test_gpt2_mini import semi_bias_probe

pytestmark = pytest.mark.slow
RECIPE = replace(dna_classifier.TINY, sequences=48, batch=4, steps=3, warmup=1, pretrain_steps=2)


def train_variant(out, where):
    dna_classifier.train(RECIPE, out, device=where)
    return out / "trace.npz"


def train_gpt2(out, where):
    gpt2_mini.train(out, steps=3, device=None, probe=semi_bias_probe, corpus=TEXTS)
    return out / "trace.npz"


def train_induction(out, where):
    _, run = attention_only.train(out, steps=3, config=SMALL, probe=make_probe(SMALL), name=None)
    np.savez(out / "trace.npz", **run.trace, loss=run.losses)
    return out / "trace.npz"


@pytest.mark.parametrize("train", [train_variant, train_gpt2, train_induction])
def test_a_training_on_a_gpu_is_that_on_the_cpu(train, tmp_path, monkeypatch):
    monkeypatch.setattr(gpt2_mini, "BATCH", 2)
    monkeypatch.setattr(gpt2_mini, "WINDOWS", 2)
    monkeypatch.setattr(device, "choose", lambda name=None: torch.device("cpu"))
    due = train(tmp_path / "cpu", "cpu")
    monkeypatch.setattr(device, "choose", lambda name=None: GPU)
    with pretended():
        found = train(tmp_path / "gpu", GPU)
    with np.load(found) as mine, np.load(due) as right:
        assert {name: mine[name].shape for name in mine} == {name: right[name].shape for name in right}
        np.testing.assert_allclose(mine["loss"], right["loss"], rtol=0.01)
