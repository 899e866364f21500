"""Sums over processes, with a second process that is only pretended: it has the same sums."""

import math

import pytest
import torch

from analysis.statistics.exact_sums import LARGEST, UNIT, Moments, Sums, add, fixed


def sums(*numbers):
    made = Sums()
    made.state = {"one": fixed(torch.tensor(numbers, dtype=torch.float64)), "other": torch.tensor([3])}
    return made


def test_one_process_alone_keeps_its_sums():
    assert sums(0.5).all_reduce().state["one"].tolist() == [0.5 * UNIT]


def test_moments_of_three_numbers_by_hand():
    moments = Moments((2,))
    for values in ([1.0, -2.0], [2.0, 4.0], [6.0, 1.0]):
        moments.add(torch.tensor(values))
    assert moments.mean().tolist() == [3.0, 1.0]
    assert moments.deviation().tolist() == pytest.approx([math.sqrt(14 / 2), math.sqrt(18 / 2)])
    other = Moments((2,))
    other.add(torch.tensor([3.0, 1.0]))
    assert moments.merge(other).state["count"] == 4
    assert moments.deviation().tolist() == pytest.approx([math.sqrt(14 / 3), math.sqrt(18 / 3)])


def test_what_leaves_the_range_is_flagged_on_either_side():
    most = torch.tensor([2**63 - 1])
    assert not add(most.clone(), torch.tensor([0]))
    assert add(most.clone(), torch.tensor([1]))
    assert add(-most, torch.tensor([-2]))
    assert not add(-most, torch.tensor([-1]))
    assert not add(most.clone(), torch.tensor([-5]))
    assert add(torch.stack([torch.tensor(0), most[0]]), torch.tensor([1, 1]))  # one of two is enough
    for value in (LARGEST, -LARGEST, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be finite and below 2147483648"):
            fixed(torch.tensor([1.0, value]))
    assert fixed(torch.tensor([0.75, -1.25])).tolist() == [3 * 2**30, -5 * 2**30]
