"""The experiments on patterns and messages, on a GPT-2 of two layers and on a layer of three heads."""

import numpy as np
import pytest
import torch

from analysis.matrices.rank import effective_rank
from analysis.models import checkpoints
from analysis.models.controls import LEVELS
from analysis.models.reading import load
from book.experiments import patterns_and_messages
from book.publish import experiments
from tests.analysis.tiny import GPT2, write_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random GPT-2 of two layers with three heads."""
    with torch.random.fork_rng():
        folder = write_model(tmp_path_factory.mktemp("gpt2") / "tiny", GPT2)
    return load(checkpoints.find("tiny", folder=folder), dtype=torch.float64)


def test_spectra_are_those_of_the_merged_matrices_with_a_control_beside_each(model):
    found = patterns_and_messages.measure_model(model, CPU)
    assert found.keys() == experiments.load("patterns-and-messages-spectra-gpt2").arrays.keys()
    for i, layer in enumerate(model.plain_layers()):
        pattern = torch.linalg.svdvals(layer.W_Q @ layer.W_K.mT)[:, : layer.channel]
        message = torch.linalg.svdvals(layer.W_V @ layer.W_O)[:, : layer.channel]
        np.testing.assert_allclose(found["pattern"][i], pattern, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["message"][i], message, rtol=1e-5, atol=1e-5)
    for name in ("pattern", "message", "augmented", "varying", "constant", "query_bias"):
        assert found[f"control_{name}"].shape == found[name].shape
        assert not np.array_equal(found[f"control_{name}"], found[name])
    assert not found["control_constant"].any()  # drawn layers have no bias, and their LayerNorm has none
    for name in ("pattern", "message"):
        ranks = found[f"ladder_{name}_rank"]
        assert ranks.shape == (len(LEVELS), 5, 2, 3)
        assert ((ranks >= 1) & (ranks <= 4)).all()
        drawn = effective_rank(torch.from_numpy(found[f"control_{name}"]))
        np.testing.assert_allclose(ranks[0, 0], drawn, rtol=1e-4)  # the first level and seed are the control


def test_exact_forms_are_told_from_what_leaves_something_out_in_every_layer(model):
    found = patterns_and_messages.compare_layers(model, CPU, positions=10)
    assert found.keys() == experiments.load("patterns-and-messages-equality-gpt2").arrays.keys()
    assert {errors.shape for errors in found.values()} == {(2,)}
    for form in ("sum over heads", "patterns and messages", "module without b_K"):
        assert found[form].max() < 1e-12
    for form in ("no constant pattern", "no b_V W_O", "no mask", "as printed"):
        assert found[form].min() > 1e-3
