"""What splits scores into parts, by the bias of each head, and how a measurement is put into words and numbers."""

from dataclasses import replace

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary, StreamPositions
from analysis.reporting.measurement import Measurement, read_biases, splitter, to_json
from analysis.reporting.origins import kernel
from analysis.transformer.rotary import rotate
from tests.analysis.tiny import draw

ROTARY = Rotary(torch.tensor([1.0, 0.25]).double(), 6, base=500.0, attention_factor=1.5)
STREAM = StreamPositions("learned")


def test_the_bias_of_a_group_counts_for_each_of_its_heads():
    shapes = [(4, 3, 2), (2, 3, 2), (2, 3, 2), (4, 2, 3), (4, 2), (2, 2), (2, 2), (3,)]
    layer = AttentionLayer(*(draw(*shape, seed=seed) for seed, shape in enumerate(shapes)))
    b_Q, b_K = read_biases(layer)
    assert b_Q.equal(layer.b_Q)
    assert b_K.equal(layer.b_K[[0, 0, 1, 1]])
    assert [b.dtype for b in read_biases(layer.to(torch.float16))] == [torch.float32] * 2
    assert [b.dtype for b in read_biases(layer)] == [torch.float64] * 2


def test_a_split_is_turned_as_its_layer_is():
    vectors = [(draw(3, 6, seed=1), draw(3, 6, seed=2)), (draw(3, 6, seed=3), draw(3, 6, seed=4))]
    split = splitter(vectors, [STREAM, ROTARY])
    for found, vector in zip(split(0, 7), vectors[0], strict=True):
        assert found.equal(vector[:, None])
    query, key = split(1, 7)
    assert query.shape == key.shape == (3, 7, 6)
    for place in range(7):
        at = torch.tensor([float(place)]).double()
        for found, vector in zip((query, key), vectors[1], strict=True):
            torch.testing.assert_close(found[:, place], rotate(vector[:, None], ROTARY, at)[:, 0])


def test_a_kernel_is_a_score_by_distance():
    query, key = draw(2, 6, seed=1), draw(2, 6, seed=2)
    found = kernel(query, key, ROTARY, 0.7, distances=4)
    due = torch.stack(
        [
            0.7 * (rotate(query[:, None], ROTARY, torch.tensor([5.0 + d]).double())[:, 0] * turned).sum(-1)
            for d in range(4)
            for turned in [rotate(key[:, None], ROTARY, torch.tensor([5.0]).double())[:, 0]]
        ],
        -1,
    )
    np.testing.assert_allclose(found, due - due.mean(-1, keepdim=True))


def test_numbers_are_kept_to_six_digits_and_pictures_left_out():
    measured = Measurement({"Model": "m"}, [], maps=np.ones((1, 1, 2, 2)), causal=True)
    measured.position_curves = np.array([[1 / 3, np.nan, 123456789.0], [np.int64(4), -2.0, np.inf]])
    found = to_json(measured)
    assert found["position_curves"] == [[0.333333, None, 123457000.0], [4.0, -2.0, None]]
    assert found["about"] == {"Model": "m"}
    assert found["causal"] is True
    assert not {"maps", "viewer"} & found.keys()
    assert to_json(replace(measured, mean_kernels=[np.array([[2, 3]])]))["mean_kernels"] == [[[2, 3]]]
