"""The reference gene comes from NCBI only where that is allowed, and only if it is that gene."""

import io
from pathlib import Path

import pytest

from book.lab.dna import reference, simulate
from book.lab.training import dna_classifier


@pytest.fixture
def gene():
    made = "ATG" + "GCT" * 1272 + "TAA"
    assert len(made) == 3822
    return made


def answers(text):
    asked = []

    def opener(address, timeout):
        asked.append(address)
        return io.BytesIO(text.encode())

    return opener, asked


def test_the_network_is_asked_only_where_that_is_allowed(monkeypatch, gene):
    opener, asked = answers(f">NC_045512.2:21563-25384 spike\n{gene}\n")
    monkeypatch.delenv("ANALYSIS_DOWNLOAD", raising=False)
    with pytest.raises(PermissionError, match="--download"):
        reference.fetch_reference(opener=opener)
    assert not asked
    assert reference.fetch_reference(True, opener=opener) == gene
    monkeypatch.setenv("ANALYSIS_DOWNLOAD", "1")
    assert reference.fetch_reference(opener=opener) == gene
    assert all("NC_045512.2&seq_start=21563&seq_stop=25384" in address for address in asked)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda gene: gene[:-3],  # no stop, too short
        lambda gene: gene[:300] + "TAA" + gene[303:],  # a stop on the way
        lambda gene: gene[:300] + "N" + gene[301:],  # not all known
        lambda gene: gene + "\n>another\n" + gene,  # two records
        lambda gene: "GCT" + gene[3:],  # no start
        lambda gene: gene[:-3] + "GCT",  # no stop at all
    ],
)
def test_what_is_not_the_gene_is_refused(gene, spoil):
    with pytest.raises(ValueError, match="is not the spike gene"):
        reference.fetch_reference(True, opener=answers(f">r\n{spoil(gene)}\n")[0])


def test_clades_are_invented_around_a_given_gene(gene):
    made = simulate.invent_backbones(0, gene=gene)
    assert {len(b.aligned) for b in made} == {3822}
    changed = [sum(x not in (y, "-") for x, y in zip(b.aligned, gene)) for b in made]
    assert 0 < max(changed) <= 36
    assert simulate.invent_backbones(0) == simulate.invent_backbones(0, gene=None)
    with pytest.raises(ValueError, match="whole codons"):
        simulate.invent_backbones(0, gene=gene[:-1])


def test_a_training_may_ask_for_it(monkeypatch, gene):
    monkeypatch.setattr(dna_classifier, "fetch_reference", lambda: gene)
    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=160)
    data = dna_classifier.make_data(recipe, folder=Path(reference.ACCESSION))
    assert data.origin == "invented clades of NC_045512.2"
    assert "GCTGCTGCTGCT" in data.tokenizer.get_vocab()
