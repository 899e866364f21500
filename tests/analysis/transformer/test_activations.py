"""The kept forward pass: padding, and rows that are too large."""

import pytest
import torch

from analysis.transformer.encoder import random_layers, run_layer
from analysis.transformer.layernorm import normalise


@pytest.fixture
def layer():
    return random_layers(1, 3, 12, generator=torch.Generator().manual_seed(0))[0]


def test_no_query_attends_to_what_is_not_kept(layer):
    """The padding mask is that of transformers: positions of padding still have a query."""
    x = torch.randn(7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    keep = torch.arange(7) < 5
    padded, plain = run_layer(x, layer, keep=keep), run_layer(x[:5], layer)
    assert not padded.attention[..., 5:].any()
    torch.testing.assert_close(padded.attention.sum(-1), torch.ones(3, 7).double())
    torch.testing.assert_close(padded.second[:5], plain.second)
    for name, due in vars(plain).items():
        torch.testing.assert_close(getattr(padded.only(keep), name), due)
    torch.testing.assert_close(run_layer(torch.stack([x, 2 * x]), layer, keep=keep).second[0], padded.second)
    torch.testing.assert_close(run_layer(x, layer, keep=torch.ones(7).bool()).second, run_layer(x, layer).second)


def test_rows_whose_squares_overflow_are_refused_rather_than_made_zero():
    row = torch.tensor([1.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(normalise(1e150 * row), row)
    with pytest.raises(ValueError, match="rows: too large"):
        normalise(1e200 * row)
