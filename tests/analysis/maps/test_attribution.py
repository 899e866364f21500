"""The split of the divergence from uniform: completeness, zero for constants, symmetry, accuracy, refusals."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from analysis.maps import attribution, entropy, shapley_values

LIMITS = {"max_examples": 20, "deadline": None}
scales = st.sampled_from([0.0, 1e-6, 0.1, 1.0, 10.0, 300.0, 1e4])


def draw(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def triangle(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def by_force(scores):
    """The mean attention on the path with 400 panels of 20 nodes, graded towards 0."""
    s = scores.numpy() - scores.numpy().max()
    edges = np.concatenate([[0], np.geomspace(1e-7, 1, 400)])
    x, w = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    t, w = (edges[:-1, None] + half * (x + 1)).ravel(), (half * w).ravel()
    e = np.exp(t[:, None] * s)
    return torch.tensor(w @ (e / e.sum(1, keepdims=True)))


@given(n=st.integers(1, 40), k=st.integers(1, 5), scale=scales, seed=st.integers(0, 99), causal=st.booleans())
@settings(**LIMITS)
def test_parts_sum_to_the_divergence(n, k, scale, seed, causal):
    parts = draw(k, 2, n, n, seed=seed, scale=scale)
    visible = triangle(n) if causal else None
    split = attribution.attribute_divergence(parts, visible)
    assert split.gap < 1e-9 * max(1.0, scale / 1e3)
    masked = parts.sum(0).masked_fill(~visible, -math.inf) if causal else parts.sum(0)
    keys = torch.arange(1.0, n + 1) if causal else torch.full((n,), float(n))
    due = keys.double().log() - entropy.entropy_of_scores(masked)
    torch.testing.assert_close(split.divergence, due, rtol=1e-9, atol=1e-9)
    assert causal is False or not split.parts[..., 0].any()  # a row that sees one key


@given(n=st.integers(2, 30), scale=scales, constant=st.floats(-1e6, 1e6), seed=st.integers(0, 99))
@settings(**LIMITS)
def test_row_constants_get_exactly_zero_and_leave_the_others_alone(n, scale, constant, seed):
    parts = draw(2, 3, n, seed=seed, scale=scale)
    rows = draw(3, 1, seed=seed + 1, scale=constant).expand(3, n)
    split = attribution.attribute_divergence(torch.cat([parts, rows[None]]))
    bare = attribution.attribute_divergence(parts)
    assert not split.parts[2].any()
    torch.testing.assert_close(split.parts[:2], bare.parts, rtol=1e-6, atol=1e-8 * max(1, abs(constant) / 1e3))


@given(n=st.integers(1, 30), scale=scales, share=st.floats(-3, 3), seed=st.integers(0, 99))
@settings(**LIMITS)
def test_equal_parts_get_the_same_and_a_part_cut_in_two_gets_its_sum(n, scale, share, seed):
    a, b = draw(2, 4, n, seed=seed, scale=scale)
    whole = attribution.attribute_divergence(torch.stack([2 * a, b])).parts
    twin = attribution.attribute_divergence(torch.stack([a, a, b])).parts
    assert torch.equal(twin[0], twin[1])
    close = {"rtol": 1e-9, "atol": 1e-9 * max(1.0, scale / 1e2)}
    torch.testing.assert_close(twin[0] + twin[1], whole[0], **close)
    torch.testing.assert_close(twin[2], whole[1], **close)
    cut = attribution.attribute_divergence(torch.stack([share * a, (2 - share) * a, b])).parts
    torch.testing.assert_close(cut[0] + cut[1], whole[0], **close)
    torch.testing.assert_close(cut[0], share / 2 * whole[0], **close)


@given(n=st.integers(1, 20), scale=scales, seed=st.integers(0, 99))
@settings(**LIMITS)
def test_the_order_of_keys_and_rows_does_not_matter(n, scale, seed):
    parts = draw(3, n, n, seed=seed, scale=scale)
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    keys = torch.randperm(n, generator=torch.Generator().manual_seed(seed + 1))
    visible = triangle(n)
    split = attribution.attribute_divergence(parts, visible).parts
    moved = attribution.attribute_divergence(parts[:, rows][..., keys], visible[rows][:, keys]).parts
    torch.testing.assert_close(moved, split[:, rows], rtol=1e-9, atol=1e-10 * max(1.0, scale))


@given(n=st.integers(2, 12), scale=scales, seed=st.integers(0, 99))
@settings(**LIMITS)
def test_masked_keys_do_not_matter(n, scale, seed):
    parts = draw(2, n, seed=seed, scale=scale)
    seen = torch.ones(n + 3, dtype=torch.bool)
    seen[n:] = False
    padded = torch.cat([parts, draw(2, 3, seed=seed + 1, scale=1e12)], -1)
    full, cut = attribution.attribute_divergence(padded, seen), attribution.attribute_divergence(parts)
    torch.testing.assert_close(full.parts, cut.parts, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(full.divergence, cut.divergence, rtol=1e-9, atol=1e-9)


def mean_on_path(scores):
    """The mean attention on the path, from what indicators of one key each get: p less that mean."""
    keys = torch.eye(len(scores), dtype=torch.float64)
    split = attribution.attribute_divergence(torch.stack([scores, *keys, -torch.ones_like(scores)]))
    return scores.softmax(-1) - split.parts[1:-1]


def hard_rows():
    """Rows that are hard to integrate: far, crowded, nearly tied at the top, on several scales at once."""
    crowd = torch.zeros(1000, dtype=torch.float64)
    crowd[0], crowd[1] = 500, 499
    scales = torch.tensor([0.0, -1e-3, -0.1, -1, -10, -100, -1000], dtype=torch.float64)
    return {
        "far": torch.tensor([0.0, 800.0]).double(),
        "crowd": crowd,
        "scales": scales,
        "ladder": torch.linspace(0, 700, 29).double(),
        "small": draw(7, scale=1e-8),
        "normal": draw(60, scale=20.0),
    }


@pytest.mark.parametrize("name", hard_rows())
def test_the_mean_on_the_path_is_exact_on_hard_rows(name):
    scores = hard_rows()[name]
    mean = mean_on_path(scores)
    logs = scores.double().logsumexp(-1) - math.log(len(scores))
    assert abs(float(mean @ scores - logs)) < 1e-13 * max(1.0, float(scores.max() - scores.min()))
    torch.testing.assert_close(mean, by_force(scores), rtol=0, atol=1e-13)


@pytest.mark.parametrize("gap", [1e-9, 0.3, 5.0, 80.0, 1e5, 1e12])
@pytest.mark.parametrize("others", [1, 1000])
def test_closed_form_of_one_key_among_equal_ones(gap, others):
    scores = torch.zeros(others + 1, dtype=torch.float64)
    scores[0] = gap
    due = (np.logaddexp(gap, math.log(others)) - math.log(others + 1)) / gap
    assert abs(float(mean_on_path(scores)[0]) - due) < 1e-14 / min(gap, 1)


def test_float32_comes_back_as_float32_with_float64_accuracy():
    parts = draw(2, 5, 9, scale=5.0).float()
    split = attribution.attribute_divergence(parts)
    assert split.parts.dtype == split.divergence.dtype == torch.float32
    in_double = attribution.attribute_divergence(parts.double())
    torch.testing.assert_close(split.parts.double(), in_double.parts, rtol=1e-6, atol=1e-6)


@given(k=st.integers(1, 4), scale=scales, seed=st.integers(0, 99))
@settings(**LIMITS)
def test_other_splits(k, scale, seed):
    parts = draw(k, 3, 9, seed=seed, scale=scale)
    whole = attribution.divergence(parts.sum(0))
    for split in (shapley_values.in_order(parts, range(k)), shapley_values.shapley(parts)):
        torch.testing.assert_close(split.sum(0), whole, rtol=1e-9, atol=1e-9)
    if k == 1:
        torch.testing.assert_close(shapley_values.drop_one(parts)[0], whole, rtol=1e-9, atol=1e-9)
    first = shapley_values.in_order(parts, range(k))[0]
    torch.testing.assert_close(first, attribution.divergence(parts[0]), rtol=1e-9, atol=1e-9)


def test_shapley_depends_on_how_the_others_are_cut_and_the_path_does_not():
    a, b = draw(2, 40, scale=2.0)
    b = a + b
    for split, same in ((shapley_values.shapley, False), (lambda p: attribution.attribute_divergence(p).parts, True)):
        two, three = split(torch.stack([a, b])[:, None]), split(torch.stack([a, b / 2, b / 2])[:, None])
        assert bool(torch.isclose(two[0], three[0], rtol=1e-9)) is same


def test_increments_integrate_to_the_split():
    parts, visible = draw(3, 6, 6, scale=2.0), triangle(6)
    t, w = np.polynomial.legendre.leggauss(60)
    found = sum(b / 2 * attribution.attribution_density(parts, float(a + 1) / 2, visible) for a, b in zip(t, w))
    torch.testing.assert_close(found, attribution.attribute_divergence(parts, visible).parts, rtol=1e-9, atol=1e-10)


def test_the_derivative_on_the_path():
    """The formula of the docstring, by adaptive quadrature of t Cov(s, s_k)."""
    parts = draw(3, 8, scale=2.0)
    s = parts.sum(0)
    for k in range(3):

        def slope(t, k=k):
            p = (t * s).softmax(-1)
            return float(t * (p @ (s * parts[k]) - (p @ s) * (p @ parts[k])))

        due = integrate.quad(slope, 0, 1, epsabs=1e-12)[0]
        assert abs(float(attribution.attribute_divergence(parts).parts[k]) - due) < 1e-11


def test_parts_may_be_negative():
    s = draw(20, scale=3.0)
    assert attribution.attribute_divergence(torch.stack([2 * s, -s])).parts[1] < 0


LARGE = torch.tensor([1e8, 2.0, -1e8])[:, None, None] * torch.tensor([[0.0, 1.0]])  # in float32 1e8 + 2 is 1e8


@pytest.mark.parametrize(
    "split",
    [
        shapley_values.drop_one,
        shapley_values.shapley,
        lambda p: shapley_values.in_order(p, (0, 1, 2)),
        lambda p: attribution.attribution_density(p, 0.5),
        lambda p: attribution.attribute_divergence(p).parts,
    ],
)
def test_sums_of_large_parts_do_not_depend_on_the_dtype(split):
    found = split(LARGE)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), split(LARGE.double()), rtol=1e-6, atol=1e-6)
    assert found.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e12])
def test_the_gap_of_large_parts_that_cancel_is_what_rounding_leaves(dtype, scale):
    a, b = draw(2, 5, 30, scale=scale)
    split = attribution.attribute_divergence(torch.stack([a, b, draw(5, 30, seed=1), -(a + b)]).to(dtype))
    assert split.gap < 16 * torch.finfo(dtype).eps * scale


def test_a_constant_far_from_the_scores_costs_the_divergence_no_digit():
    whole = draw(5, 30, scale=3.0).round()
    torch.testing.assert_close(attribution.divergence(whole + 2.0**45), attribution.divergence(whole), rtol=0, atol=0)


def test_masked_keys_may_overflow():
    parts = torch.tensor([[[0.0, 1.0, 3e38]], [[0.0, 2.0, 3e38]]])
    seen = torch.tensor([True, True, False])
    for large in (parts, torch.where(seen, parts, 1.7e308 * torch.ones(3, dtype=torch.float64))):
        for split in (
            shapley_values.drop_one,
            shapley_values.shapley,
            lambda p, v: attribution.attribution_density(p, 0.5, v),
            lambda p, v: shapley_values.in_order(p, (1, 0), v),
            lambda p, v: attribution.attribute_divergence(p, v).parts,
        ):
            found = split(large, seen)
            torch.testing.assert_close(found, split(large[..., :2], seen[:2]))
            assert torch.isfinite(found).all()
            assert found.any()


@pytest.mark.parametrize("t", [math.nan, -1e-9, 2.0, math.inf])
def test_a_point_beyond_the_path_is_refused(t):
    with pytest.raises(ValueError, match="between 0 and 1"):
        attribution.attribution_density(torch.zeros(2, 1, 3), t)


BAD = {
    "minus infinity": (torch.tensor([[[0.0, -math.inf]]]), None, "visible marks the keys"),
    "mask of one key": (torch.zeros(1, 2, 3), torch.ones(2, 1, dtype=torch.bool), "fit"),
    "mask with an axis of parts": (torch.zeros(3, 2, 2), torch.ones(3, 2, 2, dtype=torch.bool), "fit"),
    "row without key": (torch.zeros(1, 2, 2), torch.tensor([[True, True], [False, False]]), "without any"),
    "overflow of the sum": (torch.full((2, 1, 2), 1e308, dtype=torch.float64), None, "too large"),
    "overflow of the range": (torch.tensor([[[-1e308, 1e308]]], dtype=torch.float64), None, "too far"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BAD)
def test_refusals(name):
    parts, visible, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        attribution.attribute_divergence(parts, visible)


def test_refusals_of_the_other_splits():
    with pytest.raises(ValueError, match="each of the 2 parts"):
        shapley_values.in_order(torch.zeros(2, 1, 3), (0, 0))
    with pytest.raises(ValueError, match="at most 6"):
        shapley_values.shapley(torch.zeros(7, 1, 3))
    with pytest.raises(ValueError, match="-inf"):
        attribution.divergence(torch.tensor([0.0, -math.inf]))


def test_the_gap_is_the_largest_over_rows():
    found = attribution.Attribution(torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -5.0]]), torch.tensor([1.5, 1.0, -1.75]))
    assert found.gap == 1.0  # sums of 1.5, 2 and -2
