"""The experiments on rotary positions on tiny models: controls."""

import torch

from analysis.models.reading import load
from book.experiments import rotary_bias
from tests.book.lab.test_rotary_ablation import make_model


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
