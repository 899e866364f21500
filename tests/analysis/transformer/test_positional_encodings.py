"""Positional encodings on small cases whose answer is known by hand."""

import pytest
import torch

from analysis.transformer.positional_encodings import toeplitz_defect


def test_the_defect_counts_every_diagonal_to_the_last():
    """Only the main diagonal is not constant: (1, 1, 5), whose mean is 7/3; those in the corners have one entry."""
    gram = torch.tensor([[1.0, 2.0, 9.0], [3.0, 1.0, 2.0], [7.0, 3.0, 5.0]], dtype=torch.float64)
    apart = 2 * (4 / 3) ** 2 + (8 / 3) ** 2
    assert toeplitz_defect(gram) == pytest.approx((apart / 183) ** 0.5, rel=1e-12)
