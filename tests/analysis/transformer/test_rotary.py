"""Rotations against products of complex numbers, for both ways in which coordinates are paired."""

import torch

from analysis.core.positions import PAIRINGS, Rotary
from analysis.transformer.rotary import rotate
from analysis.transformer.rotary_scaling import rotary_frequencies


def test_a_rotation_is_a_product_of_complex_numbers():
    """Coordinate pairs (a, b) become (a + bi) e^(i angle), whichever two coordinates are a pair."""
    frequencies = rotary_frequencies(6)
    rows = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.tensor([1.0, 4.0, 2.0])
    turns = torch.polar(torch.full((3, 3), 1.5).double(), positions[:, None] * frequencies)
    pairs = {"halves": ([0, 1, 2], [3, 4, 5]), "neighbours": ([0, 2, 4], [1, 3, 5])}
    assert set(pairs) == set(PAIRINGS)
    for pairing, (first, second) in pairs.items():
        rotary = Rotary(frequencies, 8, pairing=pairing, attention_factor=1.5)
        found = rotate(rows, rotary, positions)
        due = torch.complex(rows[:, first], rows[:, second]) * turns
        torch.testing.assert_close(found[:, first], due.real)
        torch.testing.assert_close(found[:, second], due.imag)
        assert found[:, 6:].equal(rows[:, 6:])
