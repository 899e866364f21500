"""An index names safetensors files of its own folder, each with its tensor, or is refused; nothing else is read."""

import json
import pickle

import pytest
from safetensors.torch import load_file, save_file

from analysis.models import pretrained
from analysis.models.files import INDEX
from analysis.models.reading import load
from tests.analysis.tiny import write_model

NAME = "h.0.attn.c_attn.weight"


@pytest.fixture
def shards(tmp_path):
    """Write a model in two files with an index; return the folder, its entries and what writes them."""
    folder = write_model(tmp_path / "sharded")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, entries = list(tensors), {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
        entries |= dict.fromkeys(part, file)

    def write(change):
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": entries | change}))
        return str(folder)

    return folder, entries, write


def test_a_model_in_two_files_is_read(shards, tmp_path):
    folder, _, write = shards
    assert load(write({})).layers[1].heads == 3
    assert pretrained.load(load(folder).checkpoint).config.n_layer == 2


def test_a_file_that_did_not_arrive_is_said_to_be_missing(shards):
    folder, _, write = shards
    name = write({})
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match=r"'model-00002-of-00002\.safetensors'.*; this one is missing: fetch it again"):
        load(name)


ELSEWHERE = "../outside/x.safetensors", "{absolute}", "nested/x.safetensors", "pytorch_model.bin", "other.safetensors"


@pytest.mark.parametrize("read", [load, lambda name: pretrained.load(load(name).checkpoint)])
@pytest.mark.parametrize("file", [*ELSEWHERE, None])
def test_an_index_that_leads_elsewhere_is_refused_by_the_entry(shards, tmp_path, file, read):
    folder, entries, write = shards
    for place in ("outside", "sharded/nested"):
        (tmp_path / place).mkdir()
        save_file(load_file(folder / entries[NAME]), tmp_path / place / "x.safetensors")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    if isinstance(file, str):
        file = file.format(absolute=tmp_path / "outside" / "x.safetensors", own=entries[NAME])
    folder_name = write({NAME: file})
    with pytest.raises(ValueError, match=rf"{INDEX} says that '{NAME}' is in .* of its own folder only"):
        read(folder_name)


def test_an_index_that_names_a_file_without_the_tensor_is_refused(shards):
    _, entries, write = shards
    other = next(file for file in entries.values() if file != entries[NAME])
    with pytest.raises(ValueError, match=rf"'{NAME}' is in '{other}'.*, which is in '{entries[NAME]}'"):
        load(write({NAME: other}))
    with pytest.raises(ValueError, match=r"'no\.such\.tensor' is in"):
        load(write({"no.such.tensor": other}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must hold a JSON object"),
        ('{"weight_map": []}', "must give weight_map as an object, got list"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_an_index_that_is_none_is_refused(shards, content, message):
    folder, _, _ = shards
    (folder / INDEX).write_text(content)
    with pytest.raises(ValueError, match=rf"{INDEX} {message}"):
        load(folder)
