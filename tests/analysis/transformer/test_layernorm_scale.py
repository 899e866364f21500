"""The widths of the stream without forming it, against all pairs at once."""

import pytest
import torch

from analysis.transformer.layernorm import sigma
from analysis.transformer.layernorm_scale import inverse_sigma


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_inverse_sigma_against_all_at_once(dtype, weighted):
    g = torch.Generator().manual_seed(4)
    tokens = (torch.randn(5000, 16, generator=g, dtype=torch.float64) + 0.3).to(dtype)
    positions = (torch.randn(37, 16, generator=g, dtype=torch.float64) - 0.2).to(dtype)
    frequency = torch.rand(5000, generator=g, dtype=torch.float64).to(dtype) if weighted else None
    levels = (0.0, 0.05, 0.5, 0.951, 1.0)
    found = inverse_sigma(tokens, positions, levels=levels, frequency=frequency, block=10)
    every = 1 / sigma((tokens[None] + positions[:, None]).double())
    weights = torch.ones(5000) if frequency is None else frequency
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    due = (every * weights.double()).sum(1) / weights.double().sum()
    torch.testing.assert_close(found.mean.double(), due, rtol=tolerance, atol=0)
    quantiles = torch.quantile(every, torch.tensor(levels, dtype=torch.float64), dim=1)
    torch.testing.assert_close(found.quantiles.double(), quantiles, rtol=tolerance, atol=0)


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    table = torch.ones(3, 4)
    with pytest.raises(ValueError, match="levels must lie"):
        inverse_sigma(table, table, levels=(1.2,))
    with pytest.raises(ValueError, match="block must be"):
        inverse_sigma(table, table, block=0)
    with pytest.raises(ValueError, match="frequency must be finite weights"):
        inverse_sigma(table, table, frequency=torch.tensor([1.0, -1.0, 1.0]))
