"""What a report says of the parameters of a layer, on layers whose answer is known by hand."""

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.reporting.parameters import measure_layer


def test_sizes_are_those_of_rows_as_large_as_the_norm_makes_them():
    """A norm with the gain (3, 4) makes rows of so large coordinates: what reads the first is 3 long, the second 4."""
    first, second = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[0.0], [1.0]]])
    zero = torch.zeros(1, 1)
    norm = Norm(torch.tensor([3.0, 4.0]), torch.zeros(2), 1e-5)
    layer = AttentionLayer(
        first, second, first + second, first.mT, zero, zero, zero, torch.zeros(2), 1.0, Mask(causal=True), norms=(norm,)
    )
    np.testing.assert_allclose(measure_layer(layer).sizes.ravel(), [3.0, 4.0, 5.0])


def test_the_bias_of_the_norm_is_carried_through_the_matrices():
    first, zero = torch.tensor([[[2.0], [0.0]]]), torch.zeros(1, 1)
    norm = Norm(torch.ones(2), torch.tensor([3.0, 7.0]), 1e-5)
    layer = AttentionLayer(
        first, first, first, first.mT, zero + 1, zero, zero, torch.zeros(2), 1.0, Mask(causal=True), norms=(norm,)
    )
    measured = measure_layer(layer)
    assert measured.biases.ravel().tolist() == [1.0, 0.0, 0.0]
    assert measured.effective.ravel().tolist() == pytest.approx([7.0, 6.0, 6.0])
