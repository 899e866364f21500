"""Weighted means, patterns and messages against the modules of transformers, on random and on real layers."""

from dataclasses import replace

import pytest
import torch

from analysis.decomposition import folding, qk_ov, uniform
from analysis.decomposition.folding import fold_value_bias
from analysis.transformer import positional_encodings
from analysis.transformer.attention import attend, mask_future, softmax
from book.lab.reference_modules import attention_module
from tests.analysis.tiny import draw, random_layer


def gap(a, b):
    return (a - b).abs().max().item()


@pytest.mark.parametrize("family", ["gpt2", "bert"])
@pytest.mark.parametrize(("head", "model"), [(3, 12), (1, 6), (4, 32)])
def test_random_modules(family, head, model):
    layer, x = random_layer(head, model, model // head, causal=family == "gpt2"), draw(2, 9, model)
    output, attention = attention_module(family, layer)(x)
    for form in (attend, qk_ov.attend_by_patterns):
        ours = form(x, layer)
        assert gap(ours.output, output) < 1e-11
        assert gap(ours.attention, attention) < 1e-12
    folded = folding.apply_folded(attention, x, folding.fold_values(layer))
    assert gap(folded, output) < 1e-11
    moved, _ = attention_module(family, fold_value_bias(layer))(x)
    assert gap(moved, output) < 1e-11
    gauge = [draw(head, model // head, model // head, seed=seed) for seed in (1, 2)]
    regauged, _ = attention_module(family, qk_ov.change_gauge(layer, *gauge))(x)
    assert gap(regauged, output) < 1e-8


def test_the_module_sees_what_is_left_out():
    layer, x = random_layer(causal=True), draw(1, 9, 12)
    output, _ = attention_module("gpt2", layer)(x)
    for name in ("b_Q", "b_V", "b_O", "W_O"):
        wrong = replace(layer, **{name: torch.zeros_like(getattr(layer, name))})
        assert gap(qk_ov.attend_by_patterns(x, wrong).output, output) > 1e-3
    right = replace(layer, b_K=torch.zeros_like(layer.b_K))
    assert gap(qk_ov.attend_by_patterns(x, right).output, output) < 1e-11


def test_mean_layer_in_the_module():
    x = draw(2, 9, 12)
    output, attention = attention_module("gpt2", uniform.mean_layer(12, 3, 4))(x)
    assert gap(output, uniform.cumulative_means(x)) < 1e-12
    assert gap(attention, uniform.uniform_causal(9).expand_as(attention)) < 1e-12


@pytest.mark.parametrize("base", [10000.0, 20.0])
def test_rotary_scores_are_llamas(base):
    layer, x = random_layer(causal=True), draw(2, 9, 12)
    _, attention = attention_module("llama", layer, base=base)(x)
    ours = softmax(mask_future(positional_encodings.rotary_scores(x, layer, base)))
    assert gap(ours, attention) < 1e-5  # Llama's cosines are float32
    assert gap(attend(x, layer).attention, attention) > 0.01
    without = replace(layer, b_K=torch.zeros_like(layer.b_K))
    assert gap(softmax(mask_future(positional_encodings.rotary_scores(x, without, base))), attention) > 0.01
