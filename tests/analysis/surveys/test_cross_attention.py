"""The decoder's attention to the encoder, held to what the library's own modules return."""

import pytest
import torch

from analysis import load
from analysis.core.precision import default_dtype
from analysis.models.families.table import FAMILIES
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.surveys.cross_attention import cross_layer, cross_parts
from analysis.surveys.layer_runs import InDouble

DECODERS = [kind for row in FAMILIES for kind in row.model_types if row.stack == "decoder"]


@pytest.fixture(autouse=True)
def in_double():
    """Without this T5 computes its norms, and every family its softmax, in float32."""
    with torch.no_grad(), default_dtype(torch.float64), InDouble():
        yield


@pytest.mark.parametrize("kind", DECODERS)
def test_parts_of_every_family_are_the_scores_of_its_own_cross_attention(kind):
    model = tiny_model(kind)
    given = dict(tiny_inputs(model))
    given["decoder_input_ids"] = given["decoder_input_ids"][:, :5]  # fewer queries than keys
    for number, own in enumerate(model(**given, output_attentions=True).cross_attentions):
        parts = cross_parts(model, given, number)
        torch.testing.assert_close(parts.total().softmax(-1), own, rtol=0, atol=1e-12)
        biases = cross_layer(model, number).biases
        assert bool(parts.semi_bias.any()) == ("Q" in biases)
        assert bool(parts.query_side.any()) == ("K" in biases)


def test_padding_of_the_encoder_is_left_to_the_reader():
    model = tiny_model("t5")
    given = dict(tiny_inputs(model))
    mask = torch.ones_like(given["input_ids"])
    mask[0, -4:] = 0
    own = model(**given, attention_mask=mask, output_attentions=True).cross_attentions[0]
    total = cross_parts(model, given | {"attention_mask": mask}).total()
    ours = total.masked_fill(mask[:, None, None] == 0, -torch.inf).softmax(-1)
    torch.testing.assert_close(ours, own, rtol=0, atol=1e-12)


def test_a_folder_and_float32_are_read_too(tmp_path):
    model = tiny_model("bart")
    given = tiny_inputs(model)
    model.save_pretrained(tmp_path)
    folder = load(tmp_path, stack="decoder", dtype=torch.float64)
    assert torch.equal(cross_layer(folder, -1).W_Q, cross_layer(model, -1).W_Q)
    exact = cross_parts(model, given, 1).total()
    single = cross_parts(model.float(), given, 1).total()
    torch.testing.assert_close(single.double(), exact, rtol=1e-4, atol=1e-4)


def test_a_model_without_a_decoder_is_refused_and_so_is_a_cache():
    with pytest.raises(ValueError, match="stack must be one of '' for gpt2, got 'decoder'"):
        cross_layer(tiny_model("gpt2"))
    model = tiny_model("bart")
    with pytest.raises(ValueError, match="past_key_values is not followed here"):
        cross_parts(model, tiny_inputs(model) | {"past_key_values": torch.ones(1)})
    with pytest.raises(ValueError, match="training mode"):
        cross_parts(tiny_model("bart").train(), tiny_inputs(model))
    with pytest.raises(IndexError, match=r"layer must be 0\.\.1"):
        cross_layer(model, 2)
