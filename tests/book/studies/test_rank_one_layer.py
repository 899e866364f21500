"""One random layer of the study of rank collapse: what goes in comes out where the answer is known."""

import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.positions import ScoreTable
from analysis.core.weights import EncoderLayer
from analysis.transformer.encoder import random_layers
from book.studies.bert_rank import stacks

ROWS = torch.tensor([[2.0], [4.0], [9.0]]).double()


def that_copies() -> EncoderLayer:
    """Return a layer of one channel whose scores are all 0 and whose values are its inputs."""
    (layer,) = random_layers(1, 1, 1, generator=torch.Generator().manual_seed(0))
    zero, one, nothing = torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1).double(), torch.zeros(1, 1).double()
    attention = AttentionLayer(zero, zero, one, one, nothing, nothing, nothing, nothing[0])
    return EncoderLayer(attention, layer.norm_attention, layer.mlp, layer.norm_mlp)


def test_attention_alone_writes_the_mean_and_with_a_causal_mask_the_mean_so_far():
    layer = that_copies()
    torch.testing.assert_close(stacks.run_with(stacks.PURE_ATTENTION)(ROWS, layer), torch.full((3, 1), 5.0).double())
    torch.testing.assert_close(stacks.run_with(stacks.WITH_SKIP)(ROWS, layer), ROWS + 5)
    so_far = torch.tensor([[2.0], [3.0], [5.0]]).double()
    torch.testing.assert_close(stacks.attend_with(mask=Mask(causal=True))(ROWS, layer), so_far)


def test_a_table_of_scores_turns_rows_around():
    table = torch.log(torch.tensor([[[1, 0, 0], [0, 1, 0], [1, 1, 0]]]).double())
    turned = stacks.attend_with(positions=ScoreTable(table))(ROWS, that_copies())
    torch.testing.assert_close(turned, torch.tensor([[2.0], [4.0], [3.0]]).double())


def test_rows_are_placed_at_the_distances_that_are_asked_for():
    sizes = torch.tensor([0.1, 0.001]).double()
    found = stacks.residuals_after_a_layer(sizes, 3, lambda x, _: x, 1.0, torch.device("cpu"))
    torch.testing.assert_close(found, sizes)
    shapes = []
    stacks.residuals_after_a_layer(sizes, 3, lambda x, _: shapes.append(tuple(x.shape)) or x, 1.0, torch.device("cpu"))
    assert shapes == [(32, 64)] * 2


def test_what_scores_see_decides_the_power():
    found = stacks.measure_one_layer(torch.device("cpu"))
    slopes = {name: slope.value for name, slope in found.slopes.items()}
    left = found.after["with skip"][:, -1] / 1e-4  # of the rows that lie nearest to their mean
    assert found.log_factor[1.0].value == pytest.approx(left.log().mean().item())
    three = {"attention", "then MLP", "then LayerNorm", "scores by place"}
    assert {name for name, slope in slopes.items() if abs(slope - 3) < 0.02} == three
    assert {name for name, slope in slopes.items() if abs(slope - 1) < 0.02} == set(slopes) - three
    assert set(slopes) - three == {"causal mask", "scores by distance", "with skip"}
