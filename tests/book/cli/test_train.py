"""``python -m book train``: the device, the folder that is written into, and what else is refused."""

import re

import pytest

from analysis.core.files import claim_folder
from analysis.models import pretrained
from book.__main__ import main
from book.cli import train
from book.lab.training import dna_classifier, gpt2_mini, loop


@pytest.mark.parametrize(
    "arguments",
    [["classify", "genes.fasta"], ["train", "induction"], ["train", "gpt2-mini"], ["train", "variant-bert-mini"]],
    ids=" ".join,
)
def test_the_device_reaches_the_computation(arguments, capsys, monkeypatch, tmp_path):
    def compute(*_, device, **__):
        raise ValueError(f"computed on {device}")

    for module, name in ((pretrained, "load"), (loop, "train"), (gpt2_mini, "train"), (dna_classifier, "train")):
        monkeypatch.setattr(module, name, compute)
    monkeypatch.setattr(dna_classifier, "make_data", lambda recipe, *_: _Nothing())
    monkeypatch.setattr("book.lab.dna_probe.make_probe", lambda data: None)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "genes.fasta").write_text(f">a\n{'ACGT' * 30}\n")
    assert main([*arguments, "--device", "cuda:3"]) == 2
    assert re.fullmatch(r"error: .*computed on cuda:3.*\n", capsys.readouterr().err)


class _Nothing:
    """Data that nothing reads."""


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Train a toy that writes one file, in an empty folder."""

    def write(out, **options):
        (out / "model.safetensors").write_text("of the toy")
        return {"seed": options.get("seed", 0)}

    monkeypatch.setitem(train.TRAINABLE, "induction", train.Recipe("a toy", write))
    monkeypatch.chdir(tmp_path)


def test_a_training_writes_into_a_folder_of_its_own_kind_only(toy, tmp_path, capsys):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "model.safetensors").write_text("of others")
    assert main(["train", "induction", "--out", "theirs"]) == 2
    assert "theirs holds what was not written here: model.safetensors" in capsys.readouterr().err
    assert (tmp_path / "theirs" / "model.safetensors").read_text() == "of others"
    assert main(["train", "induction"]) == main(["train", "induction", "--seed", "1"]) == 0
    with claim_folder("runs/induction", "training of induction"):
        assert main(["train", "induction"]) == 2
    assert "another training of induction is writing into runs/induction" in capsys.readouterr().err
    with claim_folder("runs/other", "census"):
        (tmp_path / "runs" / "other" / "a").touch()
    assert main(["train", "induction", "--out", "runs/other"]) == 2


def test_the_home_folder_is_meant_by_a_tilde_that_the_shell_left(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["train", "induction", "--out=~/results"]) == 0
    assert (tmp_path / "home" / "results" / "model.safetensors").exists()
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["induction", "--steps", "9" * 30], "--steps must be 1 to 10,000,000, got 9"),
        (["gpt2-mini", "--steps", "10000001"], "--steps must be 1 to 10,000,000, got 10000001"),
        (["variant-bert-mini", "--pretrain", "9" * 30], "--pretrain must be 0 to 10,000,000, got 9"),
        (["variant-bert-mini", "--batch", "1000000000"], "batch must be 1 to 2800, the number of sequences, got 10"),
        (["variant-bert-mini", "--batch", "9" * 30], "batch must be 1 to 2800"),
        (["induction", "--seed", "9" * 30], "--seed must be 0 to"),
    ],
)
def test_numbers_beyond_any_training_are_refused_before_anything_is_made(words, message, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(dna_classifier, "make_data", lambda *_: pytest.fail("made the data"))
    monkeypatch.setattr(gpt2_mini, "read_corpus", lambda *_: pytest.fail("read the corpus"))
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs" / words[0]).exists()


def test_the_order_of_more_sequences_than_memory_holds_is_refused():
    with pytest.raises(MemoryError, match=r"order of 1,000,000,000,000,000 sequences needs 16,000,000\.0 GB"):
        dna_classifier._order(2800, 10**12, 1000, [0, 7])
