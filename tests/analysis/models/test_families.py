"""The adapter against the modules of transformers themselves, on tiny random models of every family."""

import pytest
import torch

from analysis.models.checkpoints import find
from analysis.models.families import FAMILIES, from_checkpoint, from_module
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.surveys.family_agreement import agreement

TYPES = [(row.name, row.stack, row.model_types[0]) for row in FAMILIES]


@pytest.mark.parametrize(("name", "stack", "model_type"), TYPES)
def test_attention_is_the_modules_own(tmp_path, name, stack, model_type):
    model = tiny_model(model_type)
    layers = from_module(model, stack)
    inputs = tiny_inputs(model)
    assert layers.family.name == name
    as_it_is = agreement(model, layers, inputs)
    assert as_it_is.attention < 1e-5
    assert as_it_is.output < 1e-5
    in_double = agreement(model, layers, inputs, in_double=True)
    assert in_double.attention < 1e-12
    assert in_double.output < 1e-12
    model.save_pretrained(tmp_path)
    from_files = from_checkpoint(find("tiny", folder=tmp_path), stack, torch.float64)
    for layer in range(len(layers)):
        assert_same(layers[layer], from_files[layer])


def assert_same(one, other):
    for name, value in vars(one).items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, getattr(other, name)), name
        else:
            assert repr(value) == repr(getattr(other, name)), name


def test_a_wrong_pairing_is_noticed():
    """The comparison can fail: neighbours in the place of halves."""
    from dataclasses import replace
    model = tiny_model("llama")
    layers = from_module(model)
    turned = [replace(layer, positions=replace(layer.positions, pairing="neighbours")) for layer in layers]

    class Wrong(type(layers)):
        def __getitem__(self, layer):
            return turned[layer]
    wrong = Wrong(layers.family, layers.model_type, layers.config, layers.tensors)
    assert agreement(model, wrong, tiny_inputs(model)).attention > 1e-3
