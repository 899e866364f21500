"""The experiments on rotary positions on tiny models: controls and the arrows."""

import numpy as np
import pytest
import torch

from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models.reading import load
from book.experiments import rotary_bias
from book.publish import experiments
from book.viewers import arrows
from tests.book.lab.test_rotary_ablation import make_model

CPU = torch.device("cpu")


def test_biases_of_controls_are_as_long_and_in_another_order():
    model = make_model("neox-mini", seed=1)
    for level, seed, network in rotary_bias.make_levels(model):
        for layer, own in zip(load(network).layers, load(model).layers, strict=True):
            if level == "random":
                assert not layer.b_K.any()
                continue
            torch.testing.assert_close(layer.b_K.norm(), own.b_K.norm())
            torch.testing.assert_close(layer.b_Q.norm(), own.b_Q.norm())
            same = torch.allclose(layer.b_K.flatten().sort().values, own.b_K.flatten().sort().values)
            assert same == (level == "permuted")
            assert not torch.allclose(layer.b_K, own.b_K)
        if seed:
            break


def test_the_record_of_the_arrows_is_the_bundled_models():
    written, found = experiments.load("rotary-bias-arrows"), rotary_bias.read_arrows(CPU)
    for name in ("length", "angle", "turn"):
        np.testing.assert_allclose(found.array(name), written.array(name), atol=1e-5)
    layer = load("neox-mini").layers[1]
    kernel = distance_kernel(layer.b_Q, layer.b_K, layer.positions)
    np.testing.assert_allclose(found.array("length")[0, 1], kernel.amplitude, atol=1e-6)


def test_the_static_arrows_end_where_the_kernel_is():
    record = experiments.load("rotary-bias-arrows")
    plane, panel = arrows.draw(record, distance=2).axes
    (place,), (reach,) = panel.lines[1].get_data()
    assert (place, reach) == (2, pytest.approx(plane.lines[1].get_xdata()[1]))
    length, angle, turn = (record.array(name).astype(float) for name in ("length", "angle", "turn"))
    at = arrows.START["source"], arrows.START["layer"], arrows.START["head"]
    assert reach == pytest.approx((length[at] * np.cos(angle[at] + 2 * turn)).sum())
