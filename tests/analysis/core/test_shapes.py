"""What is computed prints as its shapes: a screen of numbers tells nobody what there is."""

import pytest
import torch

from analysis import attend, circuits, load, read_gates, score_terms


@pytest.mark.parametrize("name", ["gpt2-mini", "neox-mini"])
def test_a_layer_and_what_is_computed_of_it_print_in_a_few_lines(name):
    layer, x = load(name).layers[0], torch.ones(9, 128)
    attended = attend(x, layer)
    computed = [layer, attended, score_terms(x, layer), read_gates(attended.attention, causal=True)]
    computed += [circuits(layer, distance=1 if name == "neox-mini" else None)]
    for each in computed:
        assert "tensor(" not in repr(each)
        assert len(repr(each)) < 1000
    assert "attention=<8 x 9 x 9>" in repr(attended)
    assert "W_Q=<8 x 128 x 16>" in repr(layer)
    assert "causal=True" in repr(layer)
