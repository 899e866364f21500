"""The surveys behind rows, sums, cone and entropy on tiny inputs: a random BERT, and rows known by hand."""

import numpy as np
import pytest
import torch

from analysis.maps import entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import run_layer
from book.experiments import bert_normality_directions as directions
from book.experiments import bert_normality_minilm as minilm
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


def test_a_page_leaves_out_what_it_does_not_need(folder):
    found = minilm.survey(folder, TEXTS[:1], padded=0, ablated=0)
    assert not [name for name in found if "pad_" in name or "effect" in name]


def test_an_axis_points_to_where_the_row_lies_that_is_furthest_out():
    rows = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).Q
    placed = directions.place(rows)
    torch.testing.assert_close(directions.place(rows @ turn), placed)  # whatever signs the decomposition has
    across = placed[:, 1:]
    assert (across.gather(0, across.abs().argmax(0, keepdim=True)) > 0).all()
