"""The records of the case study's data: a small classifier beside simple ones, telling words, and real lineages."""

import json

import numpy as np
import pytest
import torch

from analysis.models import checkpoints, pretrained
from book.experiments.variant_baselines import on_open, open_sequences
from book.experiments.variant_data import (
    BASELINES,
    LEAST,
    count_telling_words,
    find_telling_words,
    score_run,
    sizes,
    sizes_of_test,
)
from book.lab.classifier_survey import Run
from book.lab.dna.baselines import KmerRegression, Lookup, by_nothing
from book.lab.dna.fasta import Gene, read_fasta
from book.lab.dna.simulate import invent_backbones, read_backbones
from book.lab.dna.splits import split
from book.publish import experiments, records
from book.publish.records import data_folder

FIRST, SECOND = "ACGTACGTACGT", "GGGGCCCCAAAA"  # words of twelve bases, of which a sequence of twelve has one
FOLDER = data_folder("sars-cov-2")
where_real_lineages_are = pytest.mark.skipif(FOLDER is None, reason="no folder sars-cov-2 in ANALYSIS_DATA")


def genes(bases, label, count):
    return [Gene(f"{label}{i}", bases, label, f"{label}{i}", aligned=bases) for i in range(count)]


def test_a_classifier_and_simple_ones_are_scored_on_the_same_parts(variant_folder, variant_data):
    model = pretrained.load(checkpoints.find(str(variant_folder)), task="classifier")
    card = json.loads((variant_folder / "report.json").read_text())
    values, table = score_run(Run(model, variant_data, card, variant_folder), invent_backbones(0, codons=60))
    parts = variant_data.parts
    assert set(BASELINES) < set(values)
    assert table.sum() == values["bert"].n == len(parts.test)
    assert values["bert"].value == pytest.approx(np.trace(table) / len(parts.test))
    assert (values["train"].value, values["validation"].n) == (len(parts.train), len(parts.validation))
    assert values["kmers"].value > values["length"].value > values["majority"].value
    assert values["exchanged_bases"].value + values["exchanged_deletions"].value <= 1


def test_the_units_of_a_test_part_hold_all_its_sequences(variant_data):
    assert sizes(["x", "y", "y"]).tolist() == [2, 1]
    for by in ("sequence", "clade", "lineage"):
        found = sizes_of_test(variant_data, by)
        assert found.sum() == len(split(variant_data.genes, by, 0).test)
        assert (found.max() > 1) == (by != "sequence")


def test_a_word_tells_a_class_if_nine_in_ten_of_enough_sequences_are_of_it():
    assert find_telling_words(genes(FIRST, "a", 9) + genes(FIRST, "b", 1)) == {FIRST: "a"}
    assert find_telling_words(genes(FIRST, "a", 8) + genes(FIRST, "b", 1)) == {}
    assert find_telling_words(genes(FIRST, "a", LEAST - 1)) == {}


def test_every_telling_word_of_a_sequence_counts_for_its_class_alone():
    gene = Gene("a", "A" * 27 + SECOND, "a")  # three words of the first kind begin it, the third with letters of both
    telling = {"A" * 12: "a", SECOND: "b"}
    assert [count_telling_words(gene, label, telling) for label in ("a", "b", "c")] == [2, 1, 0]


def test_sequences_that_no_classifier_was_fitted_on_are_counted_with_what_is_unknown_of_them():
    train = genes(FIRST, "a", 3) + genes(SECOND, "b", 2)
    asked = genes(FIRST, "a", 1) + genes("T" * 12, "b", 1)
    found = on_open({"kmers": KmerRegression().fit(train), "majority": Lookup(by_nothing).fit(train)}, asked, train)
    assert (found["open/sequences"].value, found["open/unknown"].value) == (2, 0.5)
    assert found["majority/open"].value == 0.5


@where_real_lineages_are
def test_real_sequences_are_placed_where_their_own_lineage_has_its_gaps():
    backbones = {backbone.name: backbone for backbone in read_backbones(FOLDER)}
    assert len(backbones) == 510
    assert {len(backbone.aligned) for backbone in backbones.values()} == {3834}  # 12 columns are of two insertions
    found = open_sequences(FOLDER, list(backbones.values()))
    assert len(found) == len(read_fasta(FOLDER / "open_sequences_S.fasta.gz", FOLDER / "open_sequences.tsv")) == 89
    for gene in found:
        assert gene.aligned.replace("-", "") == gene.bases
        own = backbones[gene.lineage]
        assert [c == "-" for c in gene.aligned] == [c == "-" for c in own.aligned], gene.name


@pytest.mark.slow
@where_real_lineages_are
def test_the_record_is_recomputed_on_the_real_sequences():
    experiment = experiments.find("variant-data-baselines-real")
    records.compare(experiment.compute(torch.device("cpu")), experiments.load(experiment.name))
