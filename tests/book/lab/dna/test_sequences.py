"""Sequences: reading and refusing, k-mers, the simulator's promises, splits without leaks."""

import gzip
import itertools

import numpy as np
import pytest

from book.lab.dna import fasta, kmers, simulate, splits
from book.lab.dna.fasta import BadSequence, read_fasta


def write(path, text, packed=False):
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_reads_fasta_with_labels_from_headers(tmp_path, packed, end):
    text = "\ufeff>x class=Alpha nearest=B.1\nacgu\nNRY\n\n> y class=Mu\nAC GT".replace("\n", end)
    x, y = read_fasta(write(tmp_path / "a.fasta", text, packed))
    assert (x.name, x.bases, x.label, x.lineage) == ("x", "ACGTNRY", "Alpha", "B.1")
    assert (y.name, y.bases, y.label) == ("y", "ACGT", "Mu")


@pytest.mark.parametrize("table", ["class\tname\nBeta\tx\n", "\ufeffname\tclass\r\nx\tBeta\r\n"])
def test_labels_from_a_table(tmp_path, table):
    path = write(tmp_path / "a.fasta", ">x\nACGT\n")
    assert read_fasta(path, write(tmp_path / "a.tsv", table))[0].label == "Beta"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ACGT\n", "no FASTA record"),
        (">x\n>y\nACGT\n", "'x' has no bases"),
        (">\nACGT\n", "has no name"),
        (">x\nACGJ\n", "'J' at base 4"),
        (">x\nAC-T\n", "'-' at base 3"),
    ],
)
def test_refuses(tmp_path, text, reason):
    with pytest.raises(BadSequence, match=reason):
        read_fasta(write(tmp_path / "bad.fasta", text))


def test_kmer_counts_of_the_paper():
    assert len(kmers.kmers("A" * 3822)) == 424
    with pytest.raises(ValueError, match="holds no 12-mer"):
        kmers.kmers("ACGT")


def test_kmers_overlap_by_three_bases():
    bases = "".join(np.random.default_rng(0).choice(list("ACGT"), 300))
    cut = kmers.kmers(bases)
    assert all(a[-3:] == b[:3] for a, b in itertools.pairwise(cut))


def test_tokenizer_survives_saving_and_knows_only_training_words(tmp_path):
    train = ["ACGTACGTACGTACGTACGTA", "ACGTACGTACGTCCGTACGTN"]
    tokenizer = kmers.build_tokenizer(train, positions=8)
    tokenizer.save_pretrained(tmp_path)
    again = kmers.load_tokenizer(tmp_path)
    for one in (tokenizer, again):
        ids = one([kmers.words(train[0]), kmers.words("T" * 21)], padding="max_length", max_length=8)
        rows = [one.convert_ids_to_tokens(row) for row in ids["input_ids"]]
        assert rows[0][:3] == ["[CLS]", "ACGTACGTACGT", "CGTACGTACGTA"]
        assert rows[0][3:] == ["[PAD]"] * 5
        assert rows[1][1:3] == ["[UNK]", "[UNK]"]
        assert ids["attention_mask"][0] == [1] * 3 + [0] * 5
    assert "CGTCCGTACGTN" in tokenizer.get_vocab()  # an ambiguous word seen in training is a word


def test_unknown_share_counts_words():
    tokenizer = kmers.build_tokenizer(["ACGTACGTACGTACGTACGTA"])
    assert kmers.unknown_share(tokenizer, "ACGTACGTACGTACGTACGTA") == 0
    assert kmers.unknown_share(tokenizer, "ACGTACGTACGTACGTACGTN") == 0.5


@pytest.fixture(scope="module")
def genes():
    return list(simulate.simulate(simulate.invent_backbones(1), 1600, seed=2))


def test_simulated_sequences_are_open_reading_frames(genes):
    for gene in genes:
        assert len(gene.bases) % 3 == 0
        codons = [gene.bases[i : i + 3] for i in range(0, len(gene.bases), 3)]
        assert not simulate.STOPS & set(codons[:-1])
        assert len(gene.aligned) == 3822
        assert gene.aligned.replace(fasta.GAP, "") == gene.bases


def test_simulated_sequences_are_distinct_balanced_and_seeded(genes):
    assert len({gene.bases for gene in genes}) == 1600
    labels = [gene.label for gene in genes]
    assert {labels.count(label) for label in simulate.CLASSES} == {200}
    again = list(simulate.simulate(simulate.invent_backbones(1), 50, seed=2))
    assert again == genes[:50]
    assert list(simulate.simulate(simulate.invent_backbones(1), 50, seed=3)) != again


def test_simulator_streams():
    assert next(simulate.simulate(simulate.invent_backbones(0), 10**9)).label == "Alpha"


def test_tips_of_a_clade_share_its_substitutions():
    backbone = simulate.invent_backbones(0)[0]
    genes = list(simulate.simulate([backbone], 40, clades=1, shared=8.0, private=0.5, runs=0.0, singles=0.0))
    columns = [i for i, base in enumerate(backbone.aligned) if all(g.aligned[i] != base for g in genes)]
    assert len(columns) >= 3


@pytest.mark.parametrize("by", splits.UNITS)
def test_no_unit_is_in_two_parts_and_every_class_is_in_each(genes, by):
    parts = splits.split(genes, by)
    everything = np.concatenate([parts.train, parts.validation, parts.test])
    assert sorted(everything) == list(range(len(genes)))
    for part in (parts.train, parts.validation, parts.test):
        assert {genes[i].label for i in part} == set(simulate.CLASSES)
    big = {g.label for g in genes} - {
        label for label in simulate.CLASSES if len({g.lineage for g in genes if g.label == label}) < 3
    }
    units = [
        {getattr(genes[i], by if by != "sequence" else "name") for i in part if genes[i].label in big}
        for part in (parts.train, parts.validation, parts.test)
    ]
    for one, other in itertools.combinations(units, 2):
        assert not one & other


def test_split_refuses():
    with pytest.raises(ValueError, match="three are needed"):
        splits.split([fasta.Gene("a", "A", "x"), fasta.Gene("b", "A", "x")])
    with pytest.raises(ValueError, match="needs backbones"):
        next(simulate.simulate([], 1))
