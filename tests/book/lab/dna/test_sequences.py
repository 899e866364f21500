"""Sequences: reading and refusing, k-mers, the simulator's promises, splits without leaks."""

import gzip
import itertools
import math
import tracemalloc

import numpy as np
import pytest

from book.lab.dna import fasta, kmers, simulate, splits
from book.lab.dna.fasta import BadSequence, read_fasta


def write(path, text, packed=False):
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_reads_fasta_with_labels_from_headers(tmp_path, packed):
    path = write(tmp_path / "a.fasta", ">x class=Alpha nearest=B.1\nacgu\nNRY\n\n>y class=Mu\nACGT\n", packed)
    x, y = read_fasta(path)
    assert (x.name, x.bases, x.label, x.lineage) == ("x", "ACGTNRY", "Alpha", "B.1")
    assert y.label == "Mu"


def test_labels_from_a_table(tmp_path):
    path = write(tmp_path / "a.fasta", ">x\nACGT\n")
    table = write(tmp_path / "a.tsv", "class\tname\nBeta\tx\n")
    assert read_fasta(path, table)[0].label == "Beta"
    with pytest.raises(BadSequence, match="needs the columns"):
        read_fasta(path, write(tmp_path / "b.tsv", "a\tb\n"))
    with pytest.raises(BadSequence, match="no row for 'x'"):
        read_fasta(path, write(tmp_path / "c.tsv", "class\tname\nBeta\tz\n"))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("name\tclass\nx\tBeta\nx\tMu\n", "two rows for 'x'"),
        ("name\tclass\nx\tBeta\nx more\tBeta\n", "two rows for 'x'"),  # a name ends at the first blank
        ("name\tclass\n\tBeta\n", "row 2 of the table of labels lacks"),
        ("name\tclass\nx\t \n", "row 2 of the table of labels lacks"),
        ("name\tclass\nx\n", "row 2 of the table of labels lacks"),
        ("name,class\nx,Beta\n", "needs the columns"),
    ],
)
def test_refuses_tables_of_labels(tmp_path, table, reason):
    with pytest.raises(BadSequence, match=reason):
        read_fasta(write(tmp_path / "a.fasta", ">x\nACGT\n"), write(tmp_path / "a.tsv", table))


def test_tables_as_other_programs_save_them(tmp_path):
    path = write(tmp_path / "a.fasta", ">x\nACGT\n")
    for text in ("name\tclass\r\nx\tBeta\r\n", "\ufeffname\tclass\nx\tBeta\n"):
        assert read_fasta(path, write(tmp_path / "a.tsv", text))[0].label == "Beta"
    (tmp_path / "b.tsv").write_bytes("name\tclass\nx\tÄ\n".encode("latin-1"))
    with pytest.raises(BadSequence, match="not a table of labels in UTF-8"):
        read_fasta(path, tmp_path / "b.tsv")


@pytest.mark.parametrize(
    "text", [">x\r\nAC\r\nGT\r\n", ">x\rAC\rGT", "\ufeff>x\nacgt\n", "\n\n> x\nAC GT\n\n", ">x\nACGU"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_reads_what_other_programs_write(tmp_path, text, packed):
    assert [(g.name, g.bases) for g in read_fasta(write(tmp_path / "a.fasta", text, packed))] == [("x", "ACGT")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no FASTA record"),
        ("ACGT\n", "does not begin with '>'"),
        (">x\n>y\nACGT\n", "'x' has no bases"),
        (">\nACGT\n", "has no name"),
        (">x\nACGT\n>x\nACGA\n", "'x' occurs twice"),
        (">x\nACGJ\n", "'J' at base 4"),
        (">x\nAC-T\n", "'-' at base 3"),
        (">x\n" + "A" * 30 + "\n", "30 bases, 20 fit"),
        (">x\nAé\n", "in plain or gzipped ASCII: byte 5 is 0xc3"),
        (">x\nMFVFLVLL\n", "'F' at base 2.*looks like a protein"),
        (">x\nACGT*\n", "looks like a protein"),
        (">x class=Mu class=Beta\nACGT\n", "'x' gives two classes"),
        (">x\x1b[31m\nACGT\n", "a name that cannot be printed"),
        (">x\n1 ACGT\n", "'1' at base 1"),
        (">x\nAC\0GT\n", "at base 3"),
        ("; a comment\n>x\nACGT\n", "does not begin with '>'"),
    ],
)
def test_refuses(tmp_path, text, reason):
    with pytest.raises(BadSequence, match=reason):
        read_fasta(write(tmp_path / "bad.fasta", text), longest=20)


def test_a_wrong_letter_that_is_no_amino_acid_is_no_protein(tmp_path):
    with pytest.raises(BadSequence) as caught:
        read_fasta(write(tmp_path / "a.fasta", ">x\nACG?\n"))
    assert "protein" not in str(caught.value)


def test_refuses_a_truncated_gzip(tmp_path):
    path = write(tmp_path / "a.fasta.gz", ">x\n" + "ACGT" * 100, packed=True)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadSequence, match="not a whole FASTA file"):
        read_fasta(path)


def pack(path, *blocks):
    with gzip.open(path, "wb", compresslevel=1) as file:
        for block in blocks:
            file.write(block)
    return path


def test_a_small_file_that_unpacks_to_a_long_record_is_refused_without_unpacking_it(tmp_path):
    path = pack(tmp_path / "a.fasta.gz", b">x\n", *([b"A" * 2**20] * 64))
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(BadSequence, match="record 'x' has more than 1,000,000 characters: no gene"):
        read_fasta(path)
    assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("text", [b">x\n" + b"ACGT\n" * 30, b">" + b"x" * 120, b">x\nACGT\n" + b"\n" * 120])
@pytest.mark.parametrize("packed", [False, True])
def test_a_record_is_as_long_as_its_lines_together(tmp_path, text, packed, monkeypatch):
    path = write(tmp_path / "a.fasta", text.decode(), packed)
    monkeypatch.setattr(fasta, "RECORD", len(text))
    assert read_fasta(path) if b"\n" in text else True
    monkeypatch.setattr(fasta, "RECORD", 100)
    with pytest.raises(BadSequence, match=r"record '.*' has more than 100 characters"):
        read_fasta(path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_many_records_has_an_end(tmp_path, packed, monkeypatch):
    text = "".join(f">{i}\nACGT\n" for i in range(50))
    path = write(tmp_path / "a.fasta", text, packed)
    monkeypatch.setattr(fasta, "FILE", len(text))
    assert len(read_fasta(path)) == 50
    monkeypatch.setattr(fasta, "FILE", len(text) - 1)
    with pytest.raises(BadSequence, match=f"more than {len(text) - 1} characters unpacked"):
        read_fasta(path)


def test_kmer_counts_of_the_paper():
    assert len(kmers.kmers("A" * 3822)) == 424
    assert len(kmers.kmers("A" * kmers.longest(512))) == 511
    assert len(kmers.kmers("A" * (kmers.longest(512) + 1))) == 512
    with pytest.raises(ValueError, match="holds no 12-mer"):
        kmers.kmers("ACGT")
    with pytest.raises(ValueError, match="must be positive"):
        kmers.kmers("ACGT", 4, 0)


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


def test_substitutions_follow_the_spectrum():
    template = simulate.invent_backbones(0)[0]
    plain = {"runs": 0.0, "singles": 0.0, "clades": 1, "shared": 0.0}
    counts = {}
    for gene in simulate.simulate([template], 600, **plain, private=5.0):
        for a, b in zip(template.aligned, gene.aligned):
            if a != b:
                counts[a + b] = counts.get(a + b, 0) + 1
    total = sum(counts.values())
    assert set(counts) <= set(simulate.SPECTRUM)
    assert counts["CT"] / total == pytest.approx(0.42, abs=0.06)
    assert total / 600 == pytest.approx(5.0, rel=0.1)


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
    with pytest.raises(ValueError, match="by must be one of"):
        splits.split([], "colour")
    with pytest.raises(ValueError, match="three are needed"):
        splits.split([fasta.Gene("a", "A", "x"), fasta.Gene("b", "A", "x")])
    many = [fasta.Gene(str(i), "A", "x") for i in range(8)]
    with pytest.raises(ValueError, match="genes is empty"):
        splits.split([])
    for shares in ((0.5, 0.5), (-0.1, 0.2), (0.1, math.nan)):
        with pytest.raises(ValueError, match="shares must not be negative"):
            splits.split(many, shares=shares)
    with pytest.raises(ValueError, match="leave none of the 8 sequences of class 'x'"):
        splits.split(many, shares=(0.45, 0.5))
    with pytest.raises(ValueError, match="needs backbones"):
        next(simulate.simulate([], 1))


def test_no_damage_to_a_packed_file_ends_in_anything_but_a_refusal(tmp_path):
    good = gzip.compress(b">x class=Alpha\n" + b"ACGTTGCA" * 40 + b"\n", mtime=0)
    refused = 0
    for place in range(2, len(good)):
        path = tmp_path / "damaged.fasta.gz"
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
        try:
            read_fasta(path)  # a changed date or flag harms nothing
        except BadSequence:
            refused += 1
    assert refused > len(good) / 2
