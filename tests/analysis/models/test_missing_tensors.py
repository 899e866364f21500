"""What is not there is not read as zero: each tensor of each family removed in turn, and one too many added."""

import re

import pytest
import torch
from safetensors.torch import load_file

from analysis.models.checkpoints import Checkpoint
from analysis.models.families import FAMILIES, expected
from analysis.models.families.tiny import tiny_model
from analysis.models.files import MissingTensor
from analysis.models.reading import load
from tests.analysis.tiny import GPT2, change_tensors, rewrite, write_model

EVERY = [(model_type, row.stack) for row in FAMILIES for model_type in row.model_types if not row.files_only]
IDS = [" ".join(filter(None, each)) for each in EVERY]


def everything(model):
    """Return all numbers that are read of a model, by field."""
    found = {"positions": model.positions, "tokens": model.tokens}
    for number, layer in enumerate(model.layers):
        parts = {"": layer, "positions.": layer.positions, "mask.": layer.mask}
        parts |= {f"norms.{place}.": norm for place, norm in enumerate(layer.norms)}
        if layer.qk_norm:
            parts |= {"qk.query.": layer.qk_norm.query, "qk.key.": layer.qk_norm.key}
        for name, part in parts.items():
            kept = {field: value for field, value in vars(part).items() if not hasattr(value, "__dataclass_fields__")}
            found |= {f"{number}.{name}{field}": value for field, value in kept.items() if field != "norms"}
    return found


def same(one, other):
    """Compare exactly but for rounding: products of positions depend on where in memory their factors lie."""
    return one.keys() == other.keys() and all(
        value.shape == other[name].shape and torch.allclose(value, other[name], rtol=1e-12, atol=1e-12)
        if isinstance(value, torch.Tensor)
        else value == other[name]
        for name, value in one.items()
    )


def remove(module, name):
    """Take a parameter out of a module."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    taken = owner._parameters.pop(last)
    return lambda: owner._parameters.__setitem__(last, taken)


def of_attention(model, first=0):
    """Return the names that the model's attention from a layer on and its tables need."""
    numbers = [layer for layer in model.layers.numbers if layer >= first]
    layers = (expected.layer_tensors(model.family, model.config, layer) for layer in numbers)
    names = {name for shapes in layers for name in shapes}
    names |= expected.table_tensors(model.family, model.config, model.tensors).keys()
    return {model.tensors.spelled[name] for name in names}


@pytest.mark.parametrize(("model_type", "stack"), EVERY, ids=IDS)
def test_each_tensor_in_turn_is_missed_by_name_or_none_is_needed(model_type, stack, tmp_path):
    """From a module and from files, which hold the same; all that attention does not need may be gone at once."""
    module = tiny_model(model_type)
    model = load(module, stack=stack)
    whole, needed, others = everything(model), of_attention(model), []
    of_last = of_attention(model, model.layers.numbers[-1])
    assert of_last
    for name in dict(module.named_parameters()):
        restore = remove(module, name)
        if lost := needed - dict(module.named_parameters(remove_duplicate=False)).keys():
            if lost & of_last:
                with pytest.raises(MissingTensor) as refusal:
                    load(module, stack=stack)
                assert any(one in str(refusal.value) for one in lost)
            restore()
        else:
            others.append(restore)
    assert same(everything(load(module, stack=stack)), whole)
    for restore in reversed(others):
        restore()
    module.save_pretrained(tmp_path)
    checkpoint = Checkpoint("tiny", tmp_path, "folder")
    tensors, model = load_file(tmp_path / "model.safetensors"), load(checkpoint, stack=stack, dtype=torch.float64)
    assert same(everything(model), whole)
    assert (model.positions is None) != bool(expected.places_of(model.family, model.config))
    whole, needed = everything(model), of_attention(model)
    own = {spelled: name for name, spelled in model.tensors.spelled.items()}
    for name in sorted(needed)[:: max(1, len(needed) // 4)]:
        change_tensors(tmp_path, lambda _, name=name: {other: tensors[other] for other in tensors if other != name})
        with pytest.raises(MissingTensor, match=re.escape(own[name])):
            load(checkpoint, stack=stack)
    change_tensors(tmp_path, lambda _: {name: tensors[name] for name in needed})
    assert same(everything(load(checkpoint, stack=stack, dtype=torch.float64)), whole)


def extra(tensors, end):
    """Return tensors with one more, named after one whose name ends so, and a path to put in its place."""
    name = next(name for name in tensors if name.endswith(end[0]))
    return tensors | {name.removesuffix(end[0]) + end[1]: tensors[name].clone()}


@pytest.mark.parametrize(
    ("model_type", "end", "message"),
    [
        ("llama", ("1.self_attn.q_proj.weight", "2.self_attn.q_proj.weight"), "a layer beyond the 2 of"),
        ("gpt2", ("h.1.ln_2.weight", "h.2.ln_2.weight"), "a layer beyond the 2 of"),
        ("llama", ("0.self_attn.q_proj.weight", "0.self_attn.q_proj.bias"), "knows nothing"),
        ("llama", ("0.self_attn.q_proj.weight", "0.self_attn.q_norm.weight"), "knows nothing"),
        ("llama", ("0.input_layernorm.weight", "0.input_layernorm.bias"), "knows nothing"),
        ("gpt2", ("0.attn.c_attn.weight", "0.attn.c_attn.lora_A.weight"), "knows nothing"),
        ("bert", ("0.attention.self.key.bias", "0.attention.self.key.scale"), "knows nothing"),
        ("vit", ("0.layernorm_before.bias", "0.layernorm_before.shift"), "knows nothing"),
    ],
)
def test_one_tensor_too_many_is_refused_by_name(model_type, end, message, tmp_path):
    tiny_model(model_type).save_pretrained(tmp_path)
    change_tensors(tmp_path, lambda tensors: extra(tensors, end))
    with pytest.raises(ValueError, match=rf"{end[1]}.*{message}"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("model_type", "end", "new"),
    [
        ("gpt2", "h.0.attn.c_attn.bias", "h.0.attn.bias"),
        ("gpt2", "h.0.attn.c_attn.bias", "h.0.attn.masked_bias"),
        ("gpt_neox", "0.attention.dense.bias", "0.attention.rotary_emb.inv_freq"),
        ("bert", "0.attention.self.key.bias", "0.crossattention.self.key.bias"),
        ("llama", "0.mlp.down_proj.weight", "0.mlp.down_proj.bias"),
    ],
)
def test_buffers_and_what_is_beside_attention_may_be_there(model_type, end, new, tmp_path):
    tiny_model(model_type).save_pretrained(tmp_path)
    whole = everything(load(tmp_path))
    change_tensors(tmp_path, lambda tensors: extra(tensors, (end, new)))
    assert same(everything(load(tmp_path)), whole)


def partial(folder, keep, **settings):
    change_tensors(folder, lambda tensors: {name: value for name, value in tensors.items() if keep(name)})
    rewrite(folder / "config.json", **settings)
    return folder


def test_a_folder_that_is_a_part_by_design_says_so(tmp_path):
    def first(name):
        return name.startswith(("h.0.attn", "h.0.ln_1", "wpe"))

    folder = partial(write_model(tmp_path / "first"), first)
    with pytest.raises(MissingTensor, match=r"lacks 'wte\.weight'"):
        load(folder)
    model = load(partial(folder, first, partial=True))
    assert model.layers[0].heads == 3
    assert model.positions.shape == (16, 12)
    assert model.tokens is None
    assert {"wte.weight", "h.1.attn.c_attn.weight", "h.0.mlp.c_fc.weight", "ln_f.weight"} <= set(model.missing)
    assert "missing   wte.weight, h.1.attn.c_attn.weight" in repr(model)
    for read in (lambda: model.layers[1], lambda: [*model.layers], lambda: model.mlp(0), lambda: model.need("tokens")):
        with pytest.raises(MissingTensor):
            read()
    with pytest.raises(MissingTensor, match=r"lacks 'h\.0\.ln_1\.bias'"):  # of a layer there is all or nothing
        load(partial(folder, lambda name: name != "h.0.ln_1.bias"))


@pytest.mark.parametrize("value", [1, "true", None, False])
def test_nothing_but_true_makes_a_part(tmp_path, value):
    with pytest.raises(MissingTensor):
        load(partial(write_model(tmp_path / "part", GPT2), lambda name: name != "wte.weight", partial=value))
