"""The story on weighted means computes the evenness that its evidence measures, and its exercise comes out."""

from types import SimpleNamespace

import pytest
import torch

from analysis.models import checkpoints
from book.lab.equality import entropy_shares
from book.publish import execution


@pytest.fixture(scope="module")
def ran():
    """Run the story's cells one after the other, and keep what they leave."""
    space = {"__name__": "__main__"}
    for cell in execution.cell_sources(execution.pages()["weighted-mean"].read_text(encoding="utf-8")):
        exec(compile(cell, "story", "exec"), space)
    return SimpleNamespace(**space)


# A seed draws other numbers in double precision, so that the two untrained models are alike but not the same.
@pytest.mark.parametrize(("seed", "apart"), [(None, 1e-4), (0, 3e-3)])
def test_the_evenness_of_a_head_is_the_share_of_entropy_that_the_evidence_measures(ran, seed, apart):
    measured = entropy_shares(checkpoints.find("minilm"), passages=1, control_seed=seed)[0]
    torch.testing.assert_close(ran.evenness(seed).double(), measured, atol=apart, rtol=0)


def test_both_orders_of_mean_and_maps_print_the_same_and_one_half_halves_the_bias(ran):
    def orders(weights):
        after = (weights @ ran.letters) @ (ran.W_V @ ran.W_O) + (ran.b_V @ ran.W_O + ran.b_O)
        return after - (weights @ (ran.letters @ ran.W_V + ran.b_V) @ ran.W_O + ran.b_O)

    torch.testing.assert_close(orders(ran.weights), torch.zeros(3, 2), atol=1e-5, rtol=0)
    halved = ran.weights * torch.tensor([[1.0], [1.0], [0.5]])
    torch.testing.assert_close(orders(halved), torch.tensor([[0.0, 0], [0, 0], [3, 0]]), atol=1e-5, rtol=0)
