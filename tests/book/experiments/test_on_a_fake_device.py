"""What the chapters on GPT-2's heads compute, on a GPU that is only pretended: the CPU's numbers, computed there."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from analysis.models import checkpoints, pretrained
from book.experiments import patterns_and_messages, semi_bias_gpt2, weighted_mean
from book.lab import equality, first_layer, gpt2_mini_runs, induction_probe
from book.lab.training import attention_only
from tests.analysis.fake_device import GPU, OnGPU, pretended
from tests.analysis.tiny import GPT2, write_model

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A random GPT-2 with a token table and the tokenizer of gpt2-mini."""
    mini = checkpoints.find("gpt2-mini")
    folder = tmp_path_factory.mktemp("gpt2") / "tiny"
    with torch.random.fork_rng():
        write_model(folder, GPT2 | {"vocab_size": 2048, "n_positions": 128})
    pretrained.tokenizer(mini).save_pretrained(folder)
    return checkpoints.find("tiny", folder=folder)


class Products(TorchDispatchMode):
    """Notes of every product of matrices whether it was computed on the GPU."""

    def __init__(self):
        super().__init__()
        self.on_gpu = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Look at it and let it pass."""
        if func._schema.name in ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"):
            self.on_gpu.add(any(isinstance(x, OnGPU) for x in tree_leaves((args, kwargs))))
        return func(*args, **(kwargs or {}))


@contextmanager
def only_there():
    """Within it there is a GPU, and all products of matrices must be computed on it."""
    with pretended(), Products() as products:
        yield
    assert products.on_gpu == {True}


def compare(found, due):
    """Hold arrays by name to those of the CPU."""
    assert found.keys() == due.keys()
    for name, values in due.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-9, err_msg=name)


COMPUTE = [
    weighted_mean.turn_dials,
    patterns_and_messages.compare_gpt2,
    patterns_and_messages.survey_spectra,
    semi_bias_gpt2.compute,
]


@pytest.mark.parametrize("compute", COMPUTE, ids=lambda compute: compute.__qualname__)
def test_an_experiment_computes_where_it_is_told_to(tiny, monkeypatch, compute):
    monkeypatch.setattr(checkpoints, "find", lambda name: tiny)
    due = compute(torch.device("cpu"))
    with only_there():
        found = compute(GPU)
    compare(found.arrays, due.arrays)
    assert found.values.keys() == due.values.keys()


@pytest.mark.parametrize("seed", [None, 0], ids=["trained", "control"])
def test_a_model_reads_text_where_it_is_told_to(tiny, seed):
    some = {"control_seed": seed, "passages": 1, "tokens": 24}
    due = equality.entropy_shares(tiny, **some)
    with only_there():
        found = equality.entropy_shares(tiny, **some, device=GPU)
    assert isinstance(found, OnGPU)
    compare({"": found.cpu()}, {"": due})


def test_a_first_layer_lies_where_it_is_told_to(tiny):
    with only_there():
        for layer in (first_layer.read(tiny, device=GPU), first_layer.control(tiny, device=GPU)):
            parts = (layer.tokens, layer.positions, layer.sigma_p, layer.folded.W_K, layer.ln.gain)
            assert all(isinstance(part, OnGPU) for part in parts)
            first_layer.attention_of_positions(layer)


def test_a_loss_without_a_bias_is_that_of_the_cpu():
    model = pretrained.load(checkpoints.find("gpt2-mini"), task="lm", dtype=torch.float64)
    windows = torch.arange(40).reshape(2, 20)
    due = first_layer.loss_without(model, windows, "b_Q")
    assert due != first_layer.loss_without(model, windows)
    with only_there():
        assert first_layer.loss_without(model.to(GPU), windows.to(GPU), "b_Q") == pytest.approx(due, rel=1e-9)


def test_probes_look_where_the_model_is():
    config = attention_only.Config(model=24, length=40, longest=16)
    watched = [
        (induction_probe.make_probe(config), lambda: attention_only.Transformer(config)),
        (gpt2_mini_runs.semi_bias_probe, lambda: pretrained.load(checkpoints.find("gpt2-mini"), task="lm")),
    ]
    for probe, model in watched:
        due, network = probe(0, model()), model()
        with only_there():
            found = probe(0, network.to(GPU))
        compare(found, due)


def test_costs_are_timed_where_they_are_told_to():
    with only_there():
        assert (patterns_and_messages.time_forms(GPU, (4, 8), model=12, head=3, channel=4)[0] > 0).all()
