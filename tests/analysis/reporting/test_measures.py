"""What a report measures, against the functions of the chapters and against the model's own maps."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from analysis import score_parts
from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.positions import Alibi, Rotary
from analysis.data import texts
from analysis.decomposition.terms import score_terms
from analysis.maps.attribution import attribute_divergence
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import Model, load
from analysis.reporting.measurement import Measurement, make_splits, measure_parameters, reasons_not_to_split
from analysis.reporting.observations import OF_HEADS, Observations, add_text, describe_map, tokenise
from analysis.reporting.parameters import measure_layer, position_curves
from analysis.reporting.sections import _biases
from analysis.transformer.rotary import rotate
from tests.analysis.fake_device import GPU, pretended


@pytest.fixture(scope="module", params=["minilm", "gpt2-mini"])
def seen(request):
    """Return a model, one text, and what a report adds up for it."""
    checkpoint = checkpoints.find(request.param)
    model, read = pretrained.load(checkpoint), load(checkpoint)
    ids = tokenise(pretrained.tokenizer(checkpoint), texts.passages(count=1), 24).ids[0]
    observed = Observations.empty(len(read.layers), read.heads)
    assert not reasons_not_to_split(read)
    add_text(observed, model, ids, *make_splits(measure_parameters(checkpoint, read), model, read, [ids]))
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


def test_a_sink_whose_value_is_zero_moves_nothing():
    attention = torch.tensor([[[0.9, 0.1], [0.9, 0.1]]])
    numbers = dict(zip(OF_HEADS, describe_map(attention, torch.tensor([[0.0, 1.0]]), causal=False)[0].tolist()))
    assert numbers["sink"] == pytest.approx(0.9)
    assert numbers["sink with values"] == 0


def layer(positions=None, bias=0.0, **options):
    generator = torch.Generator().manual_seed(0)
    W_Q, W_K, W_V = torch.randn(3, 2, 6, 4, generator=generator, dtype=torch.float64)
    b_Q, b_K, b_V = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64)
    norm = Norm(torch.ones(6, dtype=torch.float64), torch.full((6,), bias, dtype=torch.float64), 1e-5)
    positions = {} if positions is None else {"positions": positions}
    return AttentionLayer(
        W_Q,
        W_K,
        W_V,
        torch.randn(2, 4, 6, generator=generator, dtype=torch.float64),
        b_Q,
        b_K,
        b_V,
        torch.zeros(6, dtype=torch.float64),
        0.5,
        Mask(causal=True),
        norms=(norm,),
        **positions,
        **options,
    )


def test_the_norms_bias_is_carried_through_the_matrices():
    plain, shifted = measure_layer(layer()), measure_layer(layer(bias=2.0))
    np.testing.assert_array_equal(plain.biases, plain.effective)
    weights = layer()
    expected = weights.b_K + 2 * weights.W_K.sum(1)
    np.testing.assert_allclose(shifted.effective[1], expected.norm(dim=-1))
    np.testing.assert_allclose(shifted.biases, plain.biases)


def test_the_kernel_is_what_the_score_of_the_two_biases_does_with_distance():
    rotary = Rotary(torch.tensor([1.0, 0.1], dtype=torch.float64), 4)
    weights = layer(rotary)
    place = torch.ones(9, 1, dtype=torch.float64)
    scores = 0.5 * (rotate(weights.b_Q[:, None] * place, rotary) @ rotate(weights.b_K[:, None] * place, rotary).mT)
    expected = scores[:, -1].flip(-1)  # of the last query, by distance
    measured = measure_layer(weights, 9)
    np.testing.assert_allclose(measured.kernel, expected - expected.mean(-1, keepdim=True), atol=1e-12)
    np.testing.assert_allclose(measured.own_kernel, measured.kernel, atol=1e-12)
    with_norm = measure_layer(layer(rotary, bias=2.0), 9)
    np.testing.assert_allclose(with_norm.own_kernel, measured.kernel, atol=1e-12)
    assert np.abs(with_norm.kernel - measured.kernel).max() > 0.1


def test_the_spread_of_the_semi_bias_does_not_depend_on_the_factorisation():
    weights, factor = layer(), torch.randn(4, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    other = dataclasses.replace(
        weights,
        W_Q=weights.W_Q @ factor,
        b_Q=weights.b_Q @ factor,
        W_K=weights.W_K @ factor.inverse().T,
        b_K=weights.b_K @ factor.inverse().T,
    )
    own, moved = measure_layer(weights), measure_layer(other)
    np.testing.assert_allclose(own.spread, moved.spread, rtol=1e-9)
    assert np.abs(own.biases[0] / own.sizes[0] - moved.biases[0] / moved.sizes[0]).max() > 0.01


def test_the_spread_of_the_semi_bias_is_that_of_rows_as_the_norm_scales_them():
    gain = torch.linspace(0.2, 3, 6, dtype=torch.float64)
    weights = dataclasses.replace(layer(), norms=(Norm(gain, torch.full_like(gain, 2), 1e-5),))
    rows = gain * torch.randn(20000, 6, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    biases = torch.stack([weights.b_Q, weights.b_Q + 2 * weights.W_Q.sum(1)])
    scores = 0.5 * torch.einsum("ohc,hmc,pm->ohp", biases, weights.W_K, rows)
    np.testing.assert_allclose(measure_layer(weights).spread, scores.std(-1), rtol=0.03)


def test_a_table_of_spreads_is_named_only_where_it_is():
    measured = measure_layer(layer())
    sections = [_biases(Measurement({}, [one])) for one in (measured, dataclasses.replace(measured, spread=None))]
    assert [("is in the table" in section.caption, bool(section.rows)) for section in sections] == [
        (True, True),
        (False, False),
    ]


def test_alibi_is_a_line_and_learned_positions_have_no_kernel():
    kernel = measure_layer(layer(Alibi(2)), 5).kernel
    np.testing.assert_allclose(np.diff(kernel), np.broadcast_to([[-1 / 16], [-1 / 256]], (2, 4)))
    assert measure_layer(layer()).kernel is None


def test_a_shift_of_every_position_changes_no_curve_before_the_norm_takes_it():
    rows = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(position_curves(layer(), rows), position_curves(layer(), rows + 3), atol=1e-5)
    np.testing.assert_allclose(position_curves(layer(), rows).mean(-1), 0, atol=1e-12)


def test_texts_that_are_too_short_are_left_out_or_refused():
    tokenizer = pretrained.tokenizer(checkpoints.find("gpt2-mini"))
    long = "Attention is a weighted mean of the values of all earlier positions, and nothing more than that."
    assert len(tokenise(tokenizer, ["One.", long], 32).ids) == 1
    with pytest.raises(ValueError, match="none of the 1 texts"):
        tokenise(tokenizer, ["One."], 32)


def test_the_biases_of_a_model_are_read_once_and_lie_beside_its_queries():
    read = load("gpt2-mini")
    reads = []

    class Counted(Model):
        def read_layer(self, layer):
            reads.append(layer)
            return super().read_layer(layer)

    counted = Counted(read.family, read.config, read.tensors)
    checkpoint = checkpoints.find("gpt2-mini")
    ids = tokenise(pretrained.tokenizer(checkpoint), texts.passages(count=1), 24).ids
    split, _ = make_splits(measure_parameters(checkpoint, read), pretrained.load(checkpoint), counted, ids)
    before = len(reads)
    assert before
    for layer in (0, 1, 0, 1):
        b_Q, b_K = split(layer, 9, read.layers[layer].scale)
        torch.testing.assert_close((b_Q[:, 0], b_K[:, 0]), (read.layers[layer].b_Q, read.layers[layer].b_K))
    assert len(reads) == before


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
    read, ids = load(model), torch.arange(3, 23)[None]
    seen = Observations.empty(2, 2)
    add_text(seen, model, ids, *make_splits(Measurement({}, []), model, read, [ids]))
    for number in (0, 1):
        parts = score_parts(model, {"input_ids": ids}, layer=number).stack(
            "content", "semi_bias", "query_side", "kernel"
        )
        visible = torch.ones(20, 20, dtype=torch.bool).tril()
        due = attribute_divergence(parts[:, 0].double(), visible).parts.sum(-1).T
        np.testing.assert_allclose(seen.parts[number], due, rtol=1e-4, atol=1e-4)
    assert seen.parts[..., 1].min() > 0.1, "the semi-bias should explain something"


def test_a_model_with_an_entry_that_is_not_finite_is_refused(tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(checkpoints.find("gpt2-mini").folder, folder)
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("mlp.c_fc.weight"))
    tensors[name][0, 0] = float("inf")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="not finite"):
        pretrained.load(checkpoints.find(str(folder)))


@pytest.mark.usefixtures("unchecked")
def test_a_rotary_model_is_split_where_it_is():
    checkpoint = checkpoints.find("neox-mini")
    ids = tokenise(pretrained.tokenizer(checkpoint), texts.passages(count=1), 24).ids[0]

    def split(model, ids):
        read = load(model)
        seen, measured = Observations.empty(len(read.layers), read.heads), Measurement({}, [])
        add_text(seen, model, ids, *make_splits(measured, model, read, [ids]))
        return seen.parts, seen.mean_parts, *measured.mean_kernels

    due = split(pretrained.load(checkpoint), ids)
    with pretended():
        found = split(pretrained.load(checkpoint).to(GPU), ids.to(GPU))
    for mine, right in zip(found, due, strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-9)
