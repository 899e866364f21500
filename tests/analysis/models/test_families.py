"""The adapter against the modules of transformers themselves, on tiny random models of every family."""

import json
import math
from dataclasses import replace

import pytest
import torch

from analysis.core.positions import Rotary, StreamPositions
from analysis.decomposition.folding import fold_norm, fold_value_bias
from analysis.decomposition.terms import score_terms
from analysis.models.checkpoints import find
from analysis.models.families import FAMILIES, REFUSED, expected
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.files import MissingTensor
from analysis.models.reading import Model, load
from analysis.surveys.family_agreement import agreement, run_layers
from analysis.transformer.attention import attend, compute_scores
from analysis.transformer.layernorm import apply_norm
from tests.analysis.tiny import rewrite

EVERY = [(row.name, model_type, row.stack) for row in FAMILIES for model_type in row.model_types if not row.files_only]
IDS = [f"{model_type} {stack}".strip() for _, model_type, stack in EVERY]


@pytest.fixture(scope="module", params=EVERY, ids=IDS)
def case(request):
    name, model_type, stack = request.param
    model = tiny_model(model_type)
    read = load(model, stack=stack)
    assert read.family.name == name
    return model, read, tiny_inputs(model)


def test_attention_outputs_and_norms_are_the_modules_own(case):
    model, read, inputs = case
    as_it_is = agreement(model, read, inputs)
    assert max(as_it_is.attention, as_it_is.output, as_it_is.norm) < 1e-5
    in_double = agreement(model, read, inputs, in_double=True)
    assert max(in_double.attention, in_double.output, in_double.norm) < (1e-6 if read.family.rounded else 1e-12)


def test_padding_on_either_side_is_left_out(case):
    model, read, inputs = case
    if "input_ids" not in inputs or read.family.stack == "vision":
        pytest.skip("sounds and images are not padded here")
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, -3:], mask[1, :3] = 0, 0
    padded = dict(inputs, attention_mask=mask)
    if "decoder_input_ids" in inputs:
        padded["decoder_attention_mask"] = mask
    error = agreement(model, read, padded, in_double=True)
    assert max(error.attention, error.output) < (1e-6 if read.family.rounded else 1e-12)


def test_parts_add_up_and_folds_change_nothing(case):
    model, read, inputs = case
    for layer, run in zip(read.layers, run_layers(model, read, inputs, in_double=True), strict=True):
        x = run.read
        whole, origin = compute_scores(x, layer), torch.randn_like(x[0, 0])
        for terms in (score_terms(x, layer), score_terms(x, layer, origin)):
            torch.testing.assert_close(terms.total(), whole, rtol=1e-12, atol=1e-12)
        output = attend(x, layer).output
        if layer.sinks is None:
            folded = fold_value_bias(layer)
            assert not folded.b_V.any()
            torch.testing.assert_close(attend(x, folded).output, output, rtol=1e-10, atol=1e-10)
        if norm := layer.norm():
            bare, rows = fold_norm(layer), torch.randn_like(x)
            torch.testing.assert_close(
                attend(apply_norm(rows, bare.norm()), bare).output,
                attend(apply_norm(rows, norm), layer).output,
                rtol=1e-9,
                atol=1e-9,
            )
        if not layer.reasons():
            torch.testing.assert_close(attend(x, layer.plain()).output, output, rtol=1e-10, atol=1e-10)


def test_queries_and_keys_alone_are_those_of_the_layer(case):
    _, read, _ = case
    for number in read.layers.numbers:
        part, layer = read.queries_and_keys(number), read.read_layer(number)
        for name in ("W_Q", "b_Q", "W_K", "b_K"):
            assert getattr(part, name).equal(getattr(layer, name)), name
        assert part.scale == layer.scale
        assert part.normalised == (layer.qk_norm is not None)
        assert (part.sinks is None) == (layer.sinks is None)
        assert (part.norm is None) == (layer.norm() is None)
        if part.norm is not None:
            assert_same(part.norm, layer.norm())
        if not read.family.learned:
            assert repr(part.positions) == repr(layer.positions)


def test_what_layers_have_beside_attention_is_in_their_models(case):
    model, read, _ = case
    there = {name.removeprefix(read.tensors.prefix): tuple(t.shape) for name, t in model.state_dict().items()}
    for number in (None, *read.layers.numbers):
        due = expected.rest_tensors(read.family, read.config, number)
        assert bool(due) == (read.family.rest is not None and model.config.model_type in read.family.rest.model_types)
        for name, shape in due.items():
            assert there[name] == shape


def assert_same(one, other):
    for name, value in vars(one).items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, getattr(other, name)), name
        else:
            assert repr(value) == repr(getattr(other, name)), name


def test_a_head_on_the_model_and_a_prefix_before_its_names_make_no_difference(tmp_path):
    import transformers

    base = tiny_model("llama")
    whole = transformers.LlamaForCausalLM(base.config).double()
    whole.model.load_state_dict(base.state_dict())
    assert_same(load(whole).layers[1], load(base).layers[1])
    whole.save_pretrained(tmp_path)
    assert_same(load(tmp_path, dtype=torch.float64).layers[1], load(base).layers[1])


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 2.0},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    ],
)
def test_frequencies_scaled_for_longer_texts(scaling):
    model = tiny_model("llama", rope_parameters=scaling | {"rope_theta": 500.0})
    read = load(model)
    assert read.layers[0].positions.scaling == scaling["rope_type"]
    assert agreement(model, read, tiny_inputs(model), in_double=True).attention < 1e-6  # the angles are in float32


LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2, 3], "long_factor": [4.0] * 4}


@pytest.mark.parametrize(
    ("scaling", "longest"),
    [({"rope_type": "dynamic", "factor": 2.0}, 15), (LONGROPE | {"original_max_position_embeddings": 16}, 16)],
)
def test_frequencies_that_depend_on_the_length_are_those_within_the_trained_one(scaling, longest):
    model = tiny_model("llama", rope_parameters=scaling | {"rope_theta": 500.0}, max_position_embeddings=16)
    read, ids = load(model), torch.arange(2, 2 + longest)[None]
    assert read.room == longest
    assert agreement(model, read, {"input_ids": ids}, in_double=True).attention < 1e-6
    layer = read.layers[0]
    with pytest.raises(ValueError, match=f"positions must be below {longest}, got {longest}: for longer texts"):
        attend(torch.randn(longest + 1, layer.model, dtype=layer.W_Q.dtype), layer)


@pytest.mark.parametrize(
    ("model_type", "settings", "message"),
    [
        ("ministral", {"sliding_window": None}, "sliding_window must be a positive whole number in a layer that has a"),
        ("llama4_text", {"attention_chunk_size": None}, "attention_chunk_size must be a positive whole number"),
        ("gptj", {"rotary_dim": 0}, "rotary_dim must be even and at most 8, the width of a head, got 0"),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, "rope_theta must be a positive"),
        ("llama", {"rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}}, "as its rope_type .*'spiral'"),
        ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": math.nan}}, "finite"),
        ("llama", {"head_dim": 0}, "must give head_dim as a positive whole number, got 0"),
        ("t5", {"relative_attention_num_buckets": 16}, r"shape \(32, 4\), and .* imply \(16, 4\)"),
        ("t5", {"relative_attention_max_distance": 0}, "relative_attention_max_distance must be a positive whole"),
        ("deberta", {"max_relative_positions": 3}, r"shape \(12, 32\), and max_relative_positions imply \(6, 32\)"),
        ("deberta-v2", {"position_buckets": 2}, r"shape \(12, 32\), and position_buckets imply \(4, 32\)"),
        ("smollm3", {"no_rope_layers": []}, "cannot be made: IndexError"),
        ("gemma2", {"attn_logit_softcapping": 0.0}, "soft_cap must be a positive finite number, got 0.0"),
    ],
)
def test_files_whose_scores_would_be_wrong_or_none_are_refused_by_name(tmp_path, model_type, settings, message):
    tiny_model(model_type).save_pretrained(tmp_path)
    list(load(tmp_path).layers)
    rewrite(tmp_path / "config.json", **settings)
    with pytest.raises(ValueError, match=message):
        list(load(tmp_path).layers)


def test_refusals_give_the_reason(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deepseek_v3"}))
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match="multi-head latent attention"):
        load(find("tiny", folder=tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "dbrx"}))
    with pytest.raises(ValueError, match=r"is not read; \d+ are, among them [\w-]+(, [\w-]+){0,2}$"):
        load(find("tiny", folder=tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_next"}))
    with pytest.raises(ValueError, match=r"'qwen3_next', which is not read: the outputs of its heads are multiplied"):
        load(find("tiny", folder=tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such thing"}))
    with pytest.raises(ValueError, match="transformers does not know"):
        load(find("tiny", folder=tmp_path))
    with pytest.raises(ValueError, match="must be a model of transformers"):
        load(torch.nn.Linear(2, 2))
    model = tiny_model("gpt2")
    with pytest.raises(ValueError, match="stack must be"):
        load(model, stack="vision")
    with pytest.raises(MissingTensor, match="no table of positions"):
        load(tiny_model("llama")).need("positions")
    assert not REFUSED.keys() & {model_type for row in FAMILIES for model_type in row.model_types}


def test_what_the_identities_cannot_say_is_refused_or_carried():
    sinks = load(tiny_model("gpt_oss")).layers[0]
    with pytest.raises(ValueError, match="sum to less than 1"):
        fold_value_bias(sinks)
    with pytest.raises(ValueError, match=r"rotary.*sinks"):
        sinks.plain()
    with pytest.raises(ValueError, match="soft cap of 2"):
        load(tiny_model("gemma2")).layers[0].plain()
    with pytest.raises(ValueError, match="through a norm"):
        load(tiny_model("qwen3")).layers[0].plain()
    with pytest.raises(ValueError, match="no norm before it"):
        fold_norm(load(tiny_model("bert")).layers[0])
    assert load(tiny_model("opt")).layers[0].reasons() == []


def changed(read, change):
    """Return the same model, each of its layers changed."""

    class Changed(Model):
        def read_layer(self, layer):
            return change(super().read_layer(layer))

    return Changed(read.family, read.config, read.tensors)


def other_pairing(layer):
    assert isinstance(layer.positions, Rotary)
    return replace(layer, positions=replace(layer.positions, pairing="neighbours"))


@pytest.mark.parametrize(
    ("model_type", "change"),
    [
        ("llama", other_pairing),
        ("llama", lambda layer: replace(layer, W_K=layer.W_K.flip(0))),
        ("gpt_oss", lambda layer: replace(layer, sinks=None)),
        ("gemma2", lambda layer: replace(layer, soft_cap=None)),
        ("qwen3", lambda layer: replace(layer, qk_norm=None)),
        ("gpt_neo", lambda layer: replace(layer, scale=0.5)),
        ("gpt2", lambda layer: replace(layer, b_Q=0 * layer.b_Q)),
        ("llama", lambda layer: replace(layer, norms=(replace(layer.norms[0], eps=0.1),))),
        ("bert", lambda layer: replace(layer, norms=(replace(layer.norms[0], place="input"),))),
        ("gpt2", lambda layer: replace(layer, b_O=layer.b_O + 1)),
    ],
)
def test_the_comparison_notices_what_is_wrong(model_type, change):
    model = tiny_model(model_type)
    error = agreement(model, changed(load(model), change), tiny_inputs(model))
    assert max(error.attention, error.output, error.norm) > 1e-3


@pytest.mark.parametrize("on", [True, False])
def test_queries_of_llama_4_grow_in_long_texts(on):
    model = tiny_model("llama4_text", floor_scale=3, attn_scale=0.7, attn_temperature_tuning=on)
    inputs = tiny_inputs(model)
    layer = load(model).layers[1]
    assert layer.positions.kind == ("temperature" if on else "none")
    assert agreement(model, load(model), inputs, in_double=True).attention < 1e-12
    rows = run_layers(model, load(model), inputs, in_double=True)[1].read
    attended, parts = attend(rows, layer), score_terms(rows, layer)
    torch.testing.assert_close(parts.total(), compute_scores(rows, layer), rtol=1e-12, atol=1e-12)
    without = attend(rows, replace(layer, positions=StreamPositions("none"))).attention
    assert torch.allclose(without, attended.attention) != on


def test_a_table_of_another_image_is_refused():
    model = tiny_model("beit")
    table = next(p for name, p in model.named_parameters() if name.endswith("relative_position_bias_table"))
    table.data = table[:-1]
    with pytest.raises(ValueError, match="relative_position_bias_table has the shape"):
        load(model).layers[0]
