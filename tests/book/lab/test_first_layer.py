"""A first layer: its rewriting is the module's, and what it shows of a layer without any query bias."""

from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.models import checkpoints
from book.lab import first_layer
from tests.analysis.tiny import draw, random_layer

EXACT = "attention", "output", "four_terms", "two_terms", "six_terms", "value_folded", "no_key_bias", "bias_outside"


@pytest.fixture(scope="module")
def mini():
    return first_layer.read(checkpoints.find("gpt2-mini"))


def without_biases(layer):
    weights = replace(layer.weights, b_Q=torch.zeros_like(layer.weights.b_Q))
    return replace(layer, weights=weights, ln=replace(layer.ln, bias=torch.zeros_like(layer.ln.bias)))


def test_the_rewriting_is_exact_and_what_is_misprinted_is_not():
    layer, norm = random_layer(causal=True), Norm(draw(12, seed=2), draw(12, seed=3))
    errors = first_layer.rewriting_errors(draw(9, 12), draw(9, 12, seed=4), layer, norm)
    assert max(errors[name] for name in EXACT) < 1e-12
    assert min(error for name, error in errors.items() if name not in EXACT) > 1e-3
    assert first_layer.map_error(draw(9, 12, seed=4), layer) < 1e-12


def test_without_query_bias_no_position_is_preferred(mini):
    own, positions = first_layer.attention_of_positions(without_biases(mini))
    assert (own == 0).all()
    torch.testing.assert_close(positions.mass[1, 0], positions.uniform[1].expand(8))


def test_equal_weights_share_with_text_what_they_share_with_a_layer_that_looks_evenly(mini):
    even = replace(mini, weights=replace(mini.weights, W_Q=0 * mini.weights.W_Q, b_Q=0 * mini.weights.b_Q))
    blank = replace(even, ln=replace(mini.ln, bias=0 * mini.ln.bias))
    of_positions, of_equal = first_layer.overlap_with_text(blank, torch.arange(128)[None])
    torch.testing.assert_close(of_positions, torch.ones(8, dtype=torch.float64))
    torch.testing.assert_close(of_equal, torch.ones(8, dtype=torch.float64))


def test_positions_on_a_line_lie_along_one_axis_that_ends_positive():
    line = torch.linspace(3, -5, 200, dtype=torch.float64)[:, None] * torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    along, sizes = first_layer.along_axes(line, 2)
    torch.testing.assert_close(along[[0, -1], 0], torch.tensor([-20.0, 20.0], dtype=torch.float64))
    assert sizes[1] < 1e-9 * sizes[0]
