"""The end of a training: a layer without any query bias has no semi-bias and equal weights."""

from dataclasses import replace

import pytest
import torch

from analysis.models import checkpoints
from book.studies.semi_bias import first_layer, locality


@pytest.fixture(scope="module")
def mini():
    return first_layer.read(checkpoints.find("gpt2-mini"))


def without_biases(layer):
    weights = replace(layer.weights, b_Q=torch.zeros_like(layer.weights.b_Q))
    return replace(layer, weights=weights, ln=replace(layer.ln, bias=torch.zeros_like(layer.ln.bias)))


def test_without_query_bias_there_is_no_semi_bias(mini):
    correlation, spread, alone, _ = locality.tilt(without_biases(mini))
    assert (correlation == 0).all()
    assert (spread == 0).all()
    assert alone == pytest.approx(alone[0])


def test_the_trained_heads_have_one(mini):
    correlation, spread, alone, both = locality.tilt(mini)
    equal = locality.tilt(without_biases(mini))[2]
    assert (correlation > 0.9).all()
    assert (spread > 0.1).all()
    assert (alone > equal).all()
    assert (both > alone).all()
