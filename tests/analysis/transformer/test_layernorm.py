"""The derivatives of LayerNorm against autograd."""

from functools import partial

import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.transformer.layernorm import apply_norm, jacobian, sigma


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.1])
def test_jacobian_is_that_of_autograd(eps):
    row, gain, bias = torch.randn(3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm = Norm(gain, bias, eps)
    exact = torch.func.jacrev(partial(apply_norm, norm=norm))(row)
    torch.testing.assert_close(jacobian(row, norm), exact, rtol=0, atol=1e-13)


def test_rows_without_a_size_are_refused():
    with pytest.raises(ValueError, match="squares are not finite"):
        sigma(torch.tensor([1e20, -1e20]))
    norm = Norm(torch.ones(2), torch.zeros(2), eps=0.0)
    with pytest.raises(ValueError, match="one has size 0"):
        apply_norm(torch.tensor([[3.0, 3.0]]), norm)
