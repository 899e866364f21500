"""Measuring the variant classifier: against states and maps that the library returns; its runs, sets and columns."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.statistics import normality
from book.lab.dna.fasta import GAP
from book.lab.dna.simulate import invent_backbones
from book.lab.training import dna_classifier
from book.publish.records import Value
from book.studies.shared import variant_columns, variant_measures, variant_seeds
from tests.analysis.fake_device import GPU, pretended

BACKBONES = invent_backbones(0, codons=60)


@pytest.fixture(scope="module")
def run(variant_folder, variant_data, monkeypatch_module):
    monkeypatch_module.setattr(variant_measures.dna_classifier, "make_data", lambda *_: variant_data)
    return variant_measures.open_run(variant_folder)


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def library(run):
    """One sequence: what the library's own forward pass returns."""
    gene = run.data.genes[run.data.parts.test[0]]
    with torch.no_grad():
        out = run.model(**run.data.encode([gene]), output_attentions=True, output_hidden_states=True)
    return gene, out


@pytest.mark.parametrize("pad_to", [None, 24])
def test_measures_agree_with_the_library(run, library, pad_to):
    gene, out = library
    found = variant_measures.survey(run.model, run.data, [gene], pad_to=pad_to)[0]
    states, maps = [s[0] for s in out.hidden_states[1:]], torch.cat(out.attentions)
    n = len(states[0])
    np.testing.assert_allclose(found["cone"], [s.sum(0).norm() for s in states], rtol=1e-4)
    np.testing.assert_allclose(found["D_sum"], [normality.lilliefors(s.sum(0)) for s in states], atol=1e-4)
    np.testing.assert_allclose(found["entropy"], torch.special.entr(maps).sum(-1).mean(-1) / math.log(n), rtol=1e-4)
    np.testing.assert_allclose(found["gates"], gates.read_gates(maps).scores, atol=1e-3)
    np.testing.assert_allclose(found["received"], maps.mean((1, 2)), atol=1e-6)
    np.testing.assert_allclose(found["class_row"], maps[:, :, 0].mean(1), atol=1e-6)
    np.testing.assert_allclose(found["probabilities"], out.logits[0].softmax(-1), atol=1e-5)
    assert ("padded_cone" in found) == (pad_to is not None)


def test_padding_rows_count_only_where_they_are_asked_for(run, library):
    found = variant_measures.survey(run.model, run.data, [library[0]], pad_to=24, read=False)[0]
    coded = run.data.encode([library[0]], 24)
    with torch.no_grad():
        states = run.model(**coded, output_hidden_states=True).hidden_states[1:]
    np.testing.assert_allclose(found["padded_cone"], [s[0].sum(0).norm() for s in states], rtol=1e-4)
    assert (found["padded_cone"] > 1.02 * found["cone"]).all()
    assert "gates" not in found


def test_growth_is_measured_with_biases(run, library):
    gene, out = library
    found = variant_measures.survey(run.model, run.data, [gene], pad_to=None, read=False)[0]
    layer, heads = run.model.bert.encoder.layer[1], run.model.config.num_attention_heads
    x = out.hidden_states[1][0]
    with torch.no_grad():
        rows = layer.attention.self.key(x).unflatten(-1, (heads, -1)).norm(dim=-1) / x.norm(dim=-1)[:, None]
    np.testing.assert_allclose(found["growth"][1, 1], rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found["grown"][1, 1], (rows > 1).double().mean(0), atol=1e-6)


def test_the_largest_values_are_those_of_each_heads_map(run):
    found = variant_measures.largest_values(run.model)
    attention, heads = run.model.bert.encoder.layer[1].attention.self, run.model.config.num_attention_heads
    for i, name in enumerate(("query", "key", "value")):
        by_head = getattr(attention, name).weight.detach().numpy().reshape(heads, -1, run.model.config.hidden_size)
        np.testing.assert_allclose(found[i, 1], np.linalg.norm(by_head, 2, axis=(1, 2)), rtol=1e-4)


def test_a_run_is_measured_beside_its_control(run, monkeypatch):
    def always_right(model, tokenizer, sequences):
        labels = {gene.bases: gene.label for gene in run.data.genes}
        return torch.eye(8)[[run.data.labels.index(labels[bases]) for bases in sequences]]

    monkeypatch.setattr(variant_measures.dna_classifier, "predict", always_right)
    arrays, values, genes = variant_measures.measure_run(run, 1, pad_to=24)
    assert [gene.label for gene in genes] == list(run.data.labels)
    assert arrays["gates"].shape == arrays["control_gates"].shape == (8, 2, 2, len(gates.GATES))
    assert not np.allclose(arrays["cone"], arrays["control_cone"])
    assert arrays["profile"].shape[:2] == (8, len(variant_columns.MASSES))
    assert all(np.isfinite(v.value) for v in values.values())
    ratios = variant_columns.by_sequence(arrays["profile"], arrays["profile_marks"], "received")[:, 2]
    assert ratios[:, 0].mean() == pytest.approx(values["received_telling"].value, abs=1e-4)
    assert (ratios[:, 1] <= 1).all()
    assert (ratios[:, 2] >= 1).all()
    assert values["received_telling_chance_low"].value < 1 < values["received_telling_chance_high"].value


def test_a_run_is_measured_where_it_was_opened(run, variant_folder, monkeypatch):
    def of_train(data, test, *_):  # right or wrong does not matter here
        return [next(int(i) for i in data.parts.train if data.genes[i].label == label) for label in data.labels[:2]]

    monkeypatch.setattr(variant_measures, "correct", of_train)
    due, values, _ = variant_measures.measure_run(run, 1, most=8, pad_to=24)
    with pretended():
        there = variant_measures.open_run(variant_folder, device=GPU)
        found, marked, _ = variant_measures.measure_run(there, 1, most=8, pad_to=24)
        norms = variant_measures.largest_values(there.model)
        assert there.model.device.type == there.control().device.type == GPU.type
    assert set(found) == set(due)
    for name, array in due.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=name)
    assert {n: v.value for n, v in marked.items()} == pytest.approx({n: v.value for n, v in values.items()}, rel=1e-3)
    np.testing.assert_allclose(norms, variant_measures.largest_values(run.model), rtol=1e-5)


def test_marked_columns_are_found_enriched(run):
    genes = [run.data.genes[i] for i in run.data.parts.test[:8]]
    marked = variant_columns.marks(run.data, genes)

    def masses(kind, weight):
        return [
            {mass: np.concatenate([[0.5], 1 + weight * m[kind]])[None] for mass in variant_columns.MASSES}
            for m in marked
        ]

    values = variant_columns.summarise(run.data, genes, masses("site", 9.0))
    assert values["columns_site"].value > values["columns_site_chance_high"].value > 1
    flat = variant_columns.summarise(run.data, genes, masses("site", 0.0))
    assert flat["columns_site"].value == pytest.approx(1)
    assert isinstance(flat["columns_on_class"], Value)
    assert flat["columns_on_class"].value == pytest.approx(np.mean([0.5 / (0.5 + len(m["site"])) for m in marked]))


def test_correct_chooses_right_ones_only(run):
    test = run.data.parts.test
    due = np.eye(8)[[run.data.labels.index(run.data.genes[i].label) for i in test]]
    chosen = variant_measures.correct(run.data, test, due, 1)
    assert [run.data.genes[i].label for i in chosen] == list(run.data.labels)
    wrong = due.copy()
    wrong[[i for i, row in enumerate(due) if row[3]]] = np.eye(8)[0]
    with pytest.raises(ValueError, match=f"only 0 sequences of {run.data.labels[3]}"):
        variant_measures.correct(run.data, test, wrong, 1)


def test_sets_keep_the_evidence_that_they_name(run):
    sets = variant_seeds.make_sets(run.data, BACKBONES, 0, fresh=16)
    assert tuple(sets) == variant_seeds.SETS
    assert not any(GAP in gene.aligned for gene in sets["only substitutions"])
    assert any(GAP in gene.aligned for gene in sets["only deletions"])
    assert not {gene.clade for gene in sets["new clades"]} - {f"{b.name}/{i}" for b in BACKBONES for i in range(6)}
    assert {g.bases for g in sets["new clades"]}.isdisjoint(g.bases for g in run.data.genes)
    table = variant_seeds.confuse(run.model, run.data, sets["new clades"])
    assert table.sum() == 16
    assert (table.sum(1) == 2).all()


def test_whom_a_classifier_follows_that_reads_deletions_only(run, monkeypatch):
    gaps = {b.label: b.aligned.count(GAP) for b in BACKBONES}

    def by_length(model, tokenizer, sequences):
        named = [min(gaps, key=lambda label: abs(180 - gaps[label] - len(bases))) for bases in sequences]
        return torch.eye(8)[[run.data.labels.index(label) for label in named]]

    monkeypatch.setattr(variant_seeds.dna_classifier, "predict", by_length)
    found = variant_seeds.follow(run.model, run.data, BACKBONES)
    assert found["exchanged_deletions"].value > found["exchanged_bases"].value


def test_runs_are_found_where_they_lie(variant_folder, monkeypatch, tmp_path):
    monkeypatch.setenv(variant_seeds.RUNS, str(variant_folder.parent))
    card = json.loads((variant_folder / "report.json").read_text())
    recipe = dna_classifier.Recipe(**card["recipe"])
    assert variant_seeds.find_run(variant_folder.name, card["seed"], recipe=recipe) == variant_folder
    for seed, other in ((card["seed"] + 1, recipe), (card["seed"], replace(recipe, steps=recipe.steps + 1))):
        with pytest.raises(ValueError, match=rf"{variant_folder.name} holds seed {card['seed']} of"):
            variant_seeds.find_run(variant_folder.name, seed, recipe=other)
    monkeypatch.setenv(variant_seeds.RUNS, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=160, steps=2, warmup=1)
    made = variant_seeds.find_run("new", recipe=recipe)
    assert (made / "report.json").exists()
    assert np.load(made / "trace.npz")["gates"].shape[0] >= 2


def test_data_that_do_not_fit_the_vocabulary_are_refused(run, variant_folder, monkeypatch):
    other = replace(run.data, tokenizer=dna_classifier.build_tokenizer([run.data.genes[0].bases]))
    monkeypatch.setattr(variant_measures.dna_classifier, "make_data", lambda *_: other)
    with pytest.raises(ValueError, match="another vocabulary"):
        variant_measures.open_run(variant_folder)
