"""A census of images, sounds, encoders, decoders and halves: each map is one that the library's whole model returns."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from analysis import census, layer_inputs, load
from analysis.models.families.tiny import TOKENS, tiny_inputs, tiny_model
from analysis.models.pretrained import NotRunnable
from analysis.surveys.layer_runs import run_layers

ALONE = {"encoder": ("input_ids", "input_features"), "vision": ("pixel_values",), "text": ("input_ids",)}
"""What the parts that run alone take; others take all that the model takes."""
KINDS = [
    *(("vit", ""), ("beit", ""), ("audio-spectrogram-transformer", ""), ("wav2vec2", "")),
    *(("clip", "vision"), ("clip", "text"), ("t5", "encoder"), ("t5", "decoder"), ("bart", "encoder")),
    *(("marian", "decoder"), ("whisper", "encoder"), ("whisper", "decoder")),
]
WORDS = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({f"w{i}": i for i in range(TOKENS)}, unk_token="w0")), pad_token="w1"
)
WORDS.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
TEXTS = ["w2 w3 w4 w5 w6 w7 w8 w9 w22 w23 w24 w25", "w32 w31 w30 w29 w28 w27 w26 w25 w24"]


def tiny(kind):
    model = tiny_model(kind).float()
    return model, {name: of.float() if of.is_floating_point() else of for name, of in tiny_inputs(model).items()}


def due(model, stack, inputs):
    """Return three columns of what the whole model returns as its attentions."""
    with torch.no_grad():
        maps = torch.stack([run.attention for run in run_layers(model, load(model, stack=stack or None), inputs)])
    return maps.shape[-1], {
        "sink": maps.mean(-2).amax(-1).mean(1),
        "previous": maps.diagonal(-1, -2, -1).mean(-1).mean(1),
        "itself": maps.diagonal(0, -2, -1).mean(-1).mean(1),
    }


def check(table, columns):
    for name, column in columns.items():
        np.testing.assert_allclose(table.columns[name], column, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("kind", "stack"), KINDS)
def test_the_columns_are_those_of_the_models_own_maps(kind, stack, tmp_path):
    """In memory on all that the whole model takes, and from a folder on what the part takes alone."""
    model, inputs = tiny(kind)
    model.save_pretrained(tmp_path)
    few = {name: of for name, of in inputs.items() if name in ALONE.get(stack, tuple(inputs))}
    positions, columns = due(model, stack, inputs)
    for of, given in ((model, inputs), (tmp_path, few)):
        table = census(load(of, stack=stack or None), given)
        assert (table.stack, table.texts, table.tokens) == (stack, 2, 2 * positions)
        check(table, columns)
        assert "induction" not in table.columns


@pytest.mark.parametrize("kind", ["t5", "bart"])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_decoder_is_given_the_text_of_its_encoder(kind, stack, tmp_path):
    model, _ = tiny(kind)
    model.save_pretrained(tmp_path)
    found = [due(model, stack, dict.fromkeys(("input_ids", "decoder_input_ids"), ids)) for ids in map(ids_of, TEXTS)]
    for of in (model, tmp_path):
        table = census(load(of, stack=stack, tokenizer=WORDS), TEXTS, batch=2)
        check(table, {name: (found[0][1][name] + found[1][1][name]) / 2 for name in found[0][1]})
        assert ("induction" in table.columns) == (stack == "decoder")
    assert repr(table).startswith(f"{stack}, 2 layers of 4 heads, 2 texts, 21 tokens\n")
    assert f'"stack": "{stack}"' in table.to_json()


def ids_of(text):
    return WORDS(text, return_tensors="pt")["input_ids"]


def test_images_alone_are_a_tensor_in_batches_and_heads_can_be_chosen():
    model, inputs = tiny("vit")
    whole, images = census(model, inputs, batch=2), inputs["pixel_values"]
    chosen = census(model, images, heads=[(1, 2)], measures=["sink"])
    assert list(chosen.columns) == ["sink"]
    assert chosen.tokens == whole.tokens == 10
    assert chosen.rows() == [{"layer": 1, "head": 2, "sink": pytest.approx(whole.columns["sink"][1, 2], abs=1e-6)}]
    assert repr(whole).startswith("2 layers of 4 heads, 2 images, 10 positions\n")
    assert torch.equal(layer_inputs(model, images), layer_inputs(model, inputs))


def test_tokens_as_a_tokenizer_returns_them_are_measured_without_their_padding():
    model = tiny_model("bert").float()
    given = WORDS(TEXTS, return_tensors="pt", padding=True)
    table, of_texts = (census(load(model, tokenizer=WORDS), of, batch=2) for of in (given, TEXTS))
    assert table.tokens == of_texts.tokens == 21
    check(table, of_texts.columns)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("vit", TEXTS, r"^ViTModel reads pixel values, not text: give \{'pixel_values': \.\.\.\}, as its processor"),
        ("clip", TEXTS, r"reads pixel values, not text.*; load\(model, stack='text'\) is the half that reads texts$"),
        ("wav2vec2", TEXTS, "reads input values, not text"),
        ("bert", {"input_ids": torch.ones(1, 9).long(), "position_ids": torch.arange(9)}, "position_ids .* a census"),
        ("t5", {"input_ids": torch.ones(1, 9).long(), "attention_mask": (torch.arange(9) > 1)[None]}, "on the right"),
    ],
)
def test_what_a_model_does_not_read_is_refused_with_what_to_give(kind, given, said):
    with pytest.raises((NotRunnable, ValueError), match=said):
        census(load(tiny_model(kind).float(), tokenizer=WORDS), given)
