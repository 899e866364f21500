"""What is measured of the fine-tuned classifier, on a classifier of two layers."""

import numpy as np
import pytest
import torch

from analysis.training import dna_classifier
from book.studies.shared import variant_fine_tuned, variant_measures
from book.studies.shared.nearest_classifier import by_layer


@pytest.fixture(scope="module")
def model(variant_folder):
    return dna_classifier.load(variant_folder)[0].requires_grad_(False)


def test_a_head_that_writes_nothing_has_no_effect(model, variant_data):
    width = model.config.hidden_size // model.config.num_attention_heads
    output = model.bert.encoder.layer[1].attention.output.dense.weight
    before = output.clone()
    with torch.no_grad():
        output[:, :width] = 0  # head 0 of layer 1
    try:
        effects = variant_fine_tuned.level_heads(model, variant_data, variant_data.genes[:2])
    finally:
        with torch.no_grad():
            output.copy_(before)
    assert effects.shape == (2, 2, 2)
    assert effects[:, 1, 0] == pytest.approx(0, abs=1e-6)
    assert (effects[:, 1, 1] > 1e-6).all()


def test_the_diagonal_is_that_of_the_maps(model, variant_data):
    stations, _ = variant_measures.pass_all(model, variant_data.encode(variant_data.genes[:1]))
    cells = np.stack([layer.attention.diagonal(dim1=-2, dim2=-1).numpy() for layer in stations])
    last = variant_fine_tuned.LAST
    expected = np.stack([cells[..., :-last].mean(-1), cells[..., -last:].mean(-1)], -1)
    np.testing.assert_allclose(variant_fine_tuned.diagonals(stations), expected, rtol=1e-6)


def test_means_over_heads_keep_layers_apart():
    values = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_allclose(by_layer(values, 1), values.mean(-1))
    np.testing.assert_allclose(by_layer(values[..., 0], 1), values[..., 0])
