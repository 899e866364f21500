"""Sums over processes, with a second process that is only pretended: it has the same sums."""

import math

import pytest
import torch

from analysis.statistics.exact_sums import LARGEST, UNIT, Moments, Sums, add, fixed


@pytest.fixture
def two_processes(monkeypatch):
    import torch.distributed as dist

    monkeypatch.setattr(dist, "is_available", lambda: True)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.mul_(2))


def sums(*numbers):
    made = Sums()
    made.state = {"one": fixed(torch.tensor(numbers, dtype=torch.float64)), "other": torch.tensor([3])}
    return made


@pytest.mark.usefixtures("two_processes")
def test_the_sums_of_all_processes_are_added():
    found = sums(0.25, -2.0, 0.45 * LARGEST).all_reduce()
    assert (found.state["one"].double() / UNIT).tolist() == pytest.approx([0.5, -4.0, 0.9 * LARGEST])
    assert found.state["other"].tolist() == [6]


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize("large", [0.6 * LARGEST, -0.6 * LARGEST])
def test_a_sum_that_would_outgrow_64_bits_is_refused_before_any_is_added(large):
    before = sums(0.25, large)
    with pytest.raises(OverflowError, match="a sum went beyond"):
        before.all_reduce()
    assert before.state["one"][0] == 0.25 * UNIT


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
