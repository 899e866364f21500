"""What a report measures, against the functions of the chapters and against the model's own maps."""

import dataclasses

import numpy as np
import pytest
import torch

from analysis import score_parts
from analysis.core.attention_layer import Norm
from analysis.data import texts
from analysis.decomposition.terms import score_terms
from analysis.maps.attribution import attribute_divergence
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.families.tiny import tiny_model
from analysis.models.reading import load
from analysis.reporting.measurement import Measurement, make_splits, measure_parameters, reasons_not_to_split
from analysis.reporting.observations import OF_HEADS, Observations, add_text, tokenise
from analysis.reporting.parameters import measure_layer, position_curves
from tests.analysis.fake_device import GPU, pretended
from tests.analysis.tiny import random_layer


@pytest.fixture(scope="module", params=["minilm", "gpt2-mini"])
def seen(request):
    """Return a model, one text, and what a report adds up for it."""
    checkpoint = checkpoints.find(request.param)
    model, read = pretrained.load(checkpoint), load(checkpoint)
    ids = tokenise(pretrained.tokenizer(checkpoint), texts.passages(count=1), 24).ids[0]
    observed = Observations.empty(len(read.layers), read.heads)
    assert not reasons_not_to_split(read)
    add_text(observed, model, ids, *make_splits(measure_parameters(checkpoint, read), load(model), [ids]))
    return model, ids, observed


def test_entropy_is_that_of_the_models_own_maps(seen):
    model, ids, observed = seen
    maps = torch.stack(model(ids, output_attentions=True).attentions)[:, 0].double()
    n = maps.shape[-1]
    causal = bool((maps.triu(1) == 0).all())
    visible = torch.arange(1, n + 1) if causal else torch.full((n,), n)
    rows = torch.special.entr(maps).sum(-1)[..., visible > 1] / visible[visible > 1].log()
    np.testing.assert_allclose(observed.mean("heads")[..., OF_HEADS.index("entropy")], rows.mean(-1), atol=1e-5)
    np.testing.assert_allclose(
        observed.mean("heads")[..., OF_HEADS.index("previous")], maps.diagonal(-1, -2, -1).mean(-1), atol=1e-5
    )


def test_parts_are_those_of_the_chapter_on_one_score(seen):
    model, ids, observed = seen
    states = model(ids, output_hidden_states=True).hidden_states
    for layer, x in enumerate(extraction.attention_inputs(model, [state[0] for state in states])):
        terms = score_terms(x.double(), load(model).layers[layer].plain().to(torch.float64))
        n = ids.shape[-1]
        visible = torch.ones(n, n, dtype=torch.bool)
        visible = visible.tril() if model.config.model_type == "gpt2" else visible
        parts = terms.stack("content", "semi_bias")
        expected = attribute_divergence(parts, visible).parts.sum(-1).T
        np.testing.assert_allclose(observed.parts[layer][:, :2], expected, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(observed.parts[layer][:, 2:], 0, atol=1e-9)


def test_parts_counted_from_the_mean_are_those_of_the_mean_query_and_key(seen):
    model, ids, observed = seen
    np.testing.assert_allclose(observed.mean_parts.sum(-1), observed.parts.sum(-1), rtol=1e-3, atol=1e-3)
    states = model(ids, output_hidden_states=True).hidden_states
    for layer, x in enumerate(extraction.attention_inputs(model, [state[0] for state in states])):
        weights, n = load(model).layers[layer].plain().to(torch.float64), ids.shape[-1]
        query, key = (
            torch.einsum("pm,hmc->hpc", x.double(), W) + b[:, None]
            for W, b in ((weights.W_Q, weights.b_Q), (weights.W_K, weights.b_K))
        )
        common = query.mean(-2, keepdim=True) @ key.mT / query.shape[-1] ** 0.5  # what all queries share
        rest = query @ key.mT / query.shape[-1] ** 0.5 - common
        visible = torch.ones(n, n, dtype=torch.bool)
        visible = visible.tril() if model.config.model_type == "gpt2" else visible
        expected = attribute_divergence(torch.stack([rest, common.expand_as(rest)]), visible).parts.sum(-1).T
        np.testing.assert_allclose(observed.mean_parts[layer][:, :2], expected, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(observed.mean_parts[layer][:, 2:], 0, atol=1e-6)


def layer():
    norm = Norm(torch.ones(6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64), 1e-5)
    return dataclasses.replace(random_layer(2, 6, 4, causal=True), norms=(norm,))


def test_what_acts_inside_the_attention_but_a_rotation_is_a_reason_not_to_split():
    assert reasons_not_to_split(load("neox-mini")) == ""
    for model_type, said in (("bloom", "ALiBi"), ("gemma2", "soft cap")):
        assert said.lower() in reasons_not_to_split(load(tiny_model(model_type))).lower()


def test_the_spread_of_the_semi_bias_is_that_of_rows_as_the_norm_scales_them():
    gain = torch.linspace(0.2, 3, 6, dtype=torch.float64)
    weights = dataclasses.replace(layer(), norms=(Norm(gain, torch.full_like(gain, 2), 1e-5),))
    rows = gain * torch.randn(20000, 6, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    biases = torch.stack([weights.b_Q, weights.b_Q + 2 * weights.W_Q.sum(1)])
    scores = 0.5 * torch.einsum("ohc,hmc,pm->ohp", biases, weights.W_K, rows)
    np.testing.assert_allclose(measure_layer(weights).spread, scores.std(-1), rtol=0.03)


def test_a_shift_of_every_position_changes_no_curve_before_the_norm_takes_it():
    rows = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(position_curves(layer(), rows), position_curves(layer(), rows + 3), atol=1e-5)
    np.testing.assert_allclose(position_curves(layer(), rows).mean(-1), 0, atol=1e-12)


def test_parts_of_a_model_that_scales_its_queries_first_are_counted_from_its_biases(tmp_path):
    """An OPT gives its attention queries that are scaled, and so is the bias in them."""
    import transformers

    torch.manual_seed(0)
    config = transformers.OPTConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=48,
        max_position_embeddings=64, word_embed_proj_dim=32, init_std=0.5, pad_token_id=0, bos_token_id=1,
    )  # fmt: skip
    model = transformers.OPTModel(config).eval().requires_grad_(False)
    for layer in model.decoder.layers:
        torch.nn.init.normal_(layer.self_attn.q_proj.bias)
        torch.nn.init.normal_(layer.self_attn.k_proj.bias)
    ids = torch.arange(3, 23)[None]
    seen = Observations.empty(2, 2)
    add_text(seen, model, ids, *make_splits(Measurement({}, []), load(model), [ids]))
    for number in (0, 1):
        parts = score_parts(model, ids, layer=number).stack("content", "semi_bias", "query_side", "kernel")
        visible = torch.ones(20, 20, dtype=torch.bool).tril()
        due = attribute_divergence(parts[:, 0].double(), visible).parts.sum(-1).T
        np.testing.assert_allclose(seen.parts[number], due, rtol=1e-4, atol=1e-4)
    assert seen.parts[..., 1].min() > 0.1, "the semi-bias should explain something"


@pytest.mark.usefixtures("unchecked")
def test_a_rotary_model_is_split_where_it_is():
    checkpoint = checkpoints.find("neox-mini")
    ids = tokenise(pretrained.tokenizer(checkpoint), texts.passages(count=1), 8).ids[0]

    def split(model, ids):
        read = load(model)
        seen, measured = Observations.empty(len(read.layers), read.heads), Measurement({}, [])
        add_text(seen, model, ids, *make_splits(measured, read, [ids]))
        return seen.parts, seen.mean_parts, *measured.mean_kernels

    due = split(pretrained.load(checkpoint), ids)
    with pretended():
        found = split(pretrained.load(checkpoint).to(GPU), ids.to(GPU))
    for mine, right in zip(found, due, strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-9)
