"""How far rows are from being all the same, by hand, and a random stack made once more."""

import pytest
import torch

from analysis.representations.rank_collapse import cubic_rate, random_collapse, residual, scatter_around_mean
from analysis.transformer.encoder import PURE_ATTENTION, Switches, random_layers, run_layer
from tests.analysis.tiny import draw


def test_a_residual_is_taken_over_rows_and_columns_of_each_matrix():
    x = torch.tensor([[[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]], [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0]]])
    # means 2 and 3: squared distances 1 + 1, 1 + 1, 0 + 4, of squares 1 + 4 + 9 + 4 + 4 + 25
    assert residual(x).tolist() == pytest.approx([(8 / 47) ** 0.5, 0.0])
    assert residual(torch.zeros(2, 3)) == 0


@pytest.mark.parametrize("gain", [0.5, 3.0])
def test_a_random_stack_reads_normalised_rows(gain):
    switches = [Switches(), PURE_ATTENTION]
    found = random_collapse(8, gain, 5, switches, depth=2, heads=2, rows=6)
    generator = torch.Generator().manual_seed(5)
    layers = random_layers(2, 2, 8, gain=gain, generator=generator)
    drawn = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    drawn = drawn - drawn.mean(-1, keepdim=True)
    drawn = drawn / (drawn.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    for row, switch in zip(found, switches, strict=True):
        x, due = drawn, []
        for layer in [*layers, None]:
            due.append((x - x.mean(0)).norm() / x.norm())
            x = run_layer(x, layer, switches=switch).second if layer else x
        torch.testing.assert_close(row, torch.stack(due))


def test_the_rate_is_a_slope_of_logarithms():
    sizes = torch.tensor([1.0, 2.0, 8.0]).double()
    residuals = torch.tensor([1.0, 4.0, 4.0]).double()
    # in units of log 2 the points are (0, 0), (1, 2), (3, 2)
    x, y = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 2.0, 2.0])
    due = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    assert cubic_rate(sizes, residuals) == pytest.approx(due.item())


@pytest.mark.parametrize("size", [0.05, 0.9])
def test_rows_are_scattered_to_the_residual_asked_for(size):
    mean, noise = draw(5), draw(7, 5, seed=3) + 4
    found = scatter_around_mean(mean, noise, size)
    torch.testing.assert_close(found.mean(0), mean)
    assert residual(found).item() == pytest.approx(size)
    apart, due = found - mean, noise - noise.mean(0)
    torch.testing.assert_close(apart / apart.norm(), due / due.norm())
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        scatter_around_mean(mean, noise, 1.0)
