"""How differences are measured, on rows and norms whose difference is chosen."""

import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.surveys.family_agreement import _norm_error, _relative
from analysis.surveys.layer_runs import InDouble, LayerRun, _doubled

ROWS = torch.tensor([[[3.0, 1.0], [0.0, -8.0], [5.0, 7.0]]], dtype=torch.float64)
"""One text of three rows; LayerNorm without eps makes (1, -1), (1, -1) and (-1, 1) of them."""
NORMED = torch.tensor([[[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]], dtype=torch.float64)
ALL = torch.ones(1, 3, dtype=torch.bool)


def norm(place):
    return Norm(torch.tensor([1.0, 4.0]).double(), torch.tensor([0.0, 1.0]).double(), eps=0.0, place=place)


OUT = NORMED * torch.tensor([1.0, 4.0]) + torch.tensor([0.0, 1.0])  # at most 5 in size


def test_a_difference_is_in_parts_of_the_largest_of_theirs():
    assert _relative(torch.tensor([1.0, -5.0]), torch.tensor([2.0, -8.0])) == 3 / 8
    assert _relative(torch.tensor([4.0, 1.0]), torch.tensor([2.0, 1.0])) == 1


@pytest.mark.parametrize("place", ["input", "update", "sum"])
def test_a_norm_errs_itself_or_stands_elsewhere(place):
    zero = torch.zeros(1, 3, 2, dtype=torch.float64)
    runs = {
        "input": LayerRun(OUT, zero, 9 * ROWS, ()),
        "update": LayerRun(9 * ROWS, zero, ROWS, ()),
        "sum": LayerRun(0.75 * ROWS, zero, 0.25 * ROWS, ()),
    }
    for other, run in runs.items():
        error = _norm_error(norm(place), run, ROWS, OUT, ALL)
        assert (error < 1e-12) == (other == place)
    assert _norm_error(norm(place), runs[place], ROWS, OUT + 0.5, ALL) >= 0.5 / 5.5
    wrong = OUT.clone()
    wrong[0, 2] += 2.0  # (1, 7): 2 of 7; rows that are padding do not count
    itself = 2 / 7 if place != "input" else 2 / 5  # as the layer's rows: 2 of 5
    assert _norm_error(norm(place), runs[place], ROWS, wrong, ALL) == pytest.approx(max(itself, 2 / 7))
    assert _norm_error(norm(place), runs[place], ROWS, wrong, torch.tensor([[True, True, False]])) < 1e-12


def test_what_asks_for_single_precision_gets_double():
    x = torch.ones(2, dtype=torch.float16)
    with InDouble():
        made = [x.float(), x.to(torch.float32), torch.zeros(2, dtype=torch.float32), x.softmax(-1, torch.float32)]
        half = x.to(torch.float16)
    assert {each.dtype for each in made} == {torch.float64}
    assert half.dtype == torch.float16
    assert x.float().dtype == torch.float32
    assert _doubled(torch.float16) == torch.float16
