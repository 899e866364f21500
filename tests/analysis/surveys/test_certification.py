"""Each layer and head is held to the model's own: one changed weight, option or sign is named where it is."""

from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import Mask
from analysis.decomposition import terms
from analysis.models.checkpoints import find
from analysis.models.families import FAMILIES
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.offloading import Offloaded
from analysis.models.reading import Model
from analysis.surveys.certification import Certified, certify_stack, largest_error, stacks_of

LAYER = 1
"""The one that is changed, of two; heads 2 and 3 share its second key."""


def certified(folder, model_type, dtype=torch.float64, **settings):
    model = tiny_model(model_type, **settings)
    model.to(dtype).save_pretrained(folder)
    checkpoint = find(str(folder))
    offloaded = Offloaded(checkpoint, dtype)
    return [certify_stack(checkpoint, offloaded, tiny_inputs(model), stack) for stack in stacks_of(checkpoint)]


def weight(name, *place):
    """Return a change of one weight of a layer by a thousandth."""

    def change(layer):
        tensor = getattr(layer, name).clone()
        tensor[place] += 1e-3
        return replace(layer, **{name: tensor})

    return change


CHANGES = {
    "one weight of a key": ("qwen2", weight("W_K", 1, 5, 3), "scores", {2, 3}),
    "one weight of a query": ("llama", weight("W_Q", 3, 7, 0), "scores", {3}),
    "one weight of a value": ("t5", weight("W_V", 2, 0, 0), "output", {2}),
    "one weight of an output": ("gpt2", weight("W_O", 1, 2, 9), "output", {1}),
    "one sink": ("gpt_oss", weight("sinks", 2), "attention", {2}),
    "a norm": ("llama", lambda layer: replace(layer, norms=(replace(layer.norms[0], eps=1e-3),)), "folds", {None}),
    "the output bias": ("gpt2", weight("b_O", 3), "sum", {None}),
    "the scale": ("gemma3_text", lambda layer: replace(layer, scale=1.01 * layer.scale), "scores", {0, 1, 2, 3}),
    "a cap left out": ("gemma2", lambda layer: replace(layer, soft_cap=None), "scores", {0, 1, 2, 3}),
    "a window left out": ("mistral", lambda layer: replace(layer, mask=Mask(causal=True)), "attention", {0, 1, 2, 3}),
    "later keys": ("gemma3_text", lambda layer: replace(layer, mask=Mask()), "attention", {0, 1, 2, 3}),
    "the pairing of coordinates": (
        "llama",
        lambda layer: replace(layer, positions=replace(layer.positions, pairing="neighbours")),
        "scores",
        {0, 1, 2, 3},
    ),
    "the sign of a bias": ("gpt2", lambda layer: replace(layer, b_Q=-layer.b_Q), "scores", {0, 1, 2, 3}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_named_with_its_layer_and_heads(name, tmp_path, monkeypatch):
    model_type, change, comparison, heads = CHANGES[name]
    read = Model.read_layer
    monkeypatch.setattr(Model, "read_layer", lambda self, n: change(read(self, n)) if n == LAYER else read(self, n))
    failures = certified(tmp_path, model_type)[0].failures()
    assert {failure["layer"] for failure in failures} == {LAYER}
    assert {failure["head"] for failure in failures if failure["comparison"] == comparison} == heads
    assert {failure["input"] for failure in failures if failure["comparison"] == comparison} == {"text", "random"}


@pytest.mark.parametrize("part", ["content", "semi_bias", "query_side", "kernel"])
def test_the_sign_of_a_part_is_noticed_in_every_head(part, tmp_path, monkeypatch):
    multiply = terms.multiply_out

    def turned(*args, **kwargs):
        parts = multiply(*args, **kwargs)
        return replace(parts, **{part: -getattr(parts, part)})

    monkeypatch.setattr(terms, "multiply_out", turned)
    failures = certified(tmp_path, "gpt2")[0].failures()
    assert {(f["layer"], f["head"]) for f in failures} == {(layer, head) for layer in range(2) for head in range(4)}
    assert {f["comparison"] for f in failures} == {"scores"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("model_type", ["gpt2", "qwen2", "bloom", "t5", "whisper", "gptj", "gpt_oss"])
def test_nothing_is_found_where_nothing_is_changed(model_type, dtype, tmp_path):
    for stack in certified(tmp_path, model_type, dtype):
        assert stack.failures() == []
        assert stack.largest().max() > 0


REFUSED = ("jina_embeddings_v3", "nomic_bert", "siglip_text_model")
"""What the library lays out anew as it loads it, and what it does not build alone."""


@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted({kind for row in FAMILIES for kind in row.model_types}))
def test_every_family_is_its_own_or_refused(model_type, tmp_path):
    if model_type in REFUSED:
        with pytest.raises((LookupError, ValueError), match=r"renames it as it loads|builds no whole"):
            certified(tmp_path, model_type)
        return
    for stack in certified(tmp_path, model_type):
        assert stack.failures() == []
        assert stack.largest().max() < (1e-12 if stack.limit[0] < 1e-6 else 1e-6)


def test_gemma_3_in_both_directions(tmp_path):
    for both in (False, True):
        (found,) = certified(tmp_path / str(both), "gemma3_text", use_bidirectional_attention=both)
        assert found.failures() == []
        assert found.largest().max() < 1e-14


def test_what_is_no_number_is_no_agreement():
    """Also in the last layer, and a head that is within its limit is not named."""
    errors = torch.zeros(2, 2, 3).double()
    errors[1, 0, 2] = torch.nan
    limit = [largest_error(torch.float64)] * 2
    found = Certified("", "float64", {"scores": errors}, limit)
    (failure,) = found.failures()
    assert (failure["layer"], failure["head"], failure["input"]) == (1, 2, "text")
    assert found.worst("scores", 0)[1:] == (1, 2)
    assert found.worst("scores", 1)[0] == 0
