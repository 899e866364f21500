"""``python -m book classify`` and ``train``: the trained folder as a model like any other, and what is refused."""

import gzip
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.models import checkpoints, pretrained
from analysis.models.files import MissingTensor
from analysis.models.reading import load
from book.__main__ import main
from book.cli import classify
from book.lab.dna import kmers
from book.lab.dna.simulate import invent_backbones, simulate
from book.lab.training import dna_classifier

GENE = "ACGTTGCAAGCTAGCTTGACCATGCAATTGGCCATAGC" * 5


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for name in ("ANALYSIS_MODELS", "ANALYSIS_SOURCES", "ANALYSIS_DOWNLOAD", "ANALYSIS_FOLDER_VARIANT_BERT_MINI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)  # so that probabilities are those of the CPU


@pytest.fixture
def fasta(tmp_path, variant_data):
    genes = [variant_data.genes[i] for i in variant_data.parts.test]
    genes = [g for g in genes if kmers.unknown_share(variant_data.tokenizer, g.bases) <= 0.2]  # short genes, few words
    path = tmp_path / "genes.fasta"
    path.write_text("".join(f">{g.name}\n{g.bases}\n" for g in genes))
    return path, genes


def test_a_trained_classifier_is_a_model_like_any_other(variant_folder, variant_data, monkeypatch):
    monkeypatch.setenv("ANALYSIS_FOLDER_VARIANT_BERT_BASE", str(variant_folder))
    found = checkpoints.find("variant-bert-base")
    assert (found.source, found.licence, found.stands_in_for) == ("folder", "MIT", None)
    assert [path.name for path in found.files()] == ["model.safetensors"]
    assert len(load(found).layers) == 2
    tokens = load(found).tokens
    assert tokens.shape[0] == len(variant_data.tokenizer) == len(pretrained.tokenizer(found))
    trained = pretrained.load(found, task="classifier")
    control = pretrained.load(found, task="classifier", control_seed=1)
    again = pretrained.load(found, task="classifier", control_seed=1)
    base = pretrained.load(found)
    torch.testing.assert_close(base.embeddings.word_embeddings.weight, tokens)
    torch.testing.assert_close(trained.bert.embeddings.word_embeddings.weight, tokens)
    torch.testing.assert_close(control.classifier.weight, again.classifier.weight, rtol=0, atol=0)
    assert not torch.equal(control.classifier.weight, trained.classifier.weight)
    layer = load(found).layers[1].plain()
    expected = trained.bert.encoder.layer[1].attention.self.query.weight.T[:, :16]
    torch.testing.assert_close(layer.W_Q[0], expected)
    assert "model.safetensors" in found.provenance()["sha256"]


def test_a_changed_classifier_is_refused(variant_folder, tmp_path):
    for path in variant_folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    content = bytearray((tmp_path / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(checkpoints.Tampered, match="sha256"):
        checkpoints.find(str(tmp_path))


def test_what_makes_a_missing_model_is_said(monkeypatch, tmp_path):
    nowhere = replace(checkpoints.KNOWN["variant-bert-mini"], bundle=tmp_path)
    monkeypatch.setitem(checkpoints.KNOWN, "variant-bert-mini", nowhere)
    with pytest.raises(checkpoints.NotFound, match="make it with python -m book train variant-bert-mini"):
        checkpoints.find("variant-bert-mini")


def test_a_classifier_without_its_pooler_is_refused(variant_folder, tmp_path):
    from safetensors.torch import load_file, save_file

    (tmp_path / "config.json").write_bytes((variant_folder / "config.json").read_bytes())
    kept = {k: v for k, v in load_file(variant_folder / "model.safetensors").items() if "pooler" not in k}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    found = checkpoints.find(str(tmp_path))
    pretrained.load(found)
    with pytest.raises(MissingTensor, match="pooler"):
        pretrained.load(found, task="classifier")


def test_json_has_the_models_own_probabilities(variant_folder, variant_data, fasta, capsys):
    path, genes = fasta
    assert main(["classify", str(path), "--model", str(variant_folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["trained_on"] == "synthetic gene"
    model, tokenizer, labels = dna_classifier.load(variant_folder)
    rows = dna_classifier.predict(model, tokenizer, [g.bases for g in genes])
    assert [row["name"] for row in said["sequences"]] == [g.name for g in genes]
    for row, expected in zip(said["sequences"], rows):
        assert list(row["probabilities"]) == labels
        assert row["probabilities"][row["class"]] == max(row["probabilities"].values())
        torch.testing.assert_close(torch.tensor(list(row["probabilities"].values())), expected)
    right = sum(row["class"] == g.label for row, g in zip(said["sequences"], genes))
    assert right > len(genes) / 2


def test_tsv_and_gzip_and_the_table_agree(variant_folder, fasta, tmp_path, capsys):
    path, genes = fasta
    packed = tmp_path / "genes.fasta.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert main(["classify", str(packed), "--model", str(variant_folder), "--tsv"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:3] == ["name", "class", "unknown"]
    assert len(rows) == len(genes) + 1
    assert sum(float(p) for p in rows[1][3:]) == pytest.approx(1, abs=1e-3)
    assert main(["classify", str(path), "--model", str(variant_folder)]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == rows


def test_no_class_for_what_the_model_has_no_word_of(variant_folder, variant_data, tmp_path, capsys):
    known = variant_data.genes[variant_data.parts.train[0]]
    half = known.bases[:120] + GENE[:60]
    (tmp_path / "a.fasta").write_text(f">known\n{known.bases}\n>other\n{GENE}\n>half\n{half}\n")
    assert main(["classify", str(tmp_path / "a.fasta"), "--model", str(variant_folder), "--tsv"]) == 1
    said = capsys.readouterr()
    rows = {row[0]: row for row in (line.split("\t") for line in said.out.splitlines())}
    assert rows["known"][1:3] == [known.label, "0.000"]
    assert rows["other"][1:3] == ["none", "1.000"]
    assert rows["half"][1] != "none"
    assert "other: no class, because more than 50% of the k-mers are unknown" in said.err
    assert "trained on: synthetic gene" in said.err
    assert "half: more than 20% of the k-mers are unknown" in said.err
    assert len(said.err.splitlines()) == 2


def test_no_class_for_a_sequence_of_n(variant_folder, variant_data, tmp_path, capsys):
    known = variant_data.genes[variant_data.parts.train[0]].bases
    assert "N" * 12 in variant_data.tokenizer.get_vocab()  # so no word of it is unknown
    rows = {"blank": "N" * 180, "most": known[:60] + "N" * 120, "few": known[:120] + "N" * 60}
    (tmp_path / "a.fasta").write_text("".join(f">{name}\n{bases}\n" for name, bases in rows.items()))
    assert main(["classify", str(tmp_path / "a.fasta"), "--model", str(variant_folder), "--tsv"]) == 1
    said = capsys.readouterr()
    rows = [line.split("\t") for line in said.out.splitlines()[1:]]
    assert [row[1] for row in rows[:2]] == ["none", "none"]
    assert rows[2][1] != "none"
    assert rows[0][2] == "0.000"
    assert "blank, most: no class, because more than 50% of the k-mers are unknown or N throughout" in said.err


def test_unknown_share_counts_words():
    tokenizer = kmers.build_tokenizer(["ACGTACGTACGTACGTACGTA"])
    assert kmers.unknown_share(tokenizer, "ACGTACGTACGTACGTACGTA") == 0
    assert kmers.unknown_share(tokenizer, "ACGTACGTACGTACGTACGTN") == 0.5
    blank = kmers.build_tokenizer(["ACGTACGTACGT", "N" * 12])
    assert [kmers.unread_share(t, "N" * 12) for t in (tokenizer, blank)] == [1, 1]
    assert kmers.unread_share(blank, "ACGTACGTACGTACGTACGTA") == 0.5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (">x\nACGJ\n", "'J' at base 4"),
        (">x\n\n", "'x' has no bases"),
        (">x\nACGTACGTACGT\n>x\nACGTACGTACGT\n", "occurs twice"),
        (">x\nACGT\n", "has 4 bases, 12 are needed"),
        (">x\n" + "A" * 4611 + "\n", "4611 bases, 4610 fit the model"),
        ("", "no FASTA record"),
        (">x\n" + "MFVFLVLLPLVSSQ" * 9 + "\n", "looks like a protein"),
    ],
)
def test_bad_files_get_one_line(variant_folder, tmp_path, capsys, text, reason):
    (tmp_path / "bad.fasta").write_text(text)
    assert main(["classify", str(tmp_path / "bad.fasta"), "--model", str(variant_folder)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert reason in said.err
    assert len(said.err.splitlines()) == 1


def test_other_models_and_missing_files_are_refused(fasta, variant_folder, capsys):
    assert main(["classify", str(fasta[0]), "--model", "minilm"]) == 2
    assert "must be a variant classifier" in capsys.readouterr().err
    for bad in ("nowhere.fasta", str(variant_folder)):  # no file, a folder
        assert main(["classify", bad, "--model", str(variant_folder)]) == 2
        said = capsys.readouterr().err
        assert bad in said
        assert len(said.splitlines()) == 1


@pytest.mark.slow
def test_as_a_user_runs_it(variant_folder, fasta):
    done = subprocess.run(
        [sys.executable, "-m", "book", "classify", str(fasta[0]), "--model", str(variant_folder), "--tsv"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.startswith("name\tclass\tunknown\t")
    assert done.stderr == ""


@pytest.fixture
def small(monkeypatch):
    """Let the command train two layers on a short gene."""
    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=80, batch=4, warmup=2)
    monkeypatch.setattr(dna_classifier, "MINI", recipe)
    monkeypatch.setattr(dna_classifier, "invent_backbones", _short)
    return recipe


def _short(seed):
    from book.lab.dna.simulate import invent_backbones

    return invent_backbones(seed, codons=60)


def test_train_prints_its_card_and_resumes(small, tmp_path, capsys, monkeypatch):
    command = ["train", "variant-bert-mini", "--steps", "6", "--seed", "3", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    said = capsys.readouterr().out
    for row in ("validation  0.", "test  0.", "seconds  ", "seed  3", "steps  6", "origin  synthetic gene"):
        assert row in said
    assert "ANALYSIS_FOLDER_VARIANT_BERT_MINI=" in said
    model = (tmp_path / "run" / "model.safetensors").read_bytes()
    monkeypatch.setattr(dna_classifier.loop, "_update", lambda *_: pytest.fail("a finished run was trained on"))
    assert main(command) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == model
    assert main([*command[:3], "5", *command[4:]]) == 2
    assert "is the state of another run (steps 6 there, 5 here)" in capsys.readouterr().err


def test_train_around_backbones_of_ones_own(small, tmp_path, capsys):
    lines = (f">{b.name} class={b.label}\n{b.aligned}\n" for b in _short(4))
    (tmp_path / "own.fasta").write_text("".join(lines))
    out = tmp_path / "run"
    assert (
        main(
            [
                "train",
                "variant-bert-mini",
                "--steps",
                "2",
                "--out",
                str(out),
                "--backbones",
                str(tmp_path / "own.fasta"),
            ]
        )
        == 0
    )
    assert "(own.fasta)" in json.loads((out / "report.json").read_text())["origin"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["variant-bert-mini", "--seed", str(2**70)], "--seed must be 0 to 2**40 - 1"),
        (["variant-bert-mini", "--seed", "-1"], "--seed must be 0 to 2**40 - 1"),
        (["variant-bert-mini", "--steps", "0"], "--steps must be 1 to 10,000,000, got 0"),
        (["variant-bert-mini", "--backbones", "nowhere"], "nowhere"),
        (["gpt2-mini", "--backbones", "nowhere"], "--backbones is no setting of gpt2-mini"),
        (["induction", "--pretrain", "3"], "--pretrain is no setting of induction"),
        (["variant-bert-mini", "--batch", "0"], "batch must be 1 to "),
        (["variant-bert-mini", "--pretrain", "-1"], "--pretrain must be 0 to 10,000,000, got -1"),
    ],
)
def test_train_refuses_in_one_line(small, tmp_path, capsys, more, reason):
    assert main(["train", *more, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert reason in said
    assert len(said.splitlines()) == 1


def test_pretraining_from_the_command_line(small, tmp_path, capsys):
    assert main(["train", "variant-bert-mini", "--steps", "2", "--pretrain", "3", "--out", str(tmp_path)]) == 0
    assert "pretrain loss  " in capsys.readouterr().out
    with np.load(tmp_path / "trace.npz") as trace:
        assert (trace["loss"].shape, trace["pretrain_loss"].shape) == ((2,), (3,))


def test_the_bundled_classifier_knows_its_gene_and_says_so_of_another(tmp_path, capsys):
    gene = next(simulate(invent_backbones(0), 1, seed=99))
    other = next(simulate(invent_backbones(7), 1, seed=99))
    (tmp_path / "a.fasta").write_text(f">own\n{gene.bases}\n>other\n{other.bases}\n")
    assert main(["classify", str(tmp_path / "a.fasta"), "--json"]) == 1
    said = capsys.readouterr()
    own, strange = json.loads(said.out)["sequences"]
    assert (own["class"], strange["class"]) == (gene.label, None)
    assert own["unknown"] < 0.1
    assert strange["unknown"] > 0.95
    assert "other: no class" in said.err
    assert "variant-bert-mini, which was trained on: synthetic gene" in said.err


def test_a_diverging_run_ends_in_one_line(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dna_classifier, "MINI", dna_classifier.shortened(small, rate=float("inf")))
    assert main(["train", "variant-bert-mini", "--steps", "6", "--out", str(tmp_path)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "step/s" not in line and line.strip()]
    assert said[-1].startswith("error: ")  # the loss or, where the probe looks first, the attention
    assert "nan" in said[-1]
    assert not any("Traceback" in line for line in said)
    assert not (tmp_path / "model.safetensors").exists()


PIPED = {
    "stdin": "cat {} | {} -",
    "gzipped stdin": "gzip -c {} | {} -",
    "pipe": "cat {} | {} /dev/stdin",
    "slow": "(head -c 1 {0}; tail -c +2 {0}) | {1} -",
}
NAMES = "import sys; from book.lab.dna.fasta import read_fasta as read; print(*[g.name for g in read(sys.argv[1])])"


@pytest.mark.parametrize("way", PIPED)
def test_records_are_read_from_pipes(way, fasta):
    path, genes = fasta
    reads = f"{sys.executable} -c '{NAMES}'"
    done = subprocess.run(["sh", "-c", PIPED[way].format(path, reads)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [gene.name for gene in genes]


def test_standard_input_is_classified_and_named_in_refusals(variant_folder, fasta, capsys, monkeypatch):
    path, genes = fasta
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["classify", "-", "--model", str(variant_folder), "--tsv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(genes) + 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["classify", "-", "--model", str(variant_folder)]) == 2
    assert capsys.readouterr().err == "error: standard input: no FASTA record in it\n"


def test_how_far_it_is_is_shown_while_it_reads_and_while_it_classifies(variant_folder, fasta, capsys, monkeypatch):
    monkeypatch.setattr(classify, "CHUNK", 16)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["classify", str(fasta[0]), "--model", str(variant_folder), "--tsv"]) == 0
    said = capsys.readouterr().err
    assert f"reading: {len(fasta[1])} sequences" in said
    assert f"{len(fasta[1])}/{len(fasta[1])}" in said


@pytest.mark.parametrize("positions", [0, "512"])
def test_a_classifier_that_does_not_say_how_long_a_text_may_be_is_refused(
    variant_folder, fasta, capsys, tmp_path, positions
):
    folder = shutil.copytree(variant_folder, tmp_path / "copy")
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(settings | {"max_position_embeddings": positions}))
    assert main(["classify", str(fasta[0]), "--model", str(folder)]) == 2
    assert "max_position_embeddings" in capsys.readouterr().err
