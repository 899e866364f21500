"""The table of families: options are honoured or refused, sizes are checked, a new family is one entry."""

import json

import pytest
import torch
from safetensors.torch import load_file

from analysis.models import extraction, memory, pretrained
from analysis.models.checkpoints import NotFound, find
from analysis.models.configuration import read_configuration
from analysis.models.families import expected
from analysis.models.reading import load
from analysis.transformer.layernorm import apply_norm
from tests.analysis.tiny import BERT, GPT2, rewrite, write_model


def change(folder, **settings):
    rewrite(folder / "config.json", **settings)
    return find("tiny", folder=folder)


def run(model):
    ids = torch.randint(0, 31, (2, 9), generator=torch.Generator().manual_seed(0))
    return model(ids, output_attentions=True, output_hidden_states=True)


@pytest.mark.parametrize(
    ("config", "option", "value"),
    [
        (BERT, "is_decoder", True),
        (BERT, "position_embedding_type", "relative_key_query"),
        (BERT, "is_causal", True),
        (GPT2, "add_cross_attention", True),
        (GPT2, "is_causal", False),
        (GPT2, "pruned_heads", {"0": [1]}),
        (GPT2, "sliding_window", 4),
        (GPT2, "quantization_config", {"quant_method": "gptq"}),
        (BERT, "is_encoder_decoder", True),
    ],
)
def test_options_that_are_not_honoured_are_refused_by_name(tmp_path, config, option, value):
    folder = write_model(tmp_path / "tiny", config)
    checkpoint = change(folder, **{option: value})
    chapter = [lambda c: pretrained.check_choice(str(c.folder), "minilm")]
    runs = [pretrained.load, lambda c: pretrained.load(c, control_seed=0)]
    doors = chapter + runs * (option != "is_decoder") + [load] * (option not in pretrained.CHAPTERS)
    for read in doors:
        with pytest.raises(ValueError, match=f"has {option} = .*changes what a layer computes"):
            read(checkpoint)


def test_a_bert_that_is_a_decoder_runs_as_one(tmp_path):
    """No chapter is about it; whoever reads or runs it gets the masks of a decoder."""
    checkpoint = change(write_model(tmp_path / "tiny", BERT), is_decoder=True)
    assert load(checkpoint).causal
    for seed in (None, 0):
        run = pretrained.load(checkpoint, control_seed=seed)(torch.tensor([[1, 2, 3, 4]]), output_attentions=True)
        assert not run.attentions[0].triu(1).any()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation_internal", "experts_implementation"])
@pytest.mark.parametrize("seed", [None, 0])
def test_a_folder_does_not_choose_the_attention(tmp_path, monkeypatch, key, seed):
    """A hub kernel named by config.json would be fetched and run; nothing is ever asked for."""
    from transformers.integrations import hub_kernels

    def refuse(*_, **__):
        raise AssertionError("a kernel was asked for")

    monkeypatch.setattr(hub_kernels, "lazy_load_kernel", refuse)
    monkeypatch.setattr("transformers.modeling_utils.lazy_import_flash_attention", refuse)
    checkpoint = change(write_model(tmp_path / "tiny"), **{key: "evil/kernel"})
    for attention in ("eager", "sdpa"):
        model = pretrained.load(checkpoint, control_seed=seed, attention=attention)
        assert model.config._attn_implementation == attention
    with pytest.raises(ValueError, match="attention must be one of eager, sdpa, got 'evil/kernel'"):
        pretrained.load(checkpoint, attention="evil/kernel")


def test_an_adapter_is_refused(tmp_path):
    folder = write_model(tmp_path / "tiny")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/model"}')
    said = r"adapter of another model .*merge the two first and save them, peft\.AutoPeftModelForCausalLM\..*save_"
    with pytest.raises(ValueError, match=said):
        pretrained.load(find("tiny", folder=folder))
    (folder / "config.json").unlink()
    with pytest.raises(NotFound, match=said):
        find("tiny", folder=folder)


class Adapted(torch.nn.Module):
    """What peft puts around a model, so far as it is asked for here."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config
        self.model.h[0].attn.c_attn = torch.nn.ModuleDict({"base_layer": model.h[0].attn.c_attn})

    def merge_and_unload(self):
        self.model.h[0].attn.c_attn = self.model.h[0].attn.c_attn["base_layer"]
        self.model.h[0].attn.c_attn.weight.data += 1
        return self.model


def test_an_adapter_in_memory_is_refused_or_merged_in_a_copy(tmp_path):
    plain = pretrained.load(find("tiny", folder=write_model(tmp_path / "tiny")))
    own = load(plain).layers[0].W_Q.clone()
    with pytest.raises(ValueError, match=r"no adapter that can be merged: it is a GPT2Model.*peft\.PeftModel"):
        load(plain, merge=True)
    model = Adapted(plain)
    torch.testing.assert_close(load(model, merge=True).layers[0].W_Q, own + 1)
    with pytest.raises(ValueError, match=r"h\.0\.attn\.c_attn\.base_layer.*load\(model, merge=True\)"):  # as it was
        load(model)


def test_a_model_that_puts_keys_before_a_text_is_refused(tmp_path):
    model = pretrained.load(find("tiny", folder=write_model(tmp_path / "tiny")))
    model.prompt_encoder = torch.nn.ModuleDict()
    with pytest.raises(ValueError, match=r"keys of its own before each text .*model\.get_base_model\(\)"):
        load(model)


@pytest.mark.parametrize("name", ["tokenizer.model", "source.spm"])
def test_a_tokenizer_of_sentencepiece_alone_is_named(tmp_path, name):
    folder = write_model(tmp_path / "tiny")
    (folder / name).write_bytes(b"x")
    with pytest.raises(NotFound, match=rf"has only {name} .*AutoTokenizer\.from_pretrained\(FOLDER\)\.save_pretrained"):
        pretrained.tokenizer(find("tiny", folder=folder))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_layer": "2"}, "n_layer as a positive whole number, got '2'"),
        ({"n_layer": True}, "n_layer as a positive whole number, got True"),
        ({"n_head": 2.0}, "n_head .* got 2.0"),
        ({"n_inner": 0}, "n_inner"),
        ({"layer_norm_epsilon": "1e-5"}, "layer_norm_epsilon as a finite number, not negative, got '1e-5'"),
        ({"activation_function": 3}, "must name activation_function"),
        ({"scale_attn_weights": "no"}, "scale_attn_weights as true or false, got 'no'"),
        ({"n_layer": 200}, r"lacks 'h\.2\.attn\.c_attn\.weight' and \d+ more of it"),
        ({"n_embd": 12, "vocab_size": 30}, r"'wte.weight' of tiny .* must be \(30, any\) .* got \(31, 12\)"),
        ({"n_inner": 47}, "c_fc"),
    ],
)
def test_sizes_that_are_none_or_not_those_of_the_files_are_refused(tmp_path, settings, message):
    checkpoint = change(write_model(tmp_path / "tiny"), **settings)
    with pytest.raises((ValueError, LookupError), match=message):
        pretrained.load(checkpoint)
    if not settings.keys() & {"n_positions", "n_inner", "vocab_size"}:
        with pytest.raises((ValueError, LookupError), match=message):
            pretrained.load(checkpoint, control_seed=0)


def test_a_model_that_does_not_fit_is_refused_with_the_memory_needed_and_there(tmp_path, monkeypatch):
    checkpoint = change(write_model(tmp_path / "tiny"))
    monkeypatch.setattr(memory, "available_memory", lambda device: 1000)
    for seed in (None, 0):
        with pytest.raises(MemoryError, match=r"tiny with [\d,]* parameters needs 0\.0 GB of memory, on cpu there are"):
            pretrained.load(checkpoint, control_seed=seed)
    monkeypatch.setattr(memory, "available_memory", lambda device: None)  # a system that does not say
    memory.check_memory(10**18, "anything")


def test_the_memory_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory.available_memory() > 0
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert memory.available_memory() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_memory() > 3000


@pytest.mark.parametrize("config", [GPT2, BERT])
def test_the_number_of_parameters_is_the_librarys(tmp_path, config):
    checkpoint = find("tiny", folder=write_model(tmp_path / "tiny", config))
    model = pretrained.load(checkpoint)
    built = sum(p.numel() for name, p in model.named_parameters() if "pooler" not in name)
    assert load(checkpoint).count_parameters() == built
    for name, tensor in load_file(checkpoint.folder / "model.safetensors").items():
        read = load(model)
        shapes = (f(read.family, read.config, 0) for f in (expected.layer_tensors, expected.rest_tensors))
        assert all(name not in of or tuple(tensor.shape) == of[name] for of in shapes)


@pytest.mark.parametrize("config", [GPT2, BERT])
def test_what_the_first_layer_reads_is_made_of_the_embeddings(tmp_path, config):
    model = pretrained.load(find("tiny", folder=write_model(tmp_path / "tiny", config)), dtype=torch.float64)
    ids = torch.arange(9)
    tokens, positions, norm = extraction.embed(model, ids)
    states = model(ids[None], output_hidden_states=True).hidden_states
    torch.testing.assert_close(apply_norm(tokens + positions, norm), extraction.attention_inputs(model, states)[0][0])


def test_what_begins_with_an_underscore_is_left_out_at_any_depth(tmp_path):
    inner = {"_attn_implementation_internal": "somebody/kernel", "hidden_size": 48}
    settings = {"model_type": "clip", "_attn_implementation": "somebody/kernel", "text_config": inner}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "model.safetensors").touch()
    config = read_configuration(find(tmp_path))
    assert config.text_config.hidden_size == 48
    assert "somebody" not in str([vars(config), vars(config.text_config)])
