"""Where trained classifiers lie, and what they are asked about."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from book.lab import classifier_runs
from book.lab.dna.fasta import GAP
from book.lab.dna.simulate import invent_backbones
from book.lab.training import dna_classifier

BACKBONES = invent_backbones(0, codons=60)


def test_sets_keep_the_evidence_that_they_name(variant_data, variant_folder):
    sets = classifier_runs.make_sets(variant_data, BACKBONES, 0, fresh=16)
    assert tuple(sets) == classifier_runs.SETS
    assert not any(GAP in gene.aligned for gene in sets["only substitutions"])
    assert any(GAP in gene.aligned for gene in sets["only deletions"])
    assert {g.bases for g in sets["new clades"]}.isdisjoint(g.bases for g in variant_data.genes)
    table = classifier_runs.confuse(dna_classifier.load(variant_folder)[0], variant_data, sets["new clades"])
    assert table.sum(1).tolist() == [2] * 8


def test_far_clades_are_further_from_their_lineage(variant_data):
    sets = classifier_runs.make_sets(variant_data, BACKBONES, 0, fresh=160)
    rows = {b.name: b.aligned for b in BACKBONES}

    def apart(genes):
        return np.mean([sum(a not in (b, "N") for a, b in zip(g.aligned, rows[g.lineage])) for g in genes])

    assert apart(sets["new clades"]) == pytest.approx(5, abs=1)  # 3 shared and 2 of its own
    assert apart(sets["far clades"]) == pytest.approx(14, abs=2)  # 12 and 2; a few columns are hit twice


def test_confusions_have_the_truth_in_rows(variant_data):
    genes = [variant_data.genes[i] for i in variant_data.parts.test[:4]]
    named = np.eye(8)[[2, 2, 5, 2]]
    table = classifier_runs.tally(variant_data, genes, torch.tensor(named))
    truth = [variant_data.labels.index(gene.label) for gene in genes]
    assert table.sum() == 4
    assert table[truth[2], 5] == 1


def test_runs_are_found_where_they_lie(variant_folder, monkeypatch):
    monkeypatch.setenv(classifier_runs.RUNS, str(variant_folder.parent))
    card = json.loads((variant_folder / "report.json").read_text())
    recipe = dna_classifier.Recipe(**card["recipe"])
    assert classifier_runs.find_run(variant_folder.name, card["seed"], recipe=recipe) == variant_folder
    for seed, other in ((card["seed"] + 1, recipe), (card["seed"], replace(recipe, steps=recipe.steps + 1))):
        with pytest.raises(ValueError, match=rf"{variant_folder.name} holds seed {card['seed']} of"):
            classifier_runs.find_run(variant_folder.name, seed, recipe=other)
