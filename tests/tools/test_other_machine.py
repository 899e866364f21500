"""The mode that plays another machine: what rounds moves, alike for alike values and by units in the last place."""

import pytest
import torch

from tools.other_machine import OtherMachine

A = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def computed(dtype, seed=None):
    """Compute what rounds, on this machine or on another one."""
    a = A.to(dtype)

    def compute():
        due = {"product": a @ a.T, "sum": a.sum(0), "softmax": a.softmax(1), "exponential": a.exp()}
        return due | {"norm": torch.nn.functional.layer_norm(a, [5])}

    if seed is None:
        return compute()
    with OtherMachine(seed):
        return compute()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_rounds_moves_by_a_few_units_in_the_last_place(dtype):
    eps = torch.finfo(dtype).eps
    for name, here in computed(dtype).items():
        there = computed(dtype, seed=1)[name]
        gap = (there - here).abs()
        assert 0 < gap.max() < 8 * eps * here.abs().max(), name


def test_two_seeds_are_two_machines_and_one_seed_is_one():
    one, again, other = computed(torch.float64, 1), computed(torch.float64, 1), computed(torch.float64, 2)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)


def test_alike_values_move_alike_and_opposite_ones_oppositely():
    with OtherMachine(3):
        twice, opposite = torch.cat([A, A]).sum(1), (-A).sum(1)
    assert torch.equal(twice[:20], twice[20:])
    assert torch.equal(opposite, -twice[:20])


@pytest.mark.parametrize(
    "exact",
    [
        lambda: torch.arange(10.0).sum(),
        lambda: torch.ones(4, 5) @ torch.ones(5, 2),
        lambda: torch.ones(8).mean(),
        lambda: torch.zeros(4).softmax(0),
        lambda: torch.eye(20).double() @ A,  # one term each
        lambda: torch.cat([A[:1], torch.zeros(1, 5).double()]).sum(0),
        lambda: torch.tensor([float("inf"), 1.0]).exp(),
        lambda: A * 3 + 1,  # elementwise: rounded alike everywhere
    ],
)
def test_what_is_exact_on_every_machine_stays(exact):
    here = exact()
    with OtherMachine(1):
        there = exact()
    stays = here == there
    assert stays.all() or torch.equal(stays, torch.tensor([True, False]))  # exp(1) rounds


def test_decompositions_still_multiply_to_the_matrix_with_other_signs():
    U, *_ = torch.linalg.svd(A)
    _, vectors = torch.linalg.eigh(A.T @ A)
    signs = []
    for seed in range(4):
        with OtherMachine(seed):
            u, s, v = torch.linalg.svd(A)
            w, q = torch.linalg.eigh(A.T @ A)
        torch.testing.assert_close(u[:, :5] * s @ v, A, rtol=0, atol=1e-13)
        torch.testing.assert_close(q * w @ q.T, A.T @ A, rtol=0, atol=1e-13)
        signs += [(u * U).sum(0)[:5].sign(), (q * vectors).sum(0).sign()]
    assert torch.stack(signs).min() == -1


def test_gradients_flow_and_what_is_computed_in_place_moves_too():
    x = A.clone().requires_grad_()
    with OtherMachine(1):
        x.exp().sum().backward()
        in_place = A.clone().exp_()
    assert torch.equal(x.grad, in_place)
    assert not torch.equal(in_place, A.exp())
