"""Biases exchanged on unchanged inputs: the maps they would make."""

import numpy as np
import pytest
import torch

from analysis.data import texts
from analysis.maps import gates
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.experiments import bert_gates_query_bias

TEXTS = texts.passages(longest=45)[:2]


@pytest.fixture(scope="module")
def minilm():
    found = checkpoints.find("minilm")
    return pretrained.load(found), pretrained.tokenizer(found)


def test_maps_are_those_of_the_model_and_of_a_first_layer_without_biases(minilm):
    model, tokenizer = minilm
    own = [layer.b_Q for layer in load(model).layers]
    found = bert_gates_query_bias.exchange(model, tokenizer, TEXTS[:1], {"own": own, "none": [0 * b for b in own]})
    assert found.shape == (1, 2, 6, 12, len(gates.GATES))
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True)
    assert np.allclose(found[0, 0], gates.read_gates(torch.cat(maps.attentions)).scores.numpy(), atol=5e-3)
    bare = pretrained.load(checkpoints.find("minilm"))
    bare.encoder.layer[0].attention.self.query.bias.data.zero_()  # the first layer's input does not change
    with torch.no_grad():
        first = bare(**inputs, output_attentions=True).attentions[0]
    assert np.allclose(found[0, 1, 0], gates.read_gates(first).scores[0].numpy(), atol=5e-3)


def test_columns_of_mostly_directional_maps_are_chosen_by_the_own_bias():
    trained, lent = np.zeros((1, 3, 1, 2, len(gates.GATES))), np.zeros((1, 2, 1, 2, len(gates.GATES)))
    trained[0, :, 0, :, bert_gates_query_bias.DIRECTIONAL] = [[0.5, 0.1], [0.2, 0.9], [0.4, 0.3]]
    lent[0, :, 0, :, bert_gates_query_bias.DIRECTIONAL] = [[0.0, 0.2], [0.1, 0.3]]
    found = {name: array.round(6).tolist() for name, array in bert_gates_query_bias.columns(trained, lent, 0.3).items()}
    assert found == {
        "columns_own": [0.3],
        "mostly_own": [0.5],
        "columns_none": [0.55],
        "mostly_none": [0.2],
        "columns_random": [0.35],
        "mostly_random": [0.4],
        "control_own": [0.1],
        "control_lent": [0.2],
    }
