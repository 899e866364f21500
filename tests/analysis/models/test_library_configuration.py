"""What of a folder's config.json, tokenizer and classes reaches the library, and what is refused in a sentence."""

import json

import pytest
import torch
from safetensors.torch import load_file

from analysis.models import pretrained
from analysis.models.checkpoints import find
from analysis.models.families.tiny import tiny_model
from analysis.models.reading import load
from tests.analysis.models.test_configuration import change
from tests.analysis.tiny import BERT, GPT2, change_tensors, rewrite, write_model


@pytest.fixture(params=[GPT2, BERT], ids=["gpt2", "bert"])
def folder(request, tmp_path):
    return write_model(tmp_path / "tiny", request.param)


NO_MATHEMATICS = (
    "hidden_dropout_prob", "attn_pdrop", "resid_pdrop", "attention_probs_dropout_prob", "use_cache", "bos_token_id",
    "eos_token_id", "layer_types", "rope_parameters", "per_layer_config", "dtype", "architectures",
    "chunk_size_feed_forward", "problem_type", "use_return_dict", "sub_configs", "summary_type",
    "transformers_version", "output_attentions", "return_dict", "_name_or_path",
)  # fmt: skip


@pytest.mark.parametrize("value", [None, "x", [], {}, -1, True])
def test_what_does_not_change_the_mathematics_does_not_reach_the_library(folder, value):
    """Each of these made the library end in a traceback for some of the values, or build another model."""
    model = pretrained.load(change(folder))
    changed = pretrained.load(change(folder, **dict.fromkeys(NO_MATHEMATICS, value)))
    ids = torch.arange(9)[None]
    assert torch.equal(changed(ids).last_hidden_state, model(ids).last_hidden_state)


def test_null_is_what_a_config_may_leave_out(folder):
    without = json.loads((folder / "config.json").read_text())
    optional = {
        "gpt2": ("layer_norm_epsilon", "n_inner", "initializer_range"),
        "bert": ("layer_norm_eps", "type_vocab_size", "initializer_range"),
    }[without["model_type"]]
    model = pretrained.load(change(folder, **dict.fromkeys(optional)))
    (folder / "config.json").write_text(json.dumps({key: without[key] for key in without if key not in optional}))
    assert model.config.to_dict() == pretrained.load(find("tiny", folder=folder)).config.to_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pad_token_id": 31}, r"pad_token_id as a token, 0..30, or null, got 31"),
        ({"tie_word_embeddings": None}, "as true or false, got None"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label as an object"),
        ({"id2label": {"0": "\x1b[2J"}}, "printable letters"),
        ({"id2label": {"0": "a", "1": "a"}}, "only 1 of the names"),
        ({"id2label": {"0": "a"}, "num_labels": 3}, "num_labels as 3, and names 1"),
        ({"num_labels": 10**30}, "at most 100000"),
    ],
)
def test_values_of_another_kind_are_refused_in_a_sentence(folder, settings, message):
    checkpoint = change(folder, **settings)
    for seed in (None, 0):
        with pytest.raises(ValueError, match=r"config\.json (must give|gives|names) .*" + message):
            pretrained.load(checkpoint, control_seed=seed)


def test_a_head_that_does_not_fit_its_classes_is_refused(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    BertForSequenceClassification(BertConfig(**BERT, num_labels=3)).save_pretrained(tmp_path)
    assert pretrained.load(change(tmp_path, id2label={"0": "a", "1": "b", "2": "c"}), task="classifier")
    with pytest.raises(ValueError, match=r"'classifier.bias' of tiny .* must be \(2,\) .* got \(3,\)"):
        pretrained.load(change(tmp_path, id2label={"0": "a", "1": "b"}), task="classifier")


def test_quantized_tensors_are_refused_wherever_they_are(folder, tmp_path):
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("weight") and tensors[name].ndim == 2][:3]:
        change_tensors(folder, lambda _, name=name: tensors | {name: tensors[name].to(torch.int8)})
        if "pooler" not in name:
            with pytest.raises(ValueError, match=f"'{name}' of .* must be of one of F64, F32, F16, BF16, got I8"):
                pretrained.load(find("tiny", folder=folder))
    buffers = {"embeddings.position_ids": torch.arange(16), "h.0.attn.bias": torch.ones(1, 1, 16, 16).bool()}
    change_tensors(folder, lambda _: tensors | buffers)
    pretrained.load(find("tiny", folder=folder))  # of whole numbers, and no parameter


@pytest.mark.parametrize("model_type", ["opt", "llama"])
@pytest.mark.parametrize("settings", [{"num_hidden_layers": None}, {"use_cache": []}, {"num_attention_heads": "4"}])
def test_readers_of_any_family_refuse_such_a_file_in_one_line(tmp_path, model_type, settings):
    tiny_model(model_type).save_pretrained(tmp_path)
    checkpoint = change(tmp_path, **settings)
    for read in (load, pretrained.load):
        with pytest.raises(ValueError, match=r"config\.json describes no ") as refusal:
            read(checkpoint)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_with_a_number_that_is_not_finite_is_not_run(folder, value):
    """An infinite weight of a classifier gave probabilities that looked like any."""
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("bias") and "pooler" not in name)
    tensors[name][0] = value
    change_tensors(folder, lambda _: tensors)
    with pytest.raises(ValueError, match=f"tensor '{name}' of tiny holds entries that are not finite"):
        pretrained.load(find("tiny", folder=folder))
    pretrained.load(find("tiny", folder=folder), control_seed=0)


@pytest.fixture
def with_tokenizer(folder):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 30}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(folder)
    return folder


WORDS = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("tokenizer.json", {"model": WORDS | {"vocab": {"[UNK]": 0, "a": 32}}}, "up to 32, and the model has 31 rows"),
        ("tokenizer.json", {"model": WORDS | {"vocab": {"a": 1}}}, "cannot be read: .*Missing"),
        ("tokenizer_config.json", {"model_max_length": -5}, "cannot be read"),
        ("tokenizer_config.json", {"unk_token": 5}, "cannot be read"),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_refused(with_tokenizer, name, settings, message):
    words = pretrained.tokenizer(find("tiny", folder=with_tokenizer))
    assert words("b").input_ids == [30]
    assert words.backend_tokenizer.truncation is None
    rewrite(with_tokenizer / name, **settings)
    with pytest.raises(ValueError, match=f"the tokenizer in .*{message}"):
        pretrained.tokenizer(find("tiny", folder=with_tokenizer))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"null", "must hold a JSON object, got NoneType"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff\xfe", "is not text in UTF-8"),
    ],
)
def test_a_file_that_is_no_json_object_is_refused_by_name(with_tokenizer, name, content, message):
    (with_tokenizer / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} {message}"):
        pretrained.tokenizer(find("tiny", folder=with_tokenizer))
