"""What a report says of the parameters of a layer, on layers whose answer is known by hand."""

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.positions import Alibi, Rotary, StreamPositions
from analysis.reporting.parameters import measure_layer, position_curves
from analysis.transformer.rotary import rotate
from tests.analysis.tiny import draw


def test_sizes_are_those_of_rows_as_large_as_the_norm_makes_them():
    """A norm with the gain (3, 4) makes rows of so large coordinates: what reads the first is 3 long, the second 4."""
    first, second = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[0.0], [1.0]]])
    zero = torch.zeros(1, 1)
    norm = Norm(torch.tensor([3.0, 4.0]), torch.zeros(2), 1e-5)
    layer = AttentionLayer(
        first, second, first + second, first.mT, zero, zero, zero, torch.zeros(2), 1.0, Mask(causal=True), norms=(norm,)
    )
    np.testing.assert_allclose(measure_layer(layer).sizes.ravel(), [3.0, 4.0, 5.0])


@pytest.mark.parametrize("positions", ["none", "alibi", "rotary"])
def test_a_layer_of_three_heads_and_one_key_written_out(positions):
    heads, model, channel, value, distances = 3, 5, 4, 2, 6
    rotary = Rotary(torch.tensor([1.0, 0.25]).double(), channel)
    layer = AttentionLayer(
        W_Q=draw(heads, model, channel, seed=1),
        W_K=draw(1, model, channel, seed=2),
        W_V=draw(1, model, value, seed=3),
        W_O=draw(heads, value, model, seed=4),
        b_Q=draw(heads, channel, seed=5),
        b_K=draw(1, channel, seed=6),
        b_V=draw(1, value, seed=7),
        b_O=draw(model, seed=8),
        scale=0.7,
        mask=Mask(causal=True),
        positions={"none": StreamPositions("none"), "alibi": Alibi(heads), "rotary": rotary}[positions],
        norms=(Norm(draw(model, seed=9), draw(model, seed=10)),),
    )
    gain, shift = layer.norms[0].gain, layer.norms[0].bias
    measured, own, carried = measure_layer(layer, distances), [], []
    for row, (W, b) in enumerate(((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K), (layer.W_V, layer.b_V))):
        each = [(W[h % len(W)], b[h % len(b)]) for h in range(heads)]
        own.append([b for _, b in each])
        carried.append([b + shift @ W for W, b in each])
        np.testing.assert_allclose(measured.biases[row], [b.norm() for b in own[-1]])
        np.testing.assert_allclose(measured.effective[row], [b.norm() for b in carried[-1]])
        np.testing.assert_allclose(measured.sizes[row], [(gain[:, None] * W).norm() for W, _ in each])
    for row, b_Q in enumerate((own[0], carried[0])):
        due = [0.7 * (gain * (layer.W_K[0] @ b)).norm() for b in b_Q]
        np.testing.assert_allclose(measured.spread[row], due)
    if positions == "none":
        assert measured.kernel is None
        assert measured.own_kernel is None
    elif positions == "alibi":
        slopes = [2**-4, 2**-8, 2**-2]
        line = -np.outer(slopes, np.arange(distances))
        np.testing.assert_allclose(measured.kernel, line - line.mean(1, keepdims=True))
        assert measured.own_kernel is None
    else:
        for found, (b_Q, b_K) in ((measured.kernel, carried[:2]), (measured.own_kernel, own[:2])):
            line = torch.zeros(heads, distances).double()
            for h in range(heads):
                for distance in range(distances):
                    turned = rotate(b_Q[h][None], rotary, torch.tensor([float(distance)]).double())[0]
                    line[h, distance] = 0.7 * turned @ b_K[h]
            np.testing.assert_allclose(found, line - line.mean(1, keepdim=True))
    table = draw(7, model, seed=11)
    curves = position_curves(layer, table)
    normed = (table - table.mean(-1, keepdim=True)) / (table.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * gain
    due = torch.stack([0.7 * normed @ layer.W_K[0] @ b for b in carried[0]])
    np.testing.assert_allclose(curves, due - due.mean(-1, keepdim=True))
