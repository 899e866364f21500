"""What is recorded of the shares, on tiny models."""

import numpy as np
import torch

from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.experiments import one_score_four_parts
from book.lab.score_survey import split_layer
from tests.analysis import tiny


def test_positions_alone_are_as_wide_as_with_a_token_of_median_width(tmp_path):
    """Each position is divided by the root of its own variance and of the square of the median deviation."""
    found = checkpoints.find(str(tiny.write_model(tmp_path / "gpt2")))
    model = load(found, dtype=torch.float64)
    p = model.positions
    deviation = (p.var(1, unbiased=False) + model.norm("attention").eps).sqrt()
    width = (deviation.square() + deviation.sort().values[(len(p) - 1) // 2].square()).sqrt()
    _, x = one_score_four_parts.read_first_layer(found)
    torch.testing.assert_close(x, (p / width[:, None])[: one_score_four_parts.POSITIONS])


def test_the_control_of_gpt2_has_no_semi_bias(tmp_path):
    found = checkpoints.find(str(tiny.write_model(tmp_path / "gpt2")))
    layer, x = one_score_four_parts.read_first_layer(found, control=True)
    split = split_layer([x], layer, causal=True)
    assert not split.parts[..., 2].any()
    assert split.divergence.max() < 0.1


def test_the_parts_of_each_layer_sum_to_its_divergence(tmp_path):
    found = checkpoints.find(str(tiny.write_model(tmp_path / "bert", tiny.BERT)))
    network = pretrained.load(found, dtype=torch.float64)
    found = one_score_four_parts.nats(network, [torch.arange(3, 9), torch.arange(4)])
    assert found.shape == (2, len(one_score_four_parts.MEASURES))
    np.testing.assert_allclose(found[:, 1:].sum(1), found[:, 0], atol=1e-9)
    assert [len(x) for x in one_score_four_parts.layer_inputs(network, torch.arange(5))] == [5, 5]
