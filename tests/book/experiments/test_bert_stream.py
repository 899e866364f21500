"""What a layer mixes, on a small random layer: what its architecture forces, and what too few texts leave open."""

import numpy as np
import pytest
import torch

from analysis.transformer.encoder import random_layers
from book.experiments import bert_stream_minilm as survey


def texts(count):
    return list(torch.randn(count, 20, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64))


def layer(heads):
    return random_layers(1, heads, 24, generator=torch.Generator().manual_seed(0))[0]


@pytest.fixture(scope="module")
def found():
    return survey.measure_layer(texts(12), layer(3), seed=0)


def test_a_skip_connection_keeps_blocks_apart_and_W_O_does_not(found):
    np.testing.assert_allclose(found["coupling"].sum((1, 2)), 1, rtol=1e-6)
    off = 1 - np.trace(found["coupling"], axis1=1, axis2=2)
    assert off[survey.COUPLINGS.index("skip")] < 1e-9
    assert off[survey.COUPLINGS.index("W_O")] > 0.5
    assert found["additive_linear"] == pytest.approx(1, abs=0.25)


def test_heads_are_read_from_the_output_of_attention_and_not_from_other_rows(found):
    shares = dict(zip(survey.READ_BACK, found["read_back"].mean(1), strict=True))
    assert shares["heads", "attention_output"] > 0.9
    assert shares["first", "shuffled"] < 0.1


def test_two_texts_and_one_head_leave_numbers_open():
    few = survey.measure_layer(texts(2), layer(1), seed=0)
    assert np.isnan(few["read_back"]).all()
    assert np.isnan(few["interaction"])
    assert few["coupling"].shape == (len(survey.COUPLINGS), 1, 1)
