"""Singular values of products, against the dense route, and where Gram matrices must give way."""

import pytest
import torch

from analysis.matrices import spectra


def draw(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def with_condition(rows, channel, condition, seed):
    """A factor with singular values from 1 down to 1 / condition, in no special basis."""
    U = torch.linalg.qr(draw(rows, channel, seed=seed)).Q
    V = torch.linalg.qr(draw(channel, channel, seed=seed + 1)).Q
    return U * torch.logspace(0, -torch.tensor(condition).log10().item(), channel, dtype=torch.float64) @ V.T


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "columns", "channel"), [(40, 40, 8), (9, 30, 8), (8, 8, 8), (5, 5, 1)])
def test_equals_dense_singular_values(rows, columns, channel, dtype):
    A, B = draw(2, 3, rows, channel, dtype=dtype), draw(2, 3, columns, channel, seed=2, dtype=dtype)
    due = torch.linalg.svdvals(A.double() @ B.double().mT)[..., :channel]
    torch.testing.assert_close(spectra.product_singular_values(A, B), due, rtol=1e-9, atol=0)


@pytest.mark.parametrize("condition", [1e3, 1e5, 1e7])
def test_ill_conditioned_factors_keep_six_digits(condition):
    # one factor ill-conditioned, both well aligned: the smallest value is about 1 / condition of the largest
    A, B = with_condition(60, 8, condition, 3), with_condition(60, 8, 10.0, 7)
    due = torch.linalg.svdvals(A @ B.T)[:8]
    got = spectra.product_singular_values(A[None], B[None])[0]
    assert ((got - due).abs() / due).max() < 1e-6


def test_the_fallback_is_what_saves_them():
    A, B = with_condition(60, 8, 1e7, 3), with_condition(60, 8, 1e2, 7)
    due = spectra.by_qr(A[None], B[None])[0]
    plain, error = spectra.by_gram(A[None], B[None])
    assert ((plain[0] - due).abs() / due).max() > 1e-6
    assert error.item() > 1e-7
    got = spectra.product_singular_values(A[None], B[None])[0]
    torch.testing.assert_close(got, due, rtol=1e-12, atol=0)
    # only the matrix that needs it is treated so
    good = draw(1, 60, 8)
    both = spectra.product_singular_values(torch.cat([A[None], good]), torch.cat([B[None], good]))
    torch.testing.assert_close(both[0], due, rtol=1e-12, atol=0)
    assert torch.equal(both[1], spectra.by_gram(good, good)[0][0])


def test_rank_deficient_and_zero_factors():
    A = draw(1, 20, 4)
    A[..., 3] = A[..., 0]
    values = spectra.product_singular_values(A, draw(1, 20, 4, seed=2))[0]
    assert values[3] < 1e-13 * values[0]
    assert values[2] > 0.01
    assert not spectra.product_singular_values(0 * A, A).any()


def test_gauge_leaves_the_values():
    A, B, G = draw(2, 30, 5), draw(2, 30, 5, seed=2), draw(2, 5, 5, seed=3)
    torch.testing.assert_close(
        spectra.product_singular_values(A @ G, B @ torch.linalg.inv(G).mT),
        spectra.product_singular_values(A, B),
        rtol=1e-9,
        atol=0,
    )


def test_augmented_product_is_the_whole_score():
    W_Q, W_K, b_Q, b_K, x = draw(6, 3), draw(6, 3, seed=2), draw(3, seed=3), draw(3, seed=4), draw(5, 6, seed=5)
    one = torch.cat([x, torch.ones(5, 1, dtype=torch.float64)], 1)
    whole = one @ spectra.augment(W_Q, b_Q) @ spectra.augment(W_K, b_K).T @ one.T
    torch.testing.assert_close(whole, (x @ W_Q + b_Q) @ (x @ W_K + b_K).T)
    plain = spectra.product_singular_values(W_Q[None], W_K[None])[0]
    bordered = [spectra.augment(W, b)[None] for W, b in ((W_Q, b_Q), (W_K, b_K))]
    assert (spectra.product_singular_values(*bordered)[0] >= plain - 1e-12).all()


def test_refusals():
    with pytest.raises(ValueError, match="as many rows"):
        spectra.product_singular_values(draw(2, 3, 5), draw(2, 9, 5))
    with pytest.raises(ValueError, match="accuracy must be"):
        spectra.product_singular_values(draw(5, 3), draw(4, 3), accuracy=float("nan"))


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_squares_that_leave_the_range_go_through_qr(scale):
    A, B = draw(2, 20, 4), draw(2, 20, 4, seed=2)
    A[1] = A[1] * scale
    due = spectra.by_qr(draw(2, 20, 4), B)
    got = spectra.product_singular_values(A, B)
    torch.testing.assert_close(got / torch.tensor([[1.0], [scale]], dtype=torch.float64), due, rtol=1e-9, atol=0)


def test_factors_that_require_gradients_give_the_same_values_and_a_gradient():
    A, B = draw(2, 20, 4), draw(2, 30, 4, seed=2)
    followed = A.clone().requires_grad_()
    values = spectra.product_singular_values(followed, B)
    torch.testing.assert_close(values, spectra.product_singular_values(A, B), rtol=1e-10, atol=0)
    values.square().sum().backward()
    torch.testing.assert_close(followed.grad, 2 * A @ (B.mT @ B))  # of |A B^T|^2


def test_the_norm_is_the_largest_of_three_singular_values():
    turn = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    W = torch.stack([turn[:, :3] * torch.tensor([2.0, 5.0, 3.0]), turn[:, 1:] * torch.tensor([1.0, 0.5, 0.25])])
    torch.testing.assert_close(spectra.spectral_norm(W), torch.tensor([5.0, 1.0]).double())
    torch.testing.assert_close(spectra.singular_values(W)[0], torch.tensor([5.0, 3.0, 2.0]).double())
