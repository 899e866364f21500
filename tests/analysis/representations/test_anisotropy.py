"""Cone index and its comparable forms: bounds, identities, invariances; spectra of head outputs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import directional_stats

from analysis.representations import anisotropy
from tests.analysis.tiny import draw


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 7), st.integers(0, 10**6))
def test_identity_and_bounds(n, model, seed):
    rows = draw(n, model, seed=seed) + 0.3
    products = sum((rows[i] @ rows[j] for i in range(n) for j in range(i)), torch.zeros(()).double())
    squared = rows.square().sum() + 2 * products
    index = anisotropy.cone_index(rows)
    torch.testing.assert_close(index**2, squared, rtol=1e-10, atol=1e-10)
    assert 0 <= index <= rows.norm(dim=-1).sum() + 1e-12
    assert 0 <= anisotropy.alignment_ratio(rows) <= 1 + 1e-12


NAMES = "cone_index", "alignment_ratio", "resultant_length", "mean_pairwise_cosine"
FORMS = [getattr(anisotropy, name) for name in NAMES]


def test_invariances():
    rows = draw(2, 12, 8) + 0.5
    turn = torch.linalg.qr(draw(8, 8, seed=0)).Q
    order = torch.randperm(12)
    for form in FORMS:
        torch.testing.assert_close(form(rows @ turn), form(rows))
        torch.testing.assert_close(form(rows[:, order]), form(rows))
    torch.testing.assert_close(anisotropy.cone_index(3 * rows), 3 * anisotropy.cone_index(rows))
    for form in (anisotropy.alignment_ratio, anisotropy.resultant_length, anisotropy.mean_pairwise_cosine):
        torch.testing.assert_close(form(3 * rows), form(rows))
    stretched = rows * torch.linspace(0.1, 9, 12).double()[:, None]
    for form in (anisotropy.resultant_length, anisotropy.mean_pairwise_cosine):
        torch.testing.assert_close(form(stretched), form(rows))
    assert not torch.allclose(anisotropy.alignment_ratio(stretched), anisotropy.alignment_ratio(rows))


def test_resultant_length_equals_scipy():
    rows = draw(20, 6) + 0.2
    assert anisotropy.resultant_length(rows).item() == pytest.approx(
        directional_stats(rows.numpy()).mean_resultant_length, rel=1e-12
    )


def test_length_changes_the_resultant_of_random_directions_but_not_their_mean_cosine():
    short, long = draw(400, 10, 64), draw(100, 160, 64, seed=0)
    ratio = anisotropy.resultant_length(short).mean() / anisotropy.resultant_length(long).mean()
    assert ratio.item() == pytest.approx(4, rel=0.05)
    assert abs(anisotropy.mean_pairwise_cosine(short).mean()) < 2e-3
    assert abs(anisotropy.mean_pairwise_cosine(long).mean()) < 2e-3


@pytest.mark.parametrize("filling", [7.0, math.nan, math.inf, 1e300])
def test_what_stands_in_padding_never_matters(filling):
    rows = draw(9, 4)
    padded = torch.cat([rows, torch.full((5, 4), filling, dtype=torch.float64)])
    keep = torch.arange(14) < 9
    for form in FORMS:
        torch.testing.assert_close(form(padded, keep), form(rows))


@pytest.mark.parametrize("factor", [1e-42, 1e-30, 1e30])
def test_lengths_neither_overflow_nor_underflow(factor):
    rows = draw(9, 4, seed=0).float() + 0.5
    scaled = rows * factor
    loose = {"rtol": 1e-2} if factor == 1e-42 else {"rtol": 1e-5}  # numbers near 1e-42 have few digits left
    for form in (anisotropy.alignment_ratio, anisotropy.resultant_length, anisotropy.mean_pairwise_cosine):
        torch.testing.assert_close(form(scaled), form(rows), atol=1e-5, **loose)
    torch.testing.assert_close(anisotropy.unit(scaled), anisotropy.unit(rows), atol=1e-5, **loose)
    torch.testing.assert_close(
        anisotropy.cone_index(scaled).double(), anisotropy.cone_index(rows).double() * factor, atol=0, **loose
    )
    assert not anisotropy.unit(torch.zeros(2, 3)).any()


def test_head_output_spectrum_equals_dense_svd():
    attention, values = draw(3, 20, 20).softmax(-1), draw(3, 20, 6, seed=0)
    spectrum = anisotropy.head_output_spectrum(attention, values)
    due = np.linalg.svd((attention @ values).numpy(), compute_uv=False)
    np.testing.assert_allclose(spectrum.largest, due[:, 0], rtol=1e-10)
    np.testing.assert_allclose(spectrum.singular_values, due, rtol=1e-6)
    for factor in (1e-200, 1e200):
        scaled = anisotropy.head_output_spectrum(attention, values * factor)
        np.testing.assert_allclose(scaled.largest, due[:, 0] * factor, rtol=1e-10)
        np.testing.assert_allclose(scaled.stable_rank, spectrum.stable_rank, rtol=1e-10)
    few = anisotropy.head_output_spectrum(attention[:, :7], values)  # seven queries
    np.testing.assert_allclose(few.largest, np.linalg.norm((attention[:, :7] @ values).numpy(), 2, (1, 2)), rtol=1e-10)
    none = anisotropy.head_output_spectrum(attention, 0 * values)
    assert none.stable_rank.tolist() == none.largest.tolist() == [0, 0, 0]
    np.testing.assert_allclose(spectrum.stable_rank, (due**2).sum(-1) / due[:, 0] ** 2, rtol=1e-10)


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    with pytest.raises(ValueError, match="too large to be summed"):
        anisotropy.cone_index(torch.full((4, 3), 2e38))
    with pytest.raises(ValueError, match="nothing but zeros"):
        anisotropy.alignment_ratio(torch.zeros(4, 3))
    with pytest.raises(ValueError, match="keep leaves no position"):
        anisotropy.cone_index(torch.ones(2, 3), torch.zeros(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="two rows"):
        anisotropy.mean_pairwise_cosine(torch.ones(1, 3))
    for form in (anisotropy.mean_pairwise_cosine, anisotropy.resultant_length):
        with pytest.raises(ValueError, match="row of zeros"):
            form(torch.eye(3) * torch.tensor([1.0, 1.0, 0.0]))


def test_each_text_of_a_batch_has_a_range_of_its_own():
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = anisotropy.cone_index(torch.stack([1e-200 * rows, 1e150 * rows]))
    due = anisotropy.cone_index(rows)
    torch.testing.assert_close(found / torch.tensor([1e-200, 1e150], dtype=torch.float64), torch.stack([due, due]))


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_may_differ_from_text_to_text(name):
    form = getattr(anisotropy, name)
    rows = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    keep = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 1, 0]]).bool()
    both = torch.stack([keep, keep.flip(0)])
    for mask in (keep, both):
        found = form(rows, mask)
        for i in range(2):
            for j in range(3):
                kept = rows[i, j][mask[j] if mask is keep else mask[i, j]]
                unit = kept / kept.norm(dim=-1, keepdim=True)
                n = len(kept)
                due = {
                    "cone_index": kept.sum(0).norm(),
                    "alignment_ratio": kept.sum(0).norm() / kept.norm(dim=-1).sum(),
                    "resultant_length": unit.mean(0).norm(),
                    "mean_pairwise_cosine": (unit @ unit.T).triu(1).sum() / (n * (n - 1) / 2),
                }[name]
                torch.testing.assert_close(found[i, j], due)
