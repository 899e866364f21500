"""Trained classifiers of variants: where they are found, what is asked of them, and how far a number may differ."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.lab.dna.fasta import Gene
from book.lab.dna.splits import Split
from book.lab.training import dna_classifier
from book.studies.shared import variant_columns, variant_fine_tuned, variant_measures, variant_seeds
from book.studies.shared.variant_columns import MARKS, MASSES
from tests.book.studies.known import double


def gene(name: str, bases: str = "A", label: str = "x", **more: str) -> Gene:
    return Gene(name, bases, label, **more)


def data_of(genes: list[Gene], *, train=(), validation=(), test=(), labels=("x", "y")) -> dna_classifier.Data:
    parts = Split(*(np.array(part, int) for part in (train, validation, test)))
    return dna_classifier.Data(genes, parts, "tokenizer", labels, "here")


# ---- how far a number may differ on another machine


def test_arrays_have_the_tolerance_of_what_they_measure():
    due = {"first_failing": 0.03, "bare_failing": 0.03, "grown": 0.03, "cone": 5, "cone_bare": 5, "gates": 0.02}
    due |= {"largest": 0.05, "histogram": 0.05, "stable_rank": 0.05, "cosine": 0.005, "maps": 0.005}
    for prefix in ("", "control_", "padded_"):
        assert {name: variant_measures.tolerance(prefix + name) for name in due} == due
    of_seeds = {"confusion": 2, "enriched": 0.3, "trace_loss": 0.001, "trace_gates": 0.001, "gates": 0.02, "cone": 5}
    assert variant_seeds.tolerances(of_seeds) == of_seeds
    fine_tuned = {"confusion": 2, "failing_kept": 0.03, "bare_failing": 0.03, "effects": 0.05, "counts": 3}
    fine_tuned |= {"sum_kept": 0.1, "gates": 0.02, "entropy": 0.005}
    for prefix in ("", "start_", "ladder_"):
        assert {name: variant_fine_tuned.tolerance(prefix + name) for name in fine_tuned} == fine_tuned


def test_accuracies_may_differ_by_some_sequences(monkeypatch):
    data = data_of([gene(str(k), str(k), "xy"[k % 2]) for k in range(4)], validation=range(4), test=range(2))
    run = SimpleNamespace(data=data, card={"validation": 0.75, "test": 0.5}, model=None)
    monkeypatch.setattr(variant_seeds, "make_sets", lambda *_: None)
    monkeypatch.setattr(variant_seeds, "confuse_all", lambda *_: np.ones((1, 2, 2), int))
    pairs = [(each, "y" if each.label == "x" else "x") for each in data.genes[:2]]
    monkeypatch.setattr(variant_seeds, "fill_letters", lambda rows: rows)
    monkeypatch.setattr(variant_seeds, "exchanged", lambda test, fill: pairs)
    monkeypatch.setattr(variant_seeds.dna_classifier, "predict", lambda *_: torch.tensor([[0.9, 0.1], [0.8, 0.2]]))
    values, _ = variant_seeds.score_run(run, 0)
    assert {name: value.tolerance for name, value in values.items()} == {
        "whole_validation": 0.01,
        "whole_test": 0.01,
        "test": 0.01,
        "exchanged_bases": 0.02,
        "exchanged_deletions": 0.02,
    }
    follows = values["exchanged_bases"]
    assert (follows.value, follows.n) == (0.5, 2)
    assert (follows.low, follows.high) == pytest.approx((1 - 0.975**0.5, 0.975**0.5))  # one of two


def test_columns_at_marked_words_are_compared_with_those_at_all_words(monkeypatch, tmp_path):
    profile = np.array([[[1.0, 2, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]])  # columns, received, row of the class
    marked = np.array([[[0, 1, 0, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0]]], dtype=bool)
    measured = dict.fromkeys(variant_seeds.KEPT, np.ones(1)) | {"profile": profile, "profile_marks": marked}
    run = SimpleNamespace(model=None)
    monkeypatch.setattr(variant_measures, "open_run", lambda folder, device: run)
    monkeypatch.setattr(variant_seeds, "score_run", lambda run, seed: ({}, np.eye(2)))
    monkeypatch.setattr(variant_measures, "measure_run", lambda *_, **__: (measured, {}, None))
    monkeypatch.setattr(variant_measures, "largest_values", lambda model: np.ones(1))
    np.savez(tmp_path / "trace.npz", **dict.fromkeys(variant_seeds.TRACED, np.ones(1)))
    _, arrays = variant_seeds.measure_folder(tmp_path, 0)
    assert arrays["enriched"][0, :, 0].tolist() == [2, 1, 0.5, 0]  # nothing is marked for the last


def test_ratios_of_columns_may_differ_and_shares_of_words_may_not(monkeypatch):
    marked = [dict.fromkeys(MARKS, np.array([True, False]))] * 2
    monkeypatch.setattr(variant_columns, "marks", lambda data, genes: marked)
    weights = np.array([[2.0, 1, 1], [2.0, 3, 1]])  # one layer is as much as the other
    values = variant_columns.summarise(None, [None, None], [dict.fromkeys(MASSES, weights)] * 2)
    tolerances = {name: (value.tolerance, value.n) for name, value in values.items()}
    for mass in MASSES:
        assert tolerances[f"{mass}_on_class"] == (0.01, 2)
        assert tolerances[f"{mass}_any_site"] == (0.05, 2)
        for bound in ("low", "high"):
            assert tolerances[f"{mass}_any_site_chance_{bound}"] == (0.05, variant_columns.DRAWS)
    assert tolerances["tokens_rare"] == (1e-9, 2)
    assert values["columns_on_class"].value == pytest.approx(2 / 5)
    assert values["columns_site"].value == pytest.approx(2 / 1.5)


def test_sequences_without_columns_are_left_out(monkeypatch):
    some, none, every = np.array([True, False, False]), np.zeros(3, bool), np.ones(3, bool)
    of_kinds = [some, every, none, some], [some, every, every, some], [some, every, every, every]
    marked = [dict(zip(MARKS, kinds, strict=True)) for kinds in of_kinds]
    monkeypatch.setattr(variant_columns, "marks", lambda data, genes: marked)
    weights = [[1.0, 2, 1, 0], [0.0, 1, 1, 1], [5.0, 0, 0, 0]]  # the third has all on [CLS]
    measured = [dict.fromkeys(MASSES, np.array([row])) for row in weights]
    values = variant_columns.summarise(None, [None] * 3, measured)
    assert (values["columns_on_class"].value, values["columns_on_class"].n) == (pytest.approx((1 / 4 + 0 + 1) / 3), 3)
    assert (values["columns_site"].value, values["columns_site"].n) == (pytest.approx((2 + 1) / 2), 2)
    assert "columns_telling" not in values  # of one sequence with columns
    assert values["tokens_telling"].value == pytest.approx(2 / 3)
    assert values["columns_site_chance_high"].value == pytest.approx(1.5)  # (2 + 1) / 2; the least is (0 + 1) / 2
    assert values["columns_site_chance_low"].value == pytest.approx(0.5)


def test_no_sequence_has_columns_at_all(monkeypatch):
    monkeypatch.setattr(variant_columns, "marks", lambda *_: [dict.fromkeys(MARKS, np.ones(2, bool))] * 2)
    measured = [dict.fromkeys(MASSES, np.zeros((1, 3)))] * 2
    assert set(variant_columns.summarise(None, [None] * 2, measured)) == {
        f"tokens_{kind.replace(' ', '_')}" for kind in MARKS
    }


def test_one_sequence_alone_has_no_interval(monkeypatch):
    monkeypatch.setattr(variant_columns, "marks", lambda *_: [dict.fromkeys(MARKS, np.array([True, False]))])
    values = variant_columns.summarise(None, [None], [dict.fromkeys(MASSES, np.ones((1, 3)))])
    assert set(values) == {f"tokens_{kind.replace(' ', '_')}" for kind in MARKS}


def test_lineages_stand_in_the_order_of_their_classes():
    names = [("y", "b"), ("x", "d"), ("y", "a"), ("x", "c")]
    genes = [gene(str(k), label=label, lineage=lineage, aligned="AC-T") for k, (label, lineage) in enumerate(names)]
    found = variant_columns.consensuses(genes)
    assert [(one.label, one.name) for one in found] == [("x", "c"), ("x", "d"), ("y", "a"), ("y", "b")]


# ---- where trained classifiers lie

TINY = dna_classifier.shortened(dna_classifier.TINY, steps=12)


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Let nothing be trained, and keep what would be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variant_seeds.RUNS, str(tmp_path / "kept"))
    calls = []
    monkeypatch.setattr(variant_seeds.dna_classifier, "make_data", lambda *given: ("data", *given))
    monkeypatch.setattr(
        variant_seeds.dna_classifier, "train", lambda recipe, out, **options: calls.append((recipe, out, options))
    )
    monkeypatch.setattr(variant_seeds.dna_probe, "make_probe", lambda data: ("probe", data))
    monkeypatch.setattr(variant_seeds.dna_probe, "at", lambda steps: ("at", steps))
    monkeypatch.setattr(variant_seeds.checkpoints, "find", lambda name: SimpleNamespace(folder=f"bundled {name}"))
    return calls


def test_the_first_seed_around_the_invented_gene_is_the_bundled_one(trained):
    assert variant_seeds.find_run("seed0") == "bundled variant-bert-mini"
    for other in ({"seed": 1}, {"recipe": TINY}, {"folder": Path("lineages")}):
        assert variant_seeds.find_run("own", **other) == Path("runs", "own")
    assert [options["seed"] for _, _, options in trained] == [1, 0, 0]
    assert [options["data"][1:] for _, _, options in trained] == [
        (dna_classifier.MINI, 1, None),
        (TINY, 0, None),
        (dna_classifier.MINI, 0, Path("lineages")),
    ]


def test_what_is_missing_is_trained_and_looked_at(trained):
    assert variant_seeds.find_run("own", 3, recipe=TINY, device="there") == Path("runs", "own")
    variant_seeds.find_run("own", 3, recipe=TINY, watch=False)
    data = ("data", TINY, 3, None)
    (recipe, out, watched), (*_, unwatched) = trained
    assert (recipe, out) == (TINY, Path("runs", "own"))
    assert watched == {
        "seed": 3,
        "device": "there",
        "data": data,
        "probe": ("probe", data),
        "probe_at": ("at", TINY.steps),
    }
    assert list(unwatched["probe_at"]) == [0, 3, 6, 9]  # 12 updates in at most five looks
    assert "probe" not in unwatched


def test_a_kept_run_comes_before_one_in_this_folder(trained, tmp_path):
    for place in ("kept", "runs"):
        folder = tmp_path / place / "own"
        folder.mkdir(parents=True)
        card = {"seed": 3, "recipe": TINY.__dict__}
        (folder / "report.json").write_text(json.dumps(card))
    assert variant_seeds.find_run("own", 3, recipe=TINY) == tmp_path / "kept" / "own"
    (tmp_path / "kept" / "own" / "report.json").unlink()
    assert variant_seeds.find_run("own", 3, recipe=TINY) == Path("runs", "own")
    assert trained == []


# ---- what they are asked


def test_sets_are_of_other_seeds_and_far_clades_have_four_times_as_many_changes(monkeypatch):
    monkeypatch.setattr(
        variant_seeds, "simulate", lambda backbones, count, seed, **more: [(backbones, count, seed, more)]
    )
    for name in ("only_substitutions", "only_deletions"):
        monkeypatch.setattr(variant_seeds, name, lambda backbones, name=name: name)
    data = data_of([gene(str(k)) for k in range(9)], test=[1, 3, 5, 7, 8, 0])
    found = variant_seeds.make_sets(data, "backbones", 4, 3)
    assert [one.name for one in found.pop("test")] == ["1", "5", "8"]
    assert found == {
        "new clades": [("backbones", 3, 10_004, {})],
        "far clades": [("backbones", 3, 20_004, {"shared": 12.0})],
        "only substitutions": [("only_substitutions", 3, 10_004, {})],
        "only deletions": [("only_deletions", 3, 10_004, {})],
    }


def test_fewer_sequences_than_are_asked_for_are_all_taken():
    genes = [gene(name) for name in "abcdefg"]
    assert [one.name for one in variant_seeds.thin(genes, 3)] == ["a", "c", "e"]
    assert variant_seeds.thin(genes, 9) == genes


def test_the_true_class_is_in_the_row_and_the_named_one_in_the_column():
    data = data_of([], labels=("x", "y", "z"))
    genes = [gene("1", label="x"), gene("2", label="x"), gene("3", label="z"), gene("4", label="x")]
    named = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3]])
    assert variant_seeds.tally(data, genes, named).tolist() == [[1, 2, 0], [0, 0, 0], [0, 1, 0]]


def test_sequences_are_chosen_among_the_first_that_are_named_rightly(monkeypatch):
    genes = [gene(str(k), str(k), label) for k, label in enumerate("xxxyyyxy")]
    run = variant_measures.Run("model", data_of(genes, test=[7, 0, 3, 1, 4, 2, 5]), {}, None)
    wrong = {"0", "7"}

    def predict(model, tokenizer, sequences):
        named = ["xy".index(genes[int(each)].label) ^ (each in wrong) for each in sequences]
        return torch.eye(2)[named]

    monkeypatch.setattr(variant_measures.dna_classifier, "predict", predict)
    assert [one.name for one in variant_measures.choose(run, 2)] == ["1", "2", "3", "4"]
    assert [one.name for one in variant_measures.choose(run, 1, 4)] == ["1", "3"]
    with pytest.raises(ValueError, match="only 1 sequences of x"):
        variant_measures.choose(run, 2, 5)


def test_gates_of_a_sequence_are_read_where_they_are_asked_for(monkeypatch):
    data = SimpleNamespace(encode=lambda genes, pad_to: (genes, pad_to))
    monkeypatch.setattr(variant_measures, "measure", lambda model, inputs, read: (*inputs, read))
    assert variant_measures.survey("model", data, ["a", "b"]) == [(["a"], 512, True), (["b"], 512, True)]
    assert variant_measures.survey("model", data, ["a", "b"], read=False, pad_to=None) == [
        (["a"], None, False),
        (["b"], None, False),
    ]
    assert [each[-1] for each in variant_measures.survey("model", data, ["a", "b"], read=[False, True])] == [0, 1]
    with pytest.raises(ValueError, match="shorter"):
        variant_measures.survey("model", data, ["a", "b"], read=[True])


def test_what_stands_by_key_is_not_stacked():
    names = ("received", "class_row", "columns", "probabilities")
    first = {"cone": np.array([1.0, 2]), "gates": np.array([3.0])} | {name: np.ones(3) for name in names}
    second = {"cone": np.array([5.0, 6])} | {name: np.ones(4) for name in names}
    found = variant_measures.stack([first, second], "control_")
    assert {name: array.tolist() for name, array in found.items()} == {
        "control_cone": [[1, 2], [5, 6]],
        "control_gates": [[3]],
    }
    assert found["control_cone"].dtype == np.float32


def test_columns_of_a_layer_are_means_over_heads(monkeypatch):
    columns = {1: double([3, 0], [1, 4]), 2: double([5, 2], [0, 0])}
    scores = {layer: double([layer, 0], [0, layer]) for layer in columns}
    monkeypatch.setattr(
        variant_measures.gates, "read_gates", lambda k: SimpleNamespace(scores=scores[k], columns=columns[k])
    )
    before = torch.get_num_threads()
    of_scores, of_columns = variant_measures.read_layers([1, 2])
    assert of_columns.tolist() == [[2, 2], [2.5, 1]]
    assert of_scores.tolist() == [[[1, 0], [0, 1]], [[2, 0], [0, 2]]]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("padded", [True, False])
def test_one_sequence_is_measured_with_and_without_its_padding(monkeypatch, padded):
    """Three layers of two heads; two tokens, and a row of padding or none."""
    n = 3 if padded else 2
    keep = torch.arange(n) < 2
    maps = torch.arange(2.0 * n * n).reshape(2, n, n)
    stations = [
        SimpleNamespace(x=torch.full((n, 1), 1.0 * k), attention=maps + k, second=torch.full((n, 1), 2.0 * k))
        for k in range(3)
    ]
    monkeypatch.setattr(variant_measures, "pass_all", lambda model, inputs: (stations, keep))
    names = {*variant_measures.KEPT, *variant_measures.PADDED, "further"}

    def measure(passed, kept, padding=False):
        assert passed is stations
        assert kept is keep
        return {name: double(len(name) + 100 * padding) for name in names}

    monkeypatch.setattr(variant_measures.layer_profile, "measure", measure)
    layers = [SimpleNamespace(attention=f"weights {k}") for k in range(3)]
    monkeypatch.setattr(variant_measures, "load", lambda model: SimpleNamespace(encoder_layers=lambda: layers))

    def amplifications(rows, weights):
        assert rows.tolist() == [[[k], [k]] for k in range(3)]
        assert weights == [f"weights {k}" for k in range(3)]
        return double([1, 3], [0.5, 1.5])

    monkeypatch.setattr(variant_measures.stretching, "amplifications", amplifications)
    monkeypatch.setattr(variant_measures, "read_layers", lambda of: (double(len(of)), of[0].double()))
    model = SimpleNamespace(classifier=lambda rows: torch.cat([rows, 0 * rows], -1))
    model.bert = SimpleNamespace(pooler=lambda rows: rows[:, 0])
    found = variant_measures.measure(model, {})
    assert {name: found[name].item() for name in variant_measures.KEPT} == {
        name: len(name) for name in variant_measures.KEPT
    }
    extra = {name: value.item() for name, value in found.items() if name.startswith("padded_")}
    assert extra == ({f"padded_{name}": len(name) + 100 for name in variant_measures.PADDED} if padded else {})
    assert (found["growth"].tolist(), found["grown"].tolist()) == ([2, 1], [0.5, 0.5])  # a row as long has not grown
    assert found["probabilities"].tolist() == pytest.approx([1 / (1 + np.exp(-4)), 1 / (1 + np.exp(4))])
    own = maps.numpy()[:, :2, :2]
    np.testing.assert_allclose(found["received"], [(own + k).mean((0, 1)) for k in range(3)])
    np.testing.assert_allclose(found["class_row"], [(own + k)[:, 0].mean(0) for k in range(3)])
    assert (found["gates"].tolist(), found["columns"].shape) == ([3], (2, 2, 2))
    assert "gates" not in variant_measures.measure(model, {}, read=False)


def test_a_control_is_read_and_drawn_for_the_first_of_each_class(monkeypatch):
    genes = [gene(name) for name in "abcd"]
    run = SimpleNamespace(model="trained", data="data", control=lambda: "control")
    asked = []
    monkeypatch.setattr(variant_measures, "choose", lambda run, each, most: asked.append((each, most)) or genes)

    def survey(model, data, some, *, read=True, pad_to):
        asked.append((model, read, pad_to))
        return [{"of": np.array([k, model == "trained"])} for k in range(len(some))]

    monkeypatch.setattr(variant_measures, "survey", survey)

    def of(name):
        return lambda data, some, measured, *prefix: {
            (name, *prefix): ([one.name for one in some], [one["of"].tolist() for one in measured])
        }

    monkeypatch.setattr(variant_measures.variant_columns, "summarise", of("told"))
    monkeypatch.setattr(variant_measures.variant_columns, "profiles", of("drawn"))
    arrays, values, chosen = variant_measures.measure_run(run, 2, most=9, pad_to=7)
    assert asked == [(2, 9), ("trained", True, 7), ("control", [True, False, True, False], 7)]
    assert chosen is genes
    assert values == {
        ("told",): (list("abcd"), [[k, 1] for k in range(4)]),
        ("told", "control_"): (["a", "c"], [[0, 0], [2, 0]]),
    }
    assert arrays.pop(("drawn",)) == (["a", "c"], [[0, 1], [2, 1]])
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "of": [[k, 1] for k in range(4)],
        "control_of": [[k, 0] for k in range(4)],
    }
    arrays, values, _ = variant_measures.measure_run(run, 1, control=False)
    assert set(arrays) == {"of", ("drawn",)}
    assert set(values) == {("told",)}
