"""What the records of the variant classifier count: marks, tables of confusion, seeds, controls, real lineages."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.lab import dna_probe
from book.lab.dna import sites
from book.lab.dna.fasta import GAP, Gene
from book.lab.dna.simulate import invent_backbones
from book.lab.dna.splits import Split
from book.lab.training import dna_classifier
from book.publish import choose_inputs
from book.studies.shared import variant_columns, variant_measures, variant_seeds
from book.studies.variant_classifier import base, controls
from tests.analysis.fake_device import GPU, pretended

BACKBONES = invent_backbones(0, codons=60)
NO_MODEL = torch.nn.Module()  # where what it predicts is given


@pytest.fixture(scope="module")
def traced(tmp_path_factory, variant_data):
    """A folder with the trace that a seed's folder has."""
    out = tmp_path_factory.mktemp("traced")
    dna_classifier.train(
        dna_classifier.shortened(dna_classifier.TINY, sequences=160, steps=12, batch=8, warmup=2),
        out,
        data=variant_data,
        probe=dna_probe.make_probe(variant_data),
        probe_at=(0, 6),
    )
    return out


@pytest.fixture
def small(monkeypatch, variant_data):
    """Let experiments have the short gene, few sequences, and a classifier that is always right."""
    labels = {gene.bases: gene.label for gene in variant_data.genes}

    def mostly_right(model, tokenizer, sequences, *_, **__):
        return torch.eye(8)[[variant_data.labels.index(labels.get(bases, "Mu")) for bases in sequences]]

    monkeypatch.setattr(dna_classifier, "make_data", lambda *_, **__: variant_data)
    monkeypatch.setattr(dna_classifier, "predict", mostly_right)
    monkeypatch.setattr(variant_seeds, "invent_backbones", lambda seed: BACKBONES)
    monkeypatch.setattr(variant_seeds, "FRESH", 16)
    return variant_data


# --- marks


def gene(name, aligned, label, lineage):
    return Gene(name, aligned.replace(GAP, ""), label, lineage, aligned=aligned)


@pytest.fixture
def marked():
    """Three classes of two lineages on 39 columns: B has a substitution, C a deletion; four words a sequence."""
    plain = ("ACGTTGCATCCA" * 4)[:39]
    rows = {"A": plain, "B": plain[:14] + "T" + plain[15:], "C": plain[:22] + "---" + plain[25:]}
    genes = [
        gene(f"{label}{lineage}{i}", row, label, f"{label}{lineage}")
        for label, row in rows.items()
        for lineage in (1, 2)
        for i in range(6)
    ]
    odd = rows["A"][:1] + "TTTT" + rows["A"][5:]  # a private change: a rare word
    genes.append(gene("odd", odd, "A", "A1"))
    everything = np.arange(len(genes))
    return dna_classifier.Data(genes, Split(everything, everything, everything), None, ("A", "B", "C"), "here")


def test_marks_are_where_classes_differ(marked):
    plain, b, c, odd = variant_columns.marks(marked, [marked.genes[i] for i in (0, 12, 24, -1)])
    assert {kind: m.tolist() for kind, m in b.items()} == {
        "site": [False, True, False, False],
        "any site": [False, True, True, False],  # words from 9 and 18 on
        "telling": [False, True, False, False],
        "rare": [False] * 4,
    }
    assert {kind: m.tolist() for kind, m in c.items()} == {
        "site": [False, False, True],
        "any site": [False, True, True],
        "telling": [False, False, True],
        "rare": [False] * 3,
    }
    assert not plain["site"].any()
    assert plain["any site"].tolist() == [False, True, True, False]
    assert not plain["telling"].any()  # what A has, another class has as well
    assert odd["rare"].tolist() == [True, False, False, False]
    new = variant_columns.marks(marked, [gene("new", "T" * 39, "A", "A1")])[0]
    assert new["rare"].all()


def test_marks_rest_on_the_training_part_alone(marked):
    only_a = replace(marked, parts=Split(np.arange(12), np.arange(12, 37), np.arange(12, 37)))
    found = variant_columns.marks(only_a, [marked.genes[0]])[0]
    assert not found["any site"].any()
    assert found["telling"].all()  # all twelve that have these words are of one class


def test_a_consensus_is_the_commonest_letter_and_never_n():
    rows = [
        ("x", "A", "one", "AC-T"),
        ("y", "A", "one", "AC-N"),
        ("z", "A", "one", "GCTN"),
        ("w", "A", "two", "TTTT"),
        ("v", "B", "one", "GGGG"),
    ]
    found = variant_columns.consensuses([gene(name, aligned, label, lineage) for name, label, lineage, aligned in rows])
    assert [(b.label, b.name, b.aligned) for b in found] == [
        ("A", "one", "AC-T"),
        ("A", "two", "TTTT"),
        ("B", "one", "GGGG"),
    ]


def test_consensuses_of_simulated_sequences_are_their_backbones(variant_data):
    found = {b.name: b.aligned for b in variant_columns.consensuses(variant_data.genes)}
    due = {b.name: b.aligned for b in BACKBONES}
    often = Counter(g.lineage for g in variant_data.genes)
    apart = [sum(a != b for a, b in zip(found[name], due[name])) for name in found if often[name] >= 12]
    assert apart
    assert np.mean(apart) < 1.5


# --- counting


def test_accuracy_is_the_diagonals_share():
    value = variant_seeds.accuracy_value(np.array([[3, 1], [0, 4]]))
    assert (value.value, value.n) == (7 / 8, 8)
    assert value.low < 0.6 < value.value < value.high < 1


def test_confusions_have_the_truth_in_rows(monkeypatch, variant_data):
    genes = [variant_data.genes[i] for i in variant_data.parts.test[:16]]
    monkeypatch.setattr(
        variant_seeds.dna_classifier, "predict", lambda model, tokenizer, sequences: torch.eye(8)[[2] * len(sequences)]
    )
    table = variant_seeds.confuse(NO_MODEL, variant_data, genes)
    often = Counter(g.label for g in genes)
    assert table[:, 2].tolist() == [often[label] for label in variant_data.labels]
    assert table.sum() == 16
    sets = {name: genes[: k + 1] for k, name in enumerate(variant_seeds.SETS)}
    assert variant_seeds.confuse_all(NO_MODEL, variant_data, dict(reversed(sets.items()))).sum((1, 2)).tolist() == [
        1,
        2,
        3,
        4,
        5,
    ]


@pytest.mark.parametrize(("reads", "due"), [("bases", (1, 0)), ("deletions", (0, 1)), ("neither", (0, 0))])
def test_whom_a_classifier_follows_is_counted_exactly(monkeypatch, variant_data, reads, due):
    class_of = {}

    def seen(genes, fill, *_):
        made = [(replace(g, bases=g.bases + "A" * i), "Mu" if g.label != "Mu" else "Beta") for i, g in enumerate(genes)]
        class_of.update(
            {
                "bases": {g.bases: g.label for g, _ in made},
                "deletions": {g.bases: d for g, d in made},
                "neither": {g.bases: "Lambda" if g.label == "Gamma" else "Gamma" for g, _ in made},
            }
        )
        return [pair for pair in made if pair[0].label != "Lambda"]

    monkeypatch.setattr(variant_seeds, "exchanged", seen)
    monkeypatch.setattr(
        variant_seeds.dna_classifier,
        "predict",
        lambda model, tokenizer, sequences: torch.eye(8)[
            [variant_data.labels.index(class_of[reads][bases]) for bases in sequences]
        ],
    )
    found = variant_seeds.follow(NO_MODEL, variant_data, BACKBONES, 24)
    assert (found["exchanged_bases"].value, found["exchanged_deletions"].value) == due
    assert found["exchanged_bases"].n < 24


def test_far_clades_are_further_from_their_lineage(variant_data):
    sets = variant_seeds.make_sets(variant_data, BACKBONES, 0, fresh=160)
    rows = {b.name: b.aligned for b in BACKBONES}

    def apart(genes):
        return np.mean([sum(a not in (b, "N") for a, b in zip(g.aligned, rows[g.lineage])) for g in genes])

    assert apart(sets["new clades"]) == pytest.approx(5, abs=1)  # 3 shared and 2 of its own
    assert apart(sets["far clades"]) == pytest.approx(14, abs=2)  # 12 and 2; a few columns are hit twice
    other = variant_seeds.make_sets(variant_data, BACKBONES, 1, fresh=16)
    assert {g.bases for g in other["far clades"]}.isdisjoint(g.bases for g in sets["far clades"])


# --- seeds and real lineages, end to end on two layers


def test_one_seed_is_evaluated_and_measured(small, traced, monkeypatch):
    monkeypatch.setattr(variant_seeds, "find_run", lambda name, seed, device: traced)
    values, arrays = variant_seeds.one(0, torch.device("cpu"))
    card = json.loads((traced / "report.json").read_text())
    for part in ("validation", "test"):
        assert values[f"whole_{part}"].value == pytest.approx(card[part])
        assert values[f"whole_{part}"].n == len(getattr(small.parts, part))
    assert values["test"].value == 1  # always right on what it knows
    assert values["new_clades"].value == pytest.approx(1 / 8)  # and names Mu otherwise
    assert arrays["confusion"].sum((1, 2)).tolist() == [len(small.parts.test)] + [48] * 4
    assert arrays["gates"].shape[:3] == (8, 2, 2)
    assert arrays["enriched"].shape == (8, len(variant_columns.MARKS), 3)
    assert arrays["trace_step"].tolist() == [0, 6, 12]
    assert set(variant_seeds.KEPT) <= set(arrays)
    assert (arrays["padded_cone"] > 2 * arrays["cone"]).all()  # 512 rows instead of some 30, all drawn one way
    assert arrays["maps"].shape == (3, 2, 2)
    assert "columns_telling" in values or "received_telling" in values


def test_seeds_stand_side_by_side(monkeypatch):
    def one(seed, device):
        return {"test": variant_seeds.accuracy_value(np.eye(2, dtype=int) * (seed + 1))}, {
            "cone": np.full((8, 2), seed),
            "confusion": np.full((5, 2, 2), seed),
            "enriched": np.full((8, 4, 3), seed),
            "trace_loss": np.full(4, seed),
        }

    monkeypatch.setattr(variant_seeds, "one", one)
    found = variant_seeds.compute(torch.device("cpu"))
    assert [found.values[f"test_{seed}"].n for seed in variant_seeds.SEEDS] == [2, 4, 6]
    assert found.arrays["cone"][:, 0, 0].tolist() == list(variant_seeds.SEEDS)
    assert set(found.tolerances) == set(found.arrays)
    assert all(found.tolerances.values())


# --- controls and phases


def test_untrained_models_are_those_that_training_began_with(small, traced):
    control = controls.untrained(0, dna_classifier.shortened(dna_classifier.TINY, sequences=160))
    due = variant_measures.open_run(traced).control(0)
    assert all(torch.equal(a, b) for a, b in zip(control.model.parameters(), due.parameters(), strict=True))
    other = controls.untrained(1, dna_classifier.TINY)
    assert not torch.equal(control.model.classifier.weight, other.model.classifier.weight)
    assert not control.model.training


def test_controls_are_measured_class_by_class(small):
    run = controls.untrained(0, dna_classifier.TINY)
    found = controls.one(0, run)
    first = controls.firsts(run.data)
    assert [g.label for g in first] == list(run.data.labels)
    assert [g.name for g in first] == [
        next(run.data.genes[i].name for i in run.data.parts.test if run.data.genes[i].label == label)
        for label in run.data.labels
    ]
    assert found["cone"].shape == (8, 2)
    assert found["gates"].shape[0] == found["profile"].shape[0] == len(controls.READ)
    again = variant_measures.survey(run.model, run.data, [first[3]], pad_to=None)[0]
    assert found["cone"][3] == pytest.approx(again["cone"], rel=1e-5)
    at = [label for label in run.data.labels if label in controls.READ].index(first[3].label)
    assert found["gates"][at] == pytest.approx(again["gates"], abs=1e-4)
    sums = controls.many_sums(2, run.data, dna_classifier.TINY)
    last = variant_measures.survey(run.model, run.data, first[-1:], read=False, pad_to=None)[0]
    assert sums[0] == pytest.approx(last["D_sum"], abs=1e-4)
    assert not np.allclose(sums[0], sums[1])


@pytest.mark.slow
def test_controls_and_seeds_are_measured_on_the_device(small, traced, monkeypatch):
    whole, firsts, correct, passes = (
        controls.untrained,
        controls.firsts,
        variant_measures.correct,
        variant_measures.pass_all,
    )
    used = []

    def untrained(seed, _=None, data=None, device="cpu"):
        used.append(torch.device(device))
        return whole(seed, dna_classifier.TINY, data, device)

    def pass_all(model, inputs):
        used.append(model.device)
        return passes(model, inputs)

    for module, name, few in (
        (controls, "untrained", untrained),
        (controls, "MANY", 2),
        (variant_seeds, "SEEDS", (0,)),
        (controls, "READ", ("Alpha",)),
        (controls, "firsts", lambda data: firsts(data)[:2]),
        (variant_measures, "correct", lambda *given: correct(*given)[:2]),
        (variant_measures, "pass_all", pass_all),
        (variant_seeds, "find_run", lambda *_, device: used.append(device) or traced),
    ):
        monkeypatch.setattr(module, name, few)

    def computed(device):
        return controls.compute(device), variant_seeds.compute(device)

    due = computed(torch.device("cpu"))
    assert {used.pop() for _ in range(len(used))} == {torch.device("cpu")}
    with pretended():
        found = computed(GPU)
    assert set(used) == {GPU}
    for mine, right in zip(found, due, strict=True):
        for name, array in right.arrays.items():
            np.testing.assert_allclose(mine.arrays[name], array, rtol=1e-3, atol=1e-3, err_msg=name)


def test_attention_within_a_phase(small):
    run = controls.untrained(0, dna_classifier.TINY)
    shifted = next(g for g in run.data.genes if len(np.unique(sites.token_phases(g))) > 1)
    found = controls.survey(run.model, run.data, [shifted])
    phase = sites.token_phases(shifted)
    with torch.no_grad():
        maps = (
            run.model(**{k: v for k, v in run.data.encode([shifted]).items() if k != "labels"}, output_attentions=True)
            .attentions[1][0, 1]
            .numpy()[1:, 1:]
        )
    due = sum(maps[i, j] for i in range(len(maps)) for j in range(len(maps)) if phase[i] == phase[j]) / maps.sum()
    assert found["within"][0, 1, 1] == pytest.approx(due, rel=1e-4)
    assert found["pairs"][0] == pytest.approx(np.mean([a == b for a in phase for b in phase]))
    even = torch.full((2, len(phase), len(phase)), 0.1)
    assert controls.kept_within(even, phase).tolist() == pytest.approx([found["pairs"][0]] * 2)
    with pytest.raises(ValueError, match="groups must be"):
        controls.kept_within(even, phase[1:])


def test_the_course_of_a_training_is_read_off_its_losses():
    learned, lost = np.full(100, 2.0), np.full(300, 1e-4)
    assert base.course(np.concatenate([learned, lost])) == (100, 400)
    assert base.course(learned) == (100, 100)
    assert base.course(np.concatenate([learned, lost, learned])) == (100, 412)


def test_the_one_large_training_learned_and_lost():
    large, sentence = base.read_base_training(choose_inputs(device="cpu"), 8)
    assert "variant-classifier-base-training" in sentence
    assert large.learned < large.last_right < large.lost < large.updates
    assert large.losses[0][large.learned * base.PIECES // large.updates + 1] < base.LEARNED
    assert large.end_loss > 100 * base.LEARNED
    assert large.guess_loss == pytest.approx(np.log(8))


def test_the_record_of_a_training_is_made_of_its_folder(traced, monkeypatch):
    monkeypatch.setattr(base.checkpoints, "find", lambda name: SimpleNamespace(folder=traced))
    monkeypatch.setattr(base, "PIECES", 4)
    result = base.compute_base_training(torch.device("cpu"))
    card = json.loads((traced / "report.json").read_text())
    with np.load(traced / "trace.npz") as trace:
        assert result.array("losses")[1].max() == trace["loss"].max()
        assert len(result.array("validation")) == len(trace["step"])
    assert (result["test"], result["steps"]) == (card["test"], card["steps"])
