"""What is measured of the fine-tuned classifier, on a classifier of two layers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.models.reading import load
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.statistics import normality
from book.lab.training import dna_classifier
from book.studies.shared import variant_fine_tuned, variant_measures
from book.studies.shared.averages import over_heads


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
    np.testing.assert_allclose(over_heads(values, 1), values.mean(-1))
    np.testing.assert_allclose(over_heads(values[..., 0], 1), values[..., 0])


@pytest.fixture(scope="module")
def stations(model, variant_data):
    return variant_measures.pass_all(model, variant_data.encode(variant_data.genes[:1]))[0]


def test_counts_are_of_the_maps_that_are_read(stations):
    read = variant_fine_tuned.read_maps(stations)
    counts = dict(zip(variant_fine_tuned.COUNTED, read["counts"].T, strict=True))
    heads = stations[0].attention.shape[0]
    np.testing.assert_array_equal(counts["maps"], heads)
    np.testing.assert_allclose(read["gates"].sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(counts["directional_mass"], read["gates"][..., 0].sum(-1), atol=1e-4)
    assert (counts["composed"] <= counts["patterned"]).all()


def test_a_sum_is_tested_without_what_lies_four_deviations_out(stations):
    """A coordinate that is made to tower changes the sum, and not the sum without its extremes."""
    ratio = variant_fine_tuned.sum_without_extremes(stations)
    second = stations[0].second
    total = second.sum(0)
    assert not len(normality.outlier_dimensions(total[None], 4.0)), "the test needs a sum without extremes"
    expected = float(normality.lilliefors(total)) / normality.critical_value(len(total))
    assert ratio[0] == pytest.approx(expected, rel=1e-5)
    towering = second.clone()
    towering[:, 0] = 1000
    changed = replace(stations[0], second=towering)
    without = float(normality.lilliefors(total[1:])) / normality.critical_value(len(total) - 1)
    assert variant_fine_tuned.sum_without_extremes([changed])[0] == pytest.approx(without, rel=1e-5)


def test_without_an_mlp_the_second_layernorm_reads_the_first(model, stations):
    layers = load(model).encoder_layers()
    cosines = variant_fine_tuned.mlp_cosines(stations, layers)
    assert cosines.shape == (len(layers), 2)
    first = stations[0].first
    assert cosines[0, 0] == pytest.approx(float(mean_pairwise_cosine(first)), abs=1e-6)
    by_torch = torch.nn.functional.layer_norm(
        first, first.shape[-1:], layers[0].norm_mlp.gain, layers[0].norm_mlp.bias, layers[0].norm_mlp.eps
    )
    assert cosines[0, 1] == pytest.approx(float(mean_pairwise_cosine(by_torch)), abs=1e-5)
