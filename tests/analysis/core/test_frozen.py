"""What all classes of weights share: what they refuse, and what moves."""

import math
from dataclasses import dataclass, replace

import pytest
import torch

from analysis.core.frozen import Frozen
from analysis.core.scaling import scale_to_one


@dataclass(frozen=True)
class Pair(Frozen):
    first: torch.Tensor
    name: str = "pair"
    second: torch.Tensor | None = None


PAIR = Pair(torch.ones(2, dtype=torch.float64), "rows", torch.ones(3, 1, dtype=torch.float64))


def test_every_tensor_moves_and_the_rest_stays():
    half = PAIR.to(torch.float16)
    assert half.first.dtype == half.second.dtype == torch.float16
    assert half.name == "rows"
    assert half.double().second.dtype == torch.float64
    assert replace(PAIR, second=None).to(torch.float32).second is None


def test_tensors_of_other_dtypes_or_without_an_end_are_refused():
    for wrong in (torch.ones(3), torch.ones(3, dtype=torch.int64)):
        with pytest.raises(ValueError, match=r"^second must be of a floating dtype, .* and first in torch.float64"):
            replace(PAIR, second=wrong)
    with pytest.raises(ValueError, match=r"^first must be of a floating dtype"):
        Pair(torch.ones(2, dtype=torch.int64))
    for entry in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"^second holds entries that are not finite"):
            replace(PAIR, second=torch.tensor([1.0, entry], dtype=torch.float64))


def test_rows_are_divided_by_their_largest_size_and_zeros_stay_with_size_1():
    rows = torch.tensor([[[2.0, -8.0], [1.0, 4.0]], [[0.0, 0.0], [-3.0, 1.0]]])
    scaled, size = scale_to_one(rows, -1)
    assert size.tolist() == [[[8.0], [4.0]], [[1.0], [3.0]]]
    assert (scaled * size).equal(rows)
    assert scaled.abs().amax(-1).tolist() == [[1.0, 1.0], [0.0, 1.0]]
    assert scale_to_one(rows, (-2, -1))[1].tolist() == [[[8.0]], [[3.0]]]
