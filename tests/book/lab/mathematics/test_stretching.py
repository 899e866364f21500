"""How far a head stretches rows: singular values as bounds, laws of isotropic rows, tables over layers, refusals."""

from dataclasses import replace

import jaxtyping
import numpy as np
import pytest
import torch

from analysis.matrices import spectra
from analysis.transformer.encoder import random_layers
from book.lab.mathematics import stretching
from tests.analysis.matrices.test_symmetry import factors


def test_no_row_is_amplified_beyond_the_largest_singular_value_and_one_reaches_it():
    W, _ = factors()
    x = torch.randn(200, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    top = spectra.singular_values(W)[:, :1]
    assert (stretching.amplification(x, W) <= top * (1 + 1e-12)).all()
    best = torch.linalg.svd(W[0]).U[:, 0]
    torch.testing.assert_close(stretching.amplification(best[None], W)[0, 0], top[0, 0])


def test_amplification_with_bias_is_that_of_the_whole_affine_map():
    W, _ = factors()
    x, b = torch.ones(2, 12, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64)
    due = (x[1] @ W[2] + b[2]).norm() / x[1].norm()
    torch.testing.assert_close(stretching.amplification(x, W, b)[2, 1], due)


def test_mean_amplification_is_the_mean_over_directions():
    W, _ = factors()
    x = torch.randn(20_000, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    measured = stretching.amplification(x, W).square().mean(-1).sqrt()
    torch.testing.assert_close(measured, stretching.mean_amplification(W), rtol=0.02, atol=0)


def test_isotropic_positions_have_the_law_of_isotropic_rows():
    W, _ = factors()
    x = torch.randn(20_000, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    rows = stretching.amplification(x, W) / spectra.spectral_norm(W)[:, None]
    drawn = stretching.isotropic_cone_positions(W, 20_000, np.random.default_rng(4))
    level = torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)
    torch.testing.assert_close(rows.quantile(level, dim=1), drawn.quantile(level, dim=1), atol=0.01, rtol=0)


def test_isotropic_positions_of_a_square_map():
    W = torch.eye(2, dtype=torch.float64)[None]
    drawn = stretching.isotropic_cone_positions(W, 10, np.random.default_rng(0))
    torch.testing.assert_close(drawn, torch.ones_like(drawn))


def test_tables_over_maps_layers_and_heads_hold_the_single_measures():
    g = torch.Generator().manual_seed(6)
    layers = [layer.attention for layer in random_layers(2, 3, 12, generator=g)]
    states = torch.randn(3, 5, 12, generator=g, dtype=torch.float64)
    biased = replace(layers[1], b_K=torch.ones(3, 4, dtype=torch.float64))
    table = stretching.amplifications(states, [layers[0], biased])
    assert table.shape == (3, 2, 3, 5)
    torch.testing.assert_close(table[1, 1], stretching.amplification(states[1], biased.W_K, biased.b_K))
    linear = stretching.amplifications(states, [layers[0], biased], biased=False)
    torch.testing.assert_close(linear[1, 1], stretching.amplification(states[1], biased.W_K))
    top = stretching.over_heads(lambda W: spectra.singular_values(W)[:, 0], layers)
    torch.testing.assert_close(top[2, 0], spectra.singular_values(layers[0].W_V)[:, 0])
    torch.testing.assert_close(top, stretching.over_heads(spectra.spectral_norm, layers))
    positions = stretching.cone_positions(states, layers)
    assert 0 <= positions.min() < positions.max() <= 1
    torch.testing.assert_close(positions[2, 1] * top[2, 1, :, None], linear[2, 1])
    torch.testing.assert_close(stretching.cone_positions(7 * states, layers), positions)
    torch.testing.assert_close(stretching.amplifications(states[:1], [layers[0]]), table[:, :1])
    norms = stretching.row_norms(states[1], biased, head=2)
    torch.testing.assert_close(norms[0], states[1].norm(dim=1))
    torch.testing.assert_close(norms[2] / norms[0], table[1, 1, 2])


def test_arguments_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    g = torch.Generator().manual_seed(7)
    weights = random_layers(1, 3, 12, generator=g)[0].attention
    x = torch.randn(6, 12, generator=g, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"W must be .* to fit x"):
        stretching.amplification(x[:, :5], weights.W_Q)
    with pytest.raises(ValueError, match=r"W must be .* to fit x"):
        stretching.amplification(x.float(), weights.W_Q)
    for head in (-1, 3):
        with pytest.raises(ValueError, match=r"head must be in 0\.\.2"):
            stretching.row_norms(x, weights, head)
    for states in (torch.ones(1, 5, 12).double(), torch.ones(4, 5, 12).double()):
        with pytest.raises(ValueError, match="states must be one for each of 2 layers"):
            stretching.amplifications(states, [weights, weights])
    nothing = weights.W_Q.clone()
    nothing[1] = 0
    with pytest.raises(ValueError, match="W is zero in head 1"):
        stretching.isotropic_cone_positions(nothing, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="samples"):
        stretching.isotropic_cone_positions(weights.W_Q, 0, np.random.default_rng(0))


def test_texts_of_one_length_are_stretched_as_each_alone():
    g = torch.Generator().manual_seed(6)
    x, W = torch.randn(2, 3, 5, generator=g).double(), torch.randn(4, 5, 2, generator=g).double()
    found = stretching.amplification(x, W)
    assert found.shape == (2, 4, 3)
    for text, due in zip(x, found):
        torch.testing.assert_close(stretching.amplification(text, W), due)
