"""Reading weights and running models: our attention equals the transformers module, layer by layer."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from analysis.models import pretrained
from analysis.models.checkpoints import NotFound, Tampered, find
from analysis.models.controls import random_attention_layer
from analysis.models.files import MissingTensor
from analysis.models.reading import load
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import apply_norm
from tests.analysis.tiny import BERT, GPT2, write_model


@pytest.fixture(params=[GPT2, BERT], ids=["gpt2", "bert"])
def checkpoint(request, tmp_path):
    return find("tiny", folder=write_model(tmp_path / "tiny", request.param))


def run_tiny(model):
    ids = torch.randint(0, 31, (2, 9), generator=torch.Generator().manual_seed(0))
    return model(ids, output_attentions=True, output_hidden_states=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_every_attention_equals_the_module(checkpoint, dtype, tolerance):
    run = run_tiny(pretrained.load(checkpoint, dtype=dtype))
    causal = load(checkpoint).causal
    for layer, attention in enumerate(run.attentions):
        x = run.hidden_states[layer]
        if causal:
            x = apply_norm(x, load(checkpoint, dtype=dtype).norm("attention", layer))
        ours = attend(x, load(checkpoint, dtype=dtype).layers[layer])
        torch.testing.assert_close(ours.attention, attention, rtol=0, atol=tolerance)


def test_a_whole_bert_layer_from_its_parts(tmp_path):
    found = find("tiny", folder=write_model(tmp_path / "tiny", BERT))
    run = run_tiny(pretrained.load(found, dtype=torch.float64))
    parts = {"dtype": torch.float64}
    for layer in (0, 1):
        x = run.hidden_states[layer]
        y = attend(x, load(found, **parts).layers[layer].plain()).output + x
        y = apply_norm(y, load(found, **parts).norm("attention", layer))
        mlp = load(found, **parts).mlp(layer)
        z = torch.nn.functional.gelu(y @ mlp.W_in + mlp.b_in) @ mlp.W_out + mlp.b_out + y
        z = apply_norm(z, load(found, **parts).norm("mlp", layer))
        torch.testing.assert_close(z, run.hidden_states[layer + 1], rtol=1e-12, atol=1e-12)


def test_tables(checkpoint):
    assert load(checkpoint).positions.shape == (16, 12)
    assert load(checkpoint).tokens.shape == (31, 12)


def test_real_minilm_layer_equals_its_module():
    found = find("minilm", sources=["bundled"])
    words = pretrained.tokenizer(found)("a bias that does not cancel", return_tensors="pt")
    run = pretrained.load(found)(**words, output_attentions=True, output_hidden_states=True)
    for layer in (0, 5):
        ours = attend(run.hidden_states[layer], load(found).layers[layer].plain())
        torch.testing.assert_close(ours.attention, run.attentions[layer], rtol=0, atol=1e-5)


def test_control_is_seeded(checkpoint):
    one, again, other = (next(pretrained.load(checkpoint, control_seed=s).parameters()) for s in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_weight_only_control_has_the_shapes_and_spread_of_the_family(checkpoint):
    c = load(checkpoint)
    layer = random_attention_layer(c, 1, seed=3)
    assert layer.W_Q.shape == load(checkpoint).layers[1].plain().W_Q.shape
    assert layer.b_Q.abs().max() == 0
    assert layer.W_Q.std().item() == pytest.approx(0.02, rel=0.2)
    assert torch.equal(layer.W_Q, random_attention_layer(c, 1, seed=3).W_Q)


def test_missing_tensor_is_named(tmp_path):
    folder = write_model(tmp_path / "part")
    held = load_file(folder / "model.safetensors")
    del held["h.1.attn.c_attn.bias"]
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    found = find("part", folder=folder)
    for read in (load, pretrained.load):
        with pytest.raises(MissingTensor, match=r"part \(.*part\) lacks 'h\.1\.attn\.c_attn\.bias', which"):
            read(found)


def test_truncated_file_is_refused(tmp_path):
    folder = write_model(tmp_path / "cut")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Tampered, match="not a whole safetensors file"):
        load(find("cut", folder=folder))
    with pytest.raises(Tampered, match="not a whole safetensors file"):
        pretrained.load(find("cut", folder=folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_embd": None}, r"config\.json must give n_embd as a positive whole number, got None"),
        ({"n_head": 5}, r"n_embd \d+ is no multiple of n_head 5"),
        ({"n_embd": 24}, r"tensor 'h\.0\.attn\.c_attn\.weight' of odd .* must be \(24, 72\) as its configuration"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(tmp_path, change, message):
    folder = write_model(tmp_path / "odd")
    given = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(given | change))
    with pytest.raises(ValueError, match=message):
        load(find("odd", folder=folder)).layers[0].plain()
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="must hold a JSON object, got list"):
        load(find("odd", folder=folder))


def test_a_bert_with_the_older_names_of_gain_and_bias_is_read(tmp_path):
    folder = write_model(tmp_path / "older", BERT)
    new = load(find("older", folder=folder)).norm("attention")
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in load_file(folder / "model.safetensors").items()
    }
    save_file(older, folder / "model.safetensors", metadata={"format": "pt"})
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


def test_non_finite_weights_are_refused(tmp_path):
    folder = write_model(tmp_path / "nan")
    held = load_file(folder / "model.safetensors")
    held["wpe.weight"][0, 0] = float("nan")
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"wpe\.weight.*not finite"):
        load(find("nan", folder=folder)).need("positions")


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
    file = checkpoint.folder / "model.safetensors"
    tensors = load_file(file)
    name = load(checkpoint).family.tokens + ".weight"
    save_file(tensors | {f"transformer.{name}": tensors[name] + 1}, file, metadata={"format": "pt"})
    for read in (load, pretrained.load):
        with pytest.raises(
            ValueError, match=rf"tiny .* has '{name}' and 'transformer.{name}', which are the same tensor"
        ):
            read(checkpoint)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn])
def test_a_tensor_of_no_floating_numbers_is_refused(checkpoint, dtype):
    file = checkpoint.folder / "model.safetensors"
    tensors = load_file(file)
    name = load(checkpoint).family.tokens + ".weight"
    save_file(tensors | {name: tensors[name].to(dtype)}, file, metadata={"format": "pt"})
    for read in (load, pretrained.load):
        with pytest.raises(ValueError, match=f"'{name}' of .* must be of one of F64, .*: quantized models are not"):
            read(checkpoint)
    for whole in (torch.float16, torch.bfloat16):
        save_file(tensors | {name: tensors[name].to(whole)}, file, metadata={"format": "pt"})
        assert torch.equal(load(checkpoint).tokens, tensors[name].to(whole).float())


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
