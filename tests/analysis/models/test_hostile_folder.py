"""A model folder may hold code and pickles; none of it ever runs."""

import json
import pickle
import re
from pathlib import Path

import pytest
import transformers

from analysis.__main__ import main
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from tests.analysis.tiny import BERT, rewrite, write_model

CODE = "from pathlib import Path\nPath({mark!r}).write_text('ran')\nclass Model: pass\nclass Config: pass\n"


class Bomb:
    """Something that writes a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.write_text, (self.mark, "ran")


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """Return a model folder with code and pickles that leave a mark, and the mark's path."""
    monkeypatch.setenv("ANALYSIS_SOURCES", "")  # restored afterwards: the command line sets it
    mark, folder = tmp_path / "mark", write_model(tmp_path / "model", BERT)
    names = {"AutoModel": "evil.Model", "AutoModelForMaskedLM": "evil.Model", "AutoConfig": "evil.Config"}
    rewrite(folder / "config.json", auto_map=names)
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["evil.Model", None]}}))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]))
    (folder / "evil.py").write_text(CODE.format(mark=str(mark)))
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    return folder, mark


def test_the_trap_works(hostile):
    folder, mark = hostile
    pickle.loads((folder / "pytorch_model.bin").read_bytes())
    assert mark.read_text() == "ran"


@pytest.mark.parametrize("seed", [None, 0])
def test_no_code_and_no_pickle_of_a_folder_runs(hostile, seed):
    folder, mark = hostile
    rewrite(folder / "config.json", auto_map={"AutoProcessor": "evil.Model"})
    rewrite(folder / "tokenizer_config.json", auto_map={"AutoProcessor": "evil.Model"})
    found = checkpoints.find("it", folder=folder)
    load(found)
    load(found).layers[0].plain()
    pretrained.check_choice(str(folder), "minilm")
    model = pretrained.load(found, control_seed=seed)
    assert type(model).__module__.startswith("transformers.")
    assert type(pretrained.tokenizer(found)).__module__.startswith("transformers.")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"auto_map": {"AutoModel": "evil.Model"}}, "names evil.Model, modelling code that is its own"),
        ({"auto_map": {"AutoConfig": "evil.Config"}}, "names evil.Config, modelling .* take auto_map out of a copy"),
        ({"auto_map": {}, "architectures": ["BertEncoderModel"]}, "BertEncoderModel, modelling code that transformers"),
    ],
)
def test_a_model_with_code_of_its_own_is_refused_at_every_door(hostile, tmp_path, capsys, named, message):
    folder, mark = hostile
    rewrite(folder / "config.json", **named)
    found = checkpoints.find("it", folder=folder)
    for door in (load, pretrained.load, lambda found: pretrained.check_choice(str(folder), "minilm")):
        with pytest.raises(ValueError, match=message):
            door(found)
    for command in (["census"], ["report", "--weights-only"], ["report", "--certify"]):
        out = ["--folder" if command == ["census"] else "--out", str(tmp_path / "out")]
        assert main([command[0], str(folder), *command[1:], *out]) == 2
        assert re.search(message, capsys.readouterr().err)
        assert not any((tmp_path / "out").glob("*"))
    assert not mark.exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_tokenizer_with_code_of_its_own_is_refused(hostile, file):
    folder, mark = hostile
    for name in ("config.json", "tokenizer_config.json"):
        rewrite(folder / name, auto_map={"AutoTokenizer": ["evil.Model", None]} if name == file else {})
    found = checkpoints.find("it", folder=folder)
    load(found)
    with pytest.raises(ValueError, match=r"a tokenizer with code of its own, .* take auto_map out of a copy"):
        pretrained.tokenizer(found)
    assert not mark.exists()


def test_a_module_whose_code_came_with_its_folder_is_refused():
    class Own(transformers.LlamaModel):
        __module__ = "transformers_modules.owner.modeling"

    sizes = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=2)
    load(transformers.LlamaModel(config))
    with pytest.raises(ValueError, match=r"source has Own, modelling code of its own folder.*trust_remote_code=False"):
        load(Own(config))


def test_a_folder_with_pickles_only_is_refused(hostile):
    folder, mark = hostile
    rewrite(folder / "config.json", auto_map={})
    (folder / "model.safetensors").unlink()
    with pytest.raises(checkpoints.NotFound, match="pickles, which are never loaded"):
        pretrained.load(checkpoints.find("it", folder=folder))
    assert not mark.exists()
