"""Real lineages, where they are on this machine: rebuilt from their table and equal to their sequences."""

import pytest
import torch

from book.lab.dna.fasta import read_fasta
from book.lab.dna.simulate import read_backbones
from book.publish import experiments, records
from book.publish.records import data_folder

FOLDER = data_folder("sars-cov-2")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="no folder sars-cov-2 in ANALYSIS_DATA")


def test_lineages_rebuild_and_align():
    backbones = read_backbones(FOLDER)
    assert len(backbones) == 510
    assert {len(b.aligned) for b in backbones} == {3834}  # 3822 of the reference, 12 columns of two insertions


def test_real_open_sequences_read_with_their_table():
    genes = read_fasta(FOLDER / "open_sequences_S.fasta.gz", FOLDER / "open_sequences.tsv")
    assert len(genes) == 89
    assert {gene.label for gene in genes} <= {b.label for b in read_backbones(FOLDER)}


def test_real_sequences_are_placed_where_their_own_lineage_has_its_gaps():
    from book.studies.variant_data.experiments import open_sequences

    backbones = {b.name: b for b in read_backbones(FOLDER)}
    genes = open_sequences(FOLDER, list(backbones.values()))
    for gene in genes:
        assert gene.aligned.replace("-", "") == gene.bases
        own = backbones[gene.lineage]
        assert [c == "-" for c in gene.aligned] == [c == "-" for c in own.aligned], gene.name


@pytest.mark.slow
def test_the_record_is_recomputed_on_the_real_sequences():
    """Baselines fitted around the real lineages, and asked about the 89 real sequences, agree with what pages show."""
    experiment = experiments.find("variant-data-baselines-real")
    assert experiment.missing() == []
    records.compare(experiment.compute(torch.device("cpu")), experiments.load(experiment.name))
