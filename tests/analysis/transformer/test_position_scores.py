"""Scores of DeBERTa's tables of distances: what does not fit the queries is refused by name."""

from dataclasses import replace

import pytest
import torch

from analysis.core.positions import Disentangled
from analysis.transformer.position_scores import disentangled_scores

QUERIES = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
TABLE = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1))
POSITIONS = Disentangled(TABLE, TABLE, 3, None, 8)


@pytest.mark.parametrize("field", ["keys", "queries"])
def test_a_table_of_another_dtype_is_refused_by_name(field):
    disentangled_scores(QUERIES, QUERIES, POSITIONS)
    expected = rf"^positions.{field} must be \(2, 6, 4\) in torch.float32 .*, got \(2, 6, 4\) in torch.float64"
    with pytest.raises(ValueError, match=expected):
        disentangled_scores(QUERIES, QUERIES, replace(POSITIONS, **{field: TABLE.double()}))


def test_tables_of_another_width_are_refused_by_name():
    narrow = Disentangled(TABLE[..., :3], TABLE[..., :3], 3, None, 8)
    with pytest.raises(ValueError, match=r"^positions.keys must be \(2, 6, 4\) .*, got \(2, 6, 3\)"):
        disentangled_scores(QUERIES, QUERIES, narrow)
