"""The surveys behind rows, sums, cone and entropy on tiny inputs: a random BERT, and rows known by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.maps import entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import encode, run_layer
from book.experiments import bert_normality_directions as directions
from book.experiments import bert_normality_minilm as minilm
from book.experiments import bert_normality_scales as scales
from book.experiments import bert_normality_silenced as silenced
from tests.book.test_evidence import write_bert

TEXTS = ["a cat sat on 2 mats", "five, six", "a very long text: it fills the model, and is cut"]
LAYERS, HEADS, LONGEST, WIDTH = 3, 2, 20, 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny-bert"
    path.mkdir()
    write_bert(path, LAYERS, HEADS)
    return str(path)


@pytest.fixture(scope="module")
def found(folder):
    return minilm.survey(folder, TEXTS)


def test_a_head_that_is_made_uniform_is_judged_by_the_maps_it_had(folder, found):
    checkpoint = checkpoints.find(folder)
    model = pretrained.load(checkpoint)
    for i, states in enumerate(extraction.hidden_states(model, pretrained.tokenizer(checkpoint), TEXTS)):
        for level, layer in enumerate(load(model).encoder_layers()):
            maps = run_layer(states[level], layer).attention
            due = entropy.relative_entropy(maps).mean(-1)
            np.testing.assert_allclose(found["effect_entropy"][i, level], due, atol=1e-5)
            np.testing.assert_allclose(found["effect_sink"][i, level], maps[..., [0, -1]].sum(-1).mean(-1), atol=1e-5)
    assert found["effect"].min() > 0


def test_the_survey_measures_every_text_layer_and_head_with_padding_and_without(found):
    for prefix in ("", "control_"):
        assert found[prefix + "first_failing"].shape == (len(TEXTS), LAYERS)
        assert found[prefix + "entropy"].shape == found[prefix + "effect"].shape == (len(TEXTS), LAYERS, HEADS)
        full = found[prefix + "tokens"] == LONGEST
        assert full.tolist() == [False, False, True]
        assert (found[prefix + "pad_rows"] == LONGEST).all()
        for key in ("cone", "D_sum", "entropy"):  # a text that fills the model has no padding
            padded, plain = found[prefix + "pad_" + key], found[prefix + key]
            np.testing.assert_allclose(padded[full], plain[full], atol=1e-4)
            assert key == "entropy" or np.abs(padded[~full] - plain[~full]).max() > 1e-3
        assert all(np.isfinite(values).all() for values in found.values())
    lengths = found["tokens"][:, None] * WIDTH**0.5  # plain rows have one length: both forms are the same
    np.testing.assert_allclose(found["resultant_bare"] * lengths, found["cone_bare"], rtol=1e-4)


def test_an_axis_points_to_where_the_row_lies_that_is_furthest_out():
    rows = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).Q
    placed = directions.place(rows)
    torch.testing.assert_close(directions.place(rows @ turn), placed)  # whatever signs the decomposition has
    across = placed[:, 1:]
    assert (across.gather(0, across.abs().argmax(0, keepdim=True)) > 0).all()


def test_a_silenced_head_is_one_that_writes_nothing_and_a_levelled_one_attends_evenly(folder):
    layers = [layer.to(torch.float64) for layer in load(pretrained.load(checkpoints.find(folder))).encoder_layers()]
    x = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found, end = silenced.measure_heads(x, layers), encode(x, layers)[-1].mean(0)
    assert found["silenced"].shape == found["entropy"].shape == (LAYERS, HEADS)
    attention = layers[1].attention
    without = replace(attention, W_O=attention.W_O * torch.tensor([1.0, 0.0], dtype=torch.float64)[:, None, None])
    due = encode(x, [layers[0], replace(layers[1], attention=without), layers[2]])[-1].mean(0)
    assert found["silenced"][1, 1] == pytest.approx(float(1 - torch.cosine_similarity(due, end, dim=0)))
    even = replace(attention, W_Q=torch.zeros_like(attention.W_Q), b_Q=torch.zeros_like(attention.b_Q))
    mixed = run_layer(encode(x, layers[:1])[-1], replace(layers[1], attention=even)).attention
    maps = run_layer(encode(x, layers[:1])[-1], layers[1]).attention
    rows = run_layer(encode(x, layers[:1])[-1], layers[1], patched_attention=torch.stack([mixed[0], maps[1]])).second
    due = encode(rows, layers[2:])[-1].mean(0)
    assert found["levelled"][1, 0] == pytest.approx(float(1 - torch.cosine_similarity(due, end, dim=0)))


def test_only_the_named_matrices_are_scaled(folder):
    checkpoint = checkpoints.find(folder)
    random, trained = (pretrained.load(checkpoint, control_seed=seed) for seed in (0, None))
    before = {name: value.clone() for name, value in random.named_parameters()}
    scaled = scales.scale_some(random, trained, scales.SCALED["values and outputs"])
    assert len(scaled) == 2 * LAYERS
    for name, value in random.named_parameters():
        assert torch.equal(value, before[name]) == (name not in scaled), name
    norms = dict(trained.named_parameters())
    now = {name: value.norm() for name, value in random.named_parameters()}
    assert all(now[name] == pytest.approx(float(norms[name].norm()), rel=1e-5) for name in scaled)
    assert not set(scales.scale_some(random, trained, scales.SCALED["all but queries and keys"])) & {
        name for name in before if "query" in name or "key" in name
    }
