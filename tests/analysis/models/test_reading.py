"""Reading weights and running models: our attention equals the transformers module, layer by layer."""

import json
import re

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from analysis import layer_inputs
from analysis.models import pretrained
from analysis.models.checkpoints import NotFound, Tampered, find
from analysis.models.controls import random_attention_layer
from analysis.models.families.tiny import tiny_model
from analysis.models.files import MissingTensor
from analysis.models.reading import load
from tests.analysis.tiny import BERT, GPT2, change_tensors, write_model


@pytest.fixture(params=[GPT2, BERT], ids=["gpt2", "bert"])
def checkpoint(request, tmp_path):
    return find("tiny", folder=write_model(tmp_path / "tiny", request.param))


def test_weight_only_control_has_the_shapes_and_spread_of_the_family(checkpoint):
    c = load(checkpoint)
    layer = random_attention_layer(c, 1, seed=3)
    assert layer.W_Q.shape == load(checkpoint).layers[1].plain().W_Q.shape
    assert layer.b_Q.abs().max() == 0
    assert layer.W_Q.std().item() == pytest.approx(0.02, rel=0.2)
    assert torch.equal(layer.W_Q, random_attention_layer(c, 1, seed=3).W_Q)


def test_truncated_file_is_refused(tmp_path):
    folder = write_model(tmp_path / "cut")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Tampered, match="not a whole safetensors file"):
        load(find("cut", folder=folder))
    with pytest.raises(Tampered, match="not a whole safetensors file"):
        pretrained.load(find("cut", folder=folder))


def test_a_bert_with_the_older_names_of_gain_and_bias_is_read(tmp_path):
    folder = write_model(tmp_path / "older", BERT)
    new = load(find("older", folder=folder)).norm("attention")
    older = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    pattern = re.compile("|".join(older))
    change_tensors(folder, lambda all: {pattern.sub(lambda of: older[of[0]], name): all[name] for name in all})
    found = find("older", folder=folder)
    assert load(found).missing == ()
    assert torch.equal(load(found).norm("attention").gain, new.gain)


def test_other_families_and_layers_are_refused(checkpoint):
    with pytest.raises(IndexError, match=r"layer must be 0\.\.1, got 2"):
        load(checkpoint).layers[2].plain()
    with pytest.raises(ValueError, match="which must be one of"):
        load(checkpoint).norm("nowhere")
    (checkpoint.folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    for read in (load, pretrained.load):
        with pytest.raises(MissingTensor, match="a llama without the attention of its first layer"):
            read(checkpoint)


def test_a_tensor_in_two_files_is_refused(checkpoint):
    """The one reader took the first file's, the other the last one's."""
    name = next(name for name in load_file(checkpoint.folder / "model.safetensors") if name.endswith("weight"))
    other = checkpoint.folder / "more.safetensors"
    save_file({name: torch.zeros(1)}, other)
    for read in (load, pretrained.load):
        with pytest.raises(ValueError, match=rf"'{name}' is in model.safetensors and in more.safetensors of .*keep"):
            read(checkpoint)
    save_file({"another": torch.zeros(1)}, other)
    load(checkpoint).layers[0].plain()


def test_a_tensor_under_two_names_is_refused(checkpoint):
    name = load(checkpoint).family.tokens + ".weight"
    change_tensors(checkpoint.folder, lambda all: all | {f"transformer.{name}": all[name] + 1})
    for read in (load, pretrained.load):
        said = rf"tiny .* has '{name}' and 'transformer.{name}', which are the same tensor"
        with pytest.raises(ValueError, match=said):
            read(checkpoint)


@pytest.mark.parametrize("kind", [str, lambda folder: folder, lambda folder: find(str(folder))])
def test_a_whole_model_and_its_tokenizer_are_had_by_name_by_folder_and_by_checkpoint(kind):
    of = find("gpt2-mini")
    for given in ("gpt2-mini", kind(of.folder)):
        model, words = pretrained.load(given), pretrained.tokenizer(given)
        torch.testing.assert_close(model.wte.weight, pretrained.load(of).wte.weight, atol=0, rtol=0)
        assert words("If the name is")["input_ids"] == pretrained.tokenizer(of)("If the name is")["input_ids"]
    for door in (pretrained.load, pretrained.tokenizer):
        with pytest.raises(NotFound, match="unknown model 'gpt3'"):
            door("gpt3")


def test_a_compiled_module_is_read_and_run_as_what_was_compiled():
    model, ids = tiny_model("llama").float(), torch.arange(2, 12)[None]
    compiled = torch.compile(model, backend="eager")
    assert load(compiled).module is model
    assert torch.equal(layer_inputs(compiled, ids, 1), layer_inputs(model, ids, 1))


def test_of_a_model_that_is_not_read_the_parts_that_are_are_named():
    text = {"model_type": "llama", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    sight = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "image_size": 4, "patch_size": 2}
    heads = {"num_attention_heads": 2}
    config = transformers.LlavaConfig(text_config=text | heads, vision_config=sight | heads, image_token_index=1)
    model = transformers.LlavaForConditionalGeneration(config)
    with pytest.raises(
        ValueError, match=r"'llava', which is not read.*load\(model\.model\.language_model\) reads .* llama"
    ):
        load(model)
    assert load(model.model.language_model).config.model_type == "llama"


def test_a_stack_alone_is_refused_with_what_to_give():
    model = tiny_model("t5")
    with pytest.raises(MissingTensor, match="give the whole model and its stack"):
        load(model.get_encoder())
    assert load(model, stack="encoder").layers


def test_a_quantised_module_is_refused_with_what_helps():
    model = tiny_model("llama")
    packed = model.layers[0].self_attn.q_proj  # as bitsandbytes keeps a matrix, in whole numbers
    packed.weight = torch.nn.Parameter(torch.zeros(64, 1, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(ValueError, match=r"quantised modules inside \(.*q_proj\).*model = model\.dequantize\(\)"):
        load(model)


class Rounding(torch.nn.Linear):
    """A Linear that does not multiply by the weight that it shows."""

    def forward(self, rows):
        return rows @ self.weight.round(decimals=1).T


def test_a_matrix_that_is_computed_with_by_other_code_or_is_of_another_kind_is_refused():
    """Quanto and others hold a float weight beside their own forward pass; torchao's weight is a tensor of its own."""
    model = tiny_model("llama")
    model.layers[0].self_attn.q_proj = Rounding(64, 64, bias=False)
    with pytest.raises(ValueError, match=r"quantised modules inside \(layers\.0\.self_attn\.q_proj\)"):
        load(model)
    model = tiny_model("llama")
    own = model.layers[1].self_attn.k_proj
    kind = type("Int8Tensor", (torch.Tensor,), {"__module__": "torchao.x"})
    own._parameters["weight"] = own.weight.detach().as_subclass(kind)
    with pytest.raises(ValueError, match=r"quantised modules inside \(layers\.1\.self_attn\.k_proj"):
        load(model)


def test_what_is_left_in_files_is_not_read_from_the_module():
    with pytest.raises(MissingTensor, match=r"is not in memory but on meta, .*: give the folder"):
        load(tiny_model("llama").to("meta")).layers[0]


def test_a_module_whose_weights_are_parametrised_is_not_taken_for_a_quantised_one():
    """Audio encoders hold the weight of a convolution as a direction and a length."""
    assert load(tiny_model("wav2vec2")).layers[0].heads


def test_a_model_with_alibi_reads_as_many_tokens_as_the_library_makes_biases_for():
    assert load(tiny_model("mpt")).room == 64


@pytest.mark.parametrize("scaling", [{}, {"rope_type": "linear", "factor": 2.0}])
def test_a_share_that_leaves_an_odd_number_of_turned_channels_is_refused(scaling):
    given = {"rope_theta": 10000.0, "partial_rotary_factor": 1 / 8, **scaling}
    model = load(tiny_model("stablelm", rope_parameters=given))
    with pytest.raises(ValueError, match=r"partial_rotary_factor = 0\.125 .* must be an even number"):
        _ = model.layers[0]
