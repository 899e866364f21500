"""Model in, parts out: what a layer reads, padded on either side, in half precision, from arrays."""

import numpy as np
import pytest
import torch

from analysis import attend, compute_scores, layer_inputs, load, score_parts
from analysis.models import pretrained
from analysis.models.checkpoints import find
from analysis.models.families.tiny import tiny_inputs, tiny_model

TEXTS = ["Nobody expects it.", "A longer sentence, so that the first one is padded on one of its sides."]


def encode(name, side):
    tokenizer = pretrained.tokenizer(find(name))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    tokenizer.padding_side = side
    inputs = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    if side == "left" and name != "neox-mini":  # learned positions, which count padding
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return inputs


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["gpt2-mini", "neox-mini", "minilm"])
def test_attention_of_what_a_layer_reads_is_the_models_own(name, side):
    model, inputs = pretrained.load(find(name)), encode(name, side)
    maps = model(**inputs, output_attentions=True).attentions
    keep = inputs["attention_mask"].bool()
    layers = load(model).layers
    for number in (0, len(layers) - 1):
        ours = attend(layer_inputs(model, inputs, number), layers[number], keep=keep).attention
        gap = (ours - maps[number]).abs().transpose(1, 2)[keep]
        assert gap.max() < 2e-6


@pytest.mark.parametrize("name", ["gpt2-mini", "neox-mini", "minilm"])
def test_parts_add_up_to_the_scores(name):
    model, inputs = pretrained.load(find(name)).double(), encode(name, "left")
    layer, x = load(model).layers[-1], layer_inputs(model, inputs, -1)
    parts = score_parts(model, inputs, -1, origin=x.mean((0, 1)))
    assert len(parts.total()) == len(TEXTS)
    torch.testing.assert_close(parts.total(), compute_scores(x, layer), rtol=0, atol=1e-10)
    assert parts.common.abs().max() > 1e-3


def test_half_precision_is_taken_apart_in_single():
    model, inputs = pretrained.load(find("gpt2-mini"), dtype=torch.bfloat16), encode("gpt2-mini", "right")
    whole = score_parts(pretrained.load(find("gpt2-mini")), inputs, 1).total()
    parts = score_parts(model, inputs, 1)
    assert parts.content.dtype == torch.float32
    assert 0 < (parts.total() - whole)[:, :, :4, :4].abs().max() < 0.3  # what bfloat16 rounds


def test_ids_alone_and_arrays_are_inputs():
    model = pretrained.load(find("gpt2-mini"))
    ids = np.array([[5, 6, 7, 8]])
    assert torch.equal(layer_inputs(model, ids, 1), layer_inputs(model, {"input_ids": torch.tensor(ids)}, 1))


def test_layers_that_share_their_modules_are_told_apart():
    model = tiny_model("albert")
    inputs, layers = tiny_inputs(model), load(model).layers
    assert len(layers) > 1
    maps = model(**inputs, output_attentions=True).attentions
    for number, layer in enumerate(layers):
        ours = attend(layer_inputs(model, inputs, number), layer).attention
        assert (ours - maps[number]).abs().max() < 1e-6


def test_refusals():
    model = pretrained.load(find("gpt2-mini"))
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(IndexError, match=r"layer must be 0\.\.1, got 4"):
        layer_inputs(model, ids, 4)
    with pytest.raises(ValueError, match="training mode"):
        layer_inputs(model.train(), ids)
