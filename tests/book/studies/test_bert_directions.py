"""The rows of the cone's viewer lie where they lie on every machine: an axis has the sign of its furthest row."""

import pytest
import torch

from book.studies.bert_normality import cone


@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_rows_do_not_depend_on_the_signs_of_the_decomposition(signs, monkeypatch):
    rows = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    due, decompose = cone.place(rows), torch.linalg.svd

    def turned(*arguments, **options):
        left, values, right = decompose(*arguments, **options)
        right[:2] *= torch.tensor(signs, dtype=right.dtype)[:, None]
        return left, values, right

    monkeypatch.setattr(torch.linalg, "svd", turned)
    assert torch.equal(cone.place(rows), due)
    across = due[:, 1:]
    assert (across.gather(0, across.abs().argmax(0, keepdim=True)) > 0).all()
