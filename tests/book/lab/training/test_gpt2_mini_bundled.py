"""The bundled gpt2-mini is what its card says, and its trace ends where its weights stand."""

import json

import numpy as np
import pytest
import torch

from analysis.data import texts
from analysis.decomposition.folding import fold_norm
from analysis.decomposition.terms import semi_bias
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.transformer.layernorm import sigma
from book.experiments.semi_bias_emergence import KEPT, SEEDS, settled
from book.lab.training import gpt2_mini
from book.publish import experiments


@pytest.fixture(scope="module")
def bundled():
    return checkpoints.find("gpt2-mini", sources=["bundled"])


@pytest.mark.slow
def test_the_bundled_model_has_the_losses_of_its_card(bundled):
    card, _ = gpt2_mini.read_trace(bundled.folder)
    model, tokenizer = pretrained.load(bundled, task="lm"), pretrained.tokenizer(bundled)
    cut = gpt2_mini.windows(gpt2_mini.encode(tokenizer, "\n\n".join(texts.passages())))
    assert gpt2_mini.evaluate(model, cut) == pytest.approx(card["passages_loss"], abs=1e-3)
    assert card["held_out_loss"] < 4.5
    assert f"{card['held_out_loss']:.4f}" in (bundled.folder / "README.md").read_text()
    held_out = texts.corpus(held_out=True)
    if texts.digest(held_out) == card["held_out_sha256"]:  # another Python carries another text
        cut = gpt2_mini.windows(gpt2_mini.encode(tokenizer, held_out))
        assert gpt2_mini.evaluate(model, cut) == pytest.approx(card["held_out_loss"], abs=1e-3)


def test_the_last_look_of_the_bundled_trace_is_the_bundled_model(bundled):
    card, trace = gpt2_mini.read_trace(bundled.folder)
    axes = json.loads((bundled.folder / "trace.json").read_text())["arrays"]
    assert axes == {name: list(array.shape) for name, array in trace.items()}
    assert trace["step"][-1] == card["steps"]
    read = load(bundled, dtype=torch.float64)
    layer, norm, p = read.layers[0].plain(), read.norm("attention"), read.positions
    np.testing.assert_allclose(trace["semi_bias"][-1], semi_bias(p, layer), atol=1e-6)
    folded = semi_bias(p / sigma(p, norm.eps)[:, None], fold_norm(layer, norm))
    np.testing.assert_allclose(trace["semi_bias_folded"][-1], folded, atol=1e-5)


def test_the_recorded_emergence_starts_with_the_bundled_trace_and_its_numbers_follow_from_its_arrays(bundled):
    record = experiments.load("semi-bias-emergence")
    _, trace = gpt2_mini.read_trace(bundled.folder)
    for name in KEPT:
        np.testing.assert_array_equal(record.array(name)[0], trace[name])
        assert len(record.array(name)) == len(SEEDS)
    rho = record.array("rank_correlation")[:, :, 0]
    for seed in SEEDS:
        assert record[f"appears_{seed}"] == settled(record.array("step"), rho[seed])
        assert record[f"recent_heads_{seed}"] == (rho[seed, -1] > 0.5).sum()
        assert record[f"held_out_{seed}"] == pytest.approx(record.array("held_out")[seed, -1])
