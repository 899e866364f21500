"""A model is taken by name, by folder, from memory and as what `load` returns, by each function of a whole model."""

from functools import cache

import pytest
import torch

from analysis import census, circuits, find, layer_inputs, load, make_controls, pretrained, score_parts
from analysis.models.families.tiny import tiny_model

TEXT = "To be or not to be, that is the question."
WAYS = {
    "folder": lambda: find("gpt2-mini").folder,
    "checkpoint": lambda: find("gpt2-mini"),
    "module": lambda: pretrained.load("gpt2-mini"),
    "module with a head": lambda: pretrained.load("gpt2-mini", task="lm"),
    "model": lambda: load("gpt2-mini"),
    "model of a module": lambda: load(pretrained.load("gpt2-mini")),
}


@cache
def by_name():
    table = census("gpt2-mini", TEXT).to_csv()
    return layer_inputs("gpt2-mini", TEXT, 1), score_parts("gpt2-mini", TEXT, 1).content, table


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_give_a_model_gives_the_same(way):
    model, (rows, content, table) = WAYS[way](), by_name()
    assert torch.equal(layer_inputs(model, TEXT, 1), rows)
    assert torch.equal(score_parts(model, TEXT, 1).content, content)
    assert torch.equal(circuits(model, -1).OV.S, circuits(load("gpt2-mini").layers[1]).OV.S)
    assert census(model, TEXT).to_csv() == table


def test_the_random_control_of_a_model_is_the_one_that_the_library_draws():
    due = pretrained.load("gpt2-mini", control_seed=3)
    for model in ("gpt2-mini", load("gpt2-mini"), pretrained.load("gpt2-mini")):
        ((_, _, control),) = make_controls(model, levels=["random"], seeds=[3])
        assert all(map(torch.equal, control.parameters(), due.parameters()))
    with pytest.raises(TypeError, match="give initialise, which makes the random AttentionLayer of a seed"):
        next(make_controls(load("gpt2-mini").layers[0]))


def test_what_load_returned_is_taken_as_it_is_and_another_of_its_stacks_is_read():
    model = load("gpt2-mini", dtype=torch.float64)
    assert load(model) is model
    assert model.module is model.module
    assert model.module.dtype == torch.float64
    t5 = load(tiny_model("t5"), tokenizer=model.tokenizer)
    assert load(t5, stack="decoder").family.stack == "decoder"
    assert load(t5, stack="decoder").tokenizer is model.tokenizer


def test_texts_ids_and_what_the_tokenizer_returns_are_read_alike():
    model = load("minilm")
    texts = ["If the name is not found", "an error is raised"]
    due = model.tokenizer(texts, return_tensors="pt", padding=True)
    assert torch.equal(layer_inputs(model, texts), layer_inputs(model, due))
    assert torch.equal(layer_inputs(model, texts[0]), layer_inputs(model, due["input_ids"][:1]))
