"""A model folder may hold code and pickles; none of it ever runs."""

import json
import pickle
from pathlib import Path

import pytest

from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from tests.analysis.tiny import BERT, write_model

CODE = "from pathlib import Path\nPath({mark!r}).write_text('ran')\nclass Model: pass\nclass Config: pass\n"


class Bomb:
    """Something that writes a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.write_text, (self.mark, "ran")


@pytest.fixture
def hostile(tmp_path):
    """Return a model folder with code and pickles that leave a mark, and the mark's path."""
    mark, folder = tmp_path / "mark", write_model(tmp_path / "model", BERT)
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoModel": "evil.Model", "AutoModelForMaskedLM": "evil.Model", "AutoConfig": "evil.Config"}
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": names}))
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
    found = checkpoints.find("it", folder=folder)
    load(found)
    load(found).layers[0].plain()
    pretrained.check_choice(str(folder), "minilm")
    model = pretrained.load(found, control_seed=seed)
    assert type(model).__module__.startswith("transformers.")
    assert type(pretrained.tokenizer(found)).__module__.startswith("transformers.")
    assert not mark.exists()


def test_a_folder_with_pickles_only_is_refused(hostile):
    folder, mark = hostile
    (folder / "model.safetensors").unlink()
    with pytest.raises(checkpoints.NotFound, match="pickles, which are never loaded"):
        pretrained.load(checkpoints.find("it", folder=folder))
    assert not mark.exists()
