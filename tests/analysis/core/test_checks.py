"""The refusals at the door of a function, one by one: what passes, what does not, and what the message says."""

import math

import pytest
import torch

from analysis.core import checks

NAN, INF = math.nan, math.inf


def test_numbers_can_be_looked_at_but_on_meta_and_in_a_batch_of_vmap():
    seen = []

    def note(rows):
        seen.append(checks.has_numbers(rows))
        return rows.sum()

    torch.vmap(note)(torch.ones(2, 3))
    torch.func.grad(note)(torch.ones(3))  # wrapped, but no batch
    note(torch.ones(2, device="meta"))
    note(torch.ones(2))
    assert seen == [False, True, False, True]


def test_a_sum_that_overflows_is_no_entry_that_is_infinite():
    large = torch.full((4,), 3e38)
    assert large.sum().isinf()
    assert checks.all_finite(large)
    assert checks.all_finite(torch.full((2,), NAN, device="meta"))
    for entry in (NAN, INF, -INF):
        assert not checks.all_finite(torch.tensor([1.0, entry, 2.0]))


def test_products_reach_the_largest_sizes_times_the_width():
    left, right = torch.tensor([[-2e19, 1.0]]), torch.tensor([[1.0, 5e18], [0.0, -1e19]])
    with pytest.raises(ValueError, match=r"x is too large for torch\.float32: products of a and b may reach 4e\+38"):
        checks.check_products(left, right, "a and b")  # 2 coordinates, each at most 2e19 times 1e19
    checks.check_products(left[:, :1], right[:, 1:], "a and b")  # 1 coordinate: 2e38
    checks.check_products(left.double(), right.double(), "a and b")
    checks.check_products(left, right.to("meta"), "a and b")
    checks.check_products(left.to("meta"), right, "a and b")
    checks.check_products(left.requires_grad_(), right[:, :1], "a and b")  # the smaller entries: 4e19


def test_products_add_up_along_the_coordinates_and_not_along_the_positions():
    heads = torch.full((1, 4, 2), 1e19)
    checks.check_products(heads, torch.full((2, 3), 1e19), "values and W_O")  # 2 coordinates at 4 positions: 2e38
    with pytest.raises(ValueError, match=r"products of values and W_O may reach 4e\+38"):
        checks.check_products(heads.mT, torch.full((4, 3), 1e19), "values and W_O")
