"""Kernels of trainings: chance by hand, random phases, and every variant with its seeds."""

import numpy as np
import pytest
import torch

from analysis.decomposition.rotary_kernel import Kernel
from book.lab import rotary_kernels, rotary_runs
from book.lab.training import neox_mini


def test_one_slow_cosine_is_near_as_often_as_its_phase_allows():
    """It is largest at one of 128 distances, each as likely: five of them are near."""
    counts = rotary_kernels.near_by_chance(np.ones((1, 1)), np.array([2 * np.pi / 127]), draws=4000)
    assert counts.mean() == pytest.approx(5 / 127, abs=0.02)


def test_the_size_of_a_kernel_is_known_by_hand():
    """One pair of coordinates that turns by a half turn a position: 2 * 3 / sqrt(2) at even distances, less at odd."""
    trace = {"query_bias": np.array([[[[2.0, 0.0]]]]), "key_bias": np.array([[[[3.0, 0.0]]]])}
    turn = rotary_kernels.Rotary(torch.tensor([np.pi]), 2)
    curves = rotary_kernels.curves(trace, "bias", turn)
    np.testing.assert_allclose(curves[0, 0, :4], 6 / 2**0.5 * np.array([1, -1, 1, -1]), atol=1e-9)
    assert rotary_kernels.ranges(curves)[0, 0] == pytest.approx(12 / 2**0.5)
    amplitude, phase = rotary_kernels.spectrum_of(trace, "bias", turn)
    assert (amplitude.item(), phase.item()) == pytest.approx((6 / 2**0.5, 0))


def test_random_phases_keep_amplitudes():
    kernel = Kernel(torch.ones(2, 3).double(), torch.zeros(2, 3).double(), torch.ones(3).double(), torch.zeros(2))
    drawn = rotary_kernels.with_random_phases(kernel, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.amplitude, kernel.amplitude)
    assert len(drawn.phase.unique()) == 6


def test_every_variant_is_trained_with_as_many_seeds():
    every = (*rotary_runs.RUNS, *rotary_runs.SEQUENTIAL)
    assert {name for name, _ in every} == set(neox_mini.VARIANTS)
    assert {len(rotary_runs.seeds_of(name, every)) for name in neox_mini.VARIANTS} == {rotary_runs.SEEDS}
