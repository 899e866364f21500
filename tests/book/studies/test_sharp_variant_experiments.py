"""Simple classifiers, the fine-tuned one, and the records around a training: answers known by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from book.lab.dna.fasta import Gene
from book.lab.dna.splits import Split
from book.lab.training import dna_classifier
from book.publish.records import Value
from book.studies.shared import variant_baselines, variant_fine_tuned, variant_measures
from book.studies.variant_classifier import base
from book.studies.variant_data import corpus, evidence, experiments
from tests.book.studies.known import double

TINY = dna_classifier.shortened(dna_classifier.TINY, steps=12)


def gene(name: str, bases: str = "A", label: str = "x", **more: str) -> Gene:
    return Gene(name, bases, label, **more)


def data_of(genes: list[Gene], *, train=(), validation=(), test=(), labels=("x", "y")) -> dna_classifier.Data:
    parts = Split(*(np.array(part, int) for part in (train, validation, test)))
    return dna_classifier.Data(genes, parts, "tokenizer", labels, "here")


# ---- simple classifiers


def test_parts_are_training_validation_and_test(monkeypatch):
    genes = [gene(str(k)) for k in range(4)]
    parts = Split(*map(np.array, ([0, 2], [3], [1])))
    monkeypatch.setattr(variant_baselines, "split", lambda of, by, seed: parts if (by, seed) == ("clade", 0) else None)
    named = [[one.name for one in part] for part in variant_baselines.parts_of(genes, "clade")]
    assert named == [["0", "2"], ["3"], ["1"]]


def test_half_of_the_evidence_is_parted_by_clade(monkeypatch):
    for name in ("only_deletions", "only_substitutions"):
        monkeypatch.setattr(variant_baselines, name, lambda backbones, name=name: (name, backbones))
    monkeypatch.setattr(variant_baselines, "simulate", lambda backbones, count, seed: [(*backbones, count, seed)])
    monkeypatch.setattr(variant_baselines, "parts_of", lambda genes, by: [("train", *genes[0]), "validation", by])
    monkeypatch.setattr(variant_baselines, "fitted", lambda *given: given)
    rights = {"only_deletions": [1, 1, 0, 0], "only_substitutions": [1, 0, 0, 0]}

    def hits(one, test):
        name, (train, reduced, *given), validation = one
        assert (train, given, validation, test) == ("train", ["backbones", 12, 0], "validation", "clade")
        return np.array(rights[reduced], bool) & (name != "phase")

    monkeypatch.setattr(variant_baselines, "hits", hits)
    monkeypatch.setattr(variant_baselines, "unit_names", lambda test, by: [test, test, by, "other"])
    found = variant_baselines.by_evidence("backbones", 12)
    assert len(found) == 2 * len(variant_baselines.BASELINES)
    assert (found["kmers/only-deletions"].value, found["kmers/only-substitutions"].value) == (0.5, 0.25)
    assert (found["phase/only-deletions"].value, found["length/only-deletions"].n) == (0, 4)


def test_all_of_it_is_measured_on_the_same_sequences(monkeypatch):
    backbones = [SimpleNamespace(aligned=aligned) for aligned in ("AC", "AG", "AC")]
    genes = [gene(str(k)) for k in range(5)]
    monkeypatch.setattr(variant_baselines, "simulate", lambda of, count, seed: genes[:count] if seed == 0 else [])
    monkeypatch.setattr(variant_baselines, "by_split", lambda of: ({"split": len(of)}, "kept"))
    monkeypatch.setattr(variant_baselines, "fill_letters", "".join)
    monkeypatch.setattr(variant_baselines, "by_evidence", lambda of, count: {"evidence": (len(of), count)})
    monkeypatch.setattr(variant_baselines, "parts_of", lambda of, by: [len(of), by, "test"])
    monkeypatch.setattr(variant_baselines, "by_exchange", lambda *given: {"exchange": given})
    monkeypatch.setattr(variant_baselines, "by_size", lambda of: np.array([[0.25, 0.5], [0.75, 1]]))
    monkeypatch.setattr(variant_baselines, "lengths_and_phases", lambda of: {"lengths": np.array([len(of)])})
    result, kept = variant_baselines.measure(backbones, 4)
    values = dict(result.values)
    assert (values.pop("split"), values.pop("evidence"), values.pop("exchange")) == (
        4,
        (3, 4),
        ("kept", "test", "ACAGAC"),
    )
    assert {name: value.value for name, value in values.items()} == {
        "sequences": 4,
        "backbones": 3,
        "distinct_backbones": 2,
        "kmers/one-a-class": 0.5,
    }
    one = values["kmers/one-a-class"]
    assert (one.tolerance, one.n, result.tolerances) == (0.1, variant_baselines.DRAWS, {"size_accuracy": 0.1})
    assert result.array("size").tolist() == list(variant_baselines.SIZES)
    assert (result.array("size_accuracy").tolist(), result.array("lengths").tolist()) == ([[0.25, 0.5], [0.75, 1]], [4])
    assert kept == "kept"


def test_shares_that_are_exact_have_the_tolerance_of_rounding(monkeypatch):
    one = gene("1", "ACGT" * 3, "x", lineage="l")
    monkeypatch.setattr(variant_baselines, "parts_of", lambda genes, by: [[one], [], [one]])
    monkeypatch.setattr(variant_baselines, "BASELINES", {})
    values, _ = variant_baselines.by_split([])
    assert [values[f"unknown/{by}"].tolerance for by in variant_baselines.UNITS] == [1e-9] * len(
        variant_baselines.UNITS
    )
    assert experiments.on_open({}, [one], [one])["open/unknown"].tolerance == 1e-9


# ---- the fine-tuned model


def test_a_start_is_ready_to_be_measured(monkeypatch):
    def initialise(recipe, data, seed):
        model = nn.Linear(2, 2)
        model.asked = recipe.start, recipe.steps, data, seed
        return model

    monkeypatch.setattr(variant_fine_tuned.dna_classifier, "initialise", initialise)
    start, random = (variant_fine_tuned.make_model("data", 4, start) for start in (True, False))
    assert (start.asked, random.asked) == (("minilm", 500, "data", 4), ("", 500, "data", 4))
    assert variant_fine_tuned.make_model("data", 4).asked == start.asked
    assert not random.training
    assert not any(parameter.requires_grad for parameter in start.parameters())


def test_logits_are_less_their_mean_over_classes():
    model = SimpleNamespace(classifier=lambda rows: rows * 2, bert=SimpleNamespace(pooler=lambda rows: rows[:, 0]))
    assert variant_fine_tuned._logits(model, double([1, 2, 6], [9, 9, 9])).tolist() == [-4, -2, 6]


def test_a_fine_tuned_classifier_keeps_what_its_functions_return(monkeypatch):
    module, genes = variant_fine_tuned, ["one", "two"]
    measured = {name: np.array([k, k + 0.5]) for k, name in enumerate((*module.KEPT, "gates", "received"))}

    def survey(model, data, of, *, read):
        assert (model, of, read) == ("model", genes, False)
        return [{name: values[k : k + 1] for name, values in measured.items()} for k in range(2)]

    monkeypatch.setattr(module.variant_measures, "survey", survey)
    monkeypatch.setattr(module.variant_measures, "largest_values", lambda model: f"largest of {model}")
    monkeypatch.setattr(module.variant_measures, "pass_all", lambda model, coded: ([f"{coded[0]} of {model}"], None))
    monkeypatch.setattr(module, "load", lambda model: SimpleNamespace(encoder_layers=lambda: f"layers of {model}"))
    monkeypatch.setattr(module, "read_maps", lambda stations: {"gates": np.array([len(stations[0])])})
    for name in ("diagonals", "sum_without_extremes"):
        monkeypatch.setattr(module, name, lambda stations, name=name: np.array(f"{name}: {stations[0]}"))
    monkeypatch.setattr(module, "mlp_cosines", lambda stations, layers: np.array(f"{stations[0]}, {layers}"))
    monkeypatch.setattr(module, "fail_without_extremes", lambda passed: [stations[0] for stations in passed])
    found = module.measure("model", SimpleNamespace(encode=lambda of: of), genes)
    kept = {name: found.pop(name).ravel().tolist() for name in module.KEPT}
    assert kept == {name: [k, k + 0.5] for k, name in enumerate(module.KEPT)}
    assert found.pop("gates").tolist() == [[len("one of model")]] * 2
    both = ["one of model", "two of model"]
    assert {name: array if isinstance(array, (str, list)) else array.tolist() for name, array in found.items()} == {
        "maps": "largest of model",
        "diagonal": [f"diagonals: {of}" for of in both],
        "failing_kept": both,
        "sum_kept": [f"sum_without_extremes: {of}" for of in both],
        "mlp_cosine": [f"{of}, layers of model" for of in both],
    }


def test_a_levelled_head_changes_what_the_later_layers_read(monkeypatch):
    """Three layers that add 1, 10 and 100 times what they read; a head of one key gives what it attends to it."""
    layers = [SimpleNamespace(attention=SimpleNamespace(heads=1), by=by) for by in (1, 10, 100)]
    monkeypatch.setattr(variant_fine_tuned, "load", lambda model: SimpleNamespace(encoder_layers=lambda: layers))

    def run_layer(x, layer, *, patched_attention=None):
        if patched_attention is not None:
            assert layer is layers[int(x[0, 0])]
            x = patched_attention.sum(0)[:, :1]
        return SimpleNamespace(second=(1 + layer.by) * x)

    monkeypatch.setattr(variant_fine_tuned, "run_layer", run_layer)
    monkeypatch.setattr(variant_fine_tuned, "_logits", lambda model, rows: rows[:, 0])
    ends = double([3], [4])  # of length 5
    maps = double([[1, 0], [0, 1]])
    stations = [
        SimpleNamespace(attention=maps, x=double([k], [k]), second=ends if k == 2 else 7 + ends) for k in range(3)
    ]
    found = variant_fine_tuned._level(None, stations)
    # every row becomes a half, which the layers that follow enlarge
    last = [0.5 * 2 * 11 * 101, 0.5 * 11 * 101, 0.5 * 101]
    assert found.ravel().tolist() == pytest.approx([((each - 3) ** 2 + (each - 4) ** 2) ** 0.5 / 5 for each in last])
    assert stations[0].attention[0].tolist() == [[1, 0], [0, 1]]  # is left as it was


# ---- records around a training


def test_the_large_classifier_is_measured_on_the_first_of_its_test_part(monkeypatch):
    card = {name: k for k, name in enumerate(base.TOLD)} | {"vocabulary": None, "origin": "a gene"}
    card |= {"validation": 0.5, "test": 0.9, "recipe": {"batch": 8}}
    data = data_of([], train=range(3), validation=range(4), test=range(300))
    run = variant_measures.Run("model", data, card, None)
    asked = []

    def measure_run(of, per_class, *, pad_to):
        asked.append((len(of.data.parts.test), len(of.data.parts.train), per_class, pad_to))
        return {"cone": np.ones(2), "control_gates": np.ones(2)}, {"telling": Value(0.25)}, []

    monkeypatch.setattr(base.variant_measures, "open_run", lambda *given: asked.append(given) or run)
    monkeypatch.setattr(base.variant_measures, "measure_run", measure_run)
    found = base.measure_folder("folder", "backbones", "there")
    assert asked == [("folder", "backbones", "there"), (200, 3, 1, 512)]
    assert {name: value.value for name, value in found.values.items() if name not in card} == {
        "telling": 0.25,
        "training_sequences": 3,
        "batch": 8,
    }
    assert {name: found[name] for name in (*base.TOLD, "origin") if name in found.values} == {
        name: card[name] for name in (*base.TOLD, "origin") if name != "vocabulary"
    }
    right = found.values["validation"]
    assert (right.value, right.tolerance, right.n, found.values["test"].n) == (0.5, 1e-9, 4, 300)
    assert (right.low, right.high) == pytest.approx((0.0676, 0.9324), abs=1e-4)  # two of four
    assert found.values["test"].low == pytest.approx(0.8603, abs=1e-3)  # 270 of 300
    assert found.tolerances == {"cone": 5, "control_gates": 0.02}


def test_deposited_sequences_are_placed_among_the_lineages(monkeypatch):
    backbones = [SimpleNamespace(aligned=aligned) for aligned in ("A-C", "AGC")]
    given = [gene("1", "AC"), gene("2", "AGC")]
    asked = []
    monkeypatch.setattr(experiments, "read_fasta", lambda *paths: asked.append([path.name for path in paths]) or given)
    monkeypatch.setattr(experiments, "place", lambda bases, templates: f"{bases} in {templates}")
    found = experiments.open_sequences(Path("folder"), backbones)
    assert asked == [["open_sequences_S.fasta.gz", "open_sequences.tsv"]]
    assert [one.aligned for one in found] == [f"{one.bases} in ['A-C', 'AGC']" for one in given]
    assert [replace(one, aligned="") for one in found] == [replace(one, aligned="") for one in given]


def test_classifiers_are_scored_one_way_of_parting_after_another(monkeypatch):
    asked = []

    def find_run(name, *, recipe, folder, device):
        asked.append((name, recipe.by, folder, device))
        return name

    def score_run(run, *given):
        asked.append((run, *given))
        return {"bert": Value(len(run))}, np.full((2, 2), len(run))

    monkeypatch.setattr(experiments.variant_seeds, "find_run", find_run)
    monkeypatch.setattr(experiments, "score_run", score_run)
    found = experiments.score_all({"clade": "one", "lineage": "other"}, TINY, "backbones", "there", "lineages")
    assert asked == [
        ("one", "clade", "lineages", "there"),
        ("one", "backbones", "lineages", "there"),
        ("other", "lineage", "lineages", "there"),
        ("other", "backbones", "lineages", "there"),
    ]
    assert {name: value.value for name, value in found.values.items()} == {"bert/clade": 3, "bert/lineage": 5}
    assert found.arrays["confusion"].tolist() == [[[3, 3], [3, 3]], [[5, 5], [5, 5]]]
    assert (found.arrays["parts"].tolist(), found.tolerances) == (["clade", "lineage"], {"confusion": 2})


def test_a_run_may_differ_by_a_hundredth(monkeypatch):
    genes = [gene(str(k), label="xy"[k % 2], clade=str(k)) for k in range(4)]
    data = data_of(genes, train=[0, 1, 2], validation=[3], test=[0, 1])
    run = SimpleNamespace(data=data, model=None, card={"recipe": {"by": "clade"}, "validation": 0.5})
    monkeypatch.setattr(experiments.variant_measures, "open_run", lambda *given: run)
    monkeypatch.setattr(experiments.dna_classifier, "predict", lambda *_: torch.tensor([[0.9, 0.1], [0.8, 0.2]]))
    monkeypatch.setattr(experiments, "BASELINES", ("length",))
    monkeypatch.setattr(experiments, "fitted", lambda *given: given)
    monkeypatch.setattr(experiments, "hits", lambda one, test: np.array([False, False]))
    monkeypatch.setattr(experiments.variant_seeds, "follow", lambda *_: {})
    found, counts = experiments.score_run("folder", "backbones")
    assert {name: (value.value, value.tolerance, value.n) for name, value in found.items()} == {
        "bert": (0.5, 0.01, 2),
        "validation": (0.5, 0.01, 1),
        "train": (3, 0, None),
        "units": (2, 0, 2),
        "length": (0, 1e-9, 2),
    }
    assert counts.tolist() == [[1, 0], [1, 0]]


def test_words_that_tell_a_class_are_in_enough_sequences_and_mostly_of_it():
    def genes(label: str, bases: str, count: int) -> list[Gene]:
        return [gene(f"{label}{k}", bases, label) for k in range(count)]

    A, C = "A" * 12, "C" * 12
    assert experiments.find_telling_words(genes("x", A, 5)) == {A: "x"}
    assert experiments.find_telling_words(genes("x", A, 4)) == {}
    assert experiments.find_telling_words(genes("x", A, 18) + genes("y", A, 2)) == {A: "x"}
    assert experiments.find_telling_words(genes("x", A, 17) + genes("y", A, 2)) == {}
    # the word that is there three times counts once a sequence
    assert experiments.find_telling_words(genes("x", "A" * 30, 2) + genes("y", C, 6)) == {C: "y"}


def test_a_class_with_one_sequence_is_a_class():
    confusion = np.array([[[1, 0], [0, 0]], [[0, 1], [2, 1]]])
    assert evidence.accuracy_by_class(confusion).tolist() == [[1, 0], [0, pytest.approx(1 / 3)]]
    assert evidence.row_shares(confusion[0]).tolist() == [[1, 0], [0, 0]]


def test_fewer_bases_than_a_stride_may_be_left(monkeypatch):
    monkeypatch.setattr(corpus, "kmers", lambda bases: [bases[:12], bases[9:21]])
    assert corpus.words_rejoin("ACGTTGCATCCA" * 2 + "ACGTT")  # eight are left
    assert not corpus.words_rejoin("ACGTTGCATCCA" * 2 + "ACGTTG")


@pytest.mark.parametrize("place", [-4, 0.1, 4])
def test_an_activation_is_looked_at_from_minus_four_to_four(place):
    def activation(x):
        return nn.functional.gelu(x) + 2 * ((x - place).abs() < 1e-3)

    attention = SimpleNamespace(num_attention_heads=3, query=nn.Linear(12, 12))
    layer = SimpleNamespace(
        attention=SimpleNamespace(self=attention),
        intermediate=SimpleNamespace(intermediate_act_fn=activation, dense=nn.Linear(12, 20)),
    )
    bert = SimpleNamespace(
        encoder=SimpleNamespace(layer=[layer] * 2), embeddings=SimpleNamespace(position_embeddings=nn.Embedding(40, 12))
    )
    parts = [nn.Dropout(0.2), nn.Linear(1, 1), nn.Dropout(0.1), nn.Dropout(0.2)]
    found = base.describe(SimpleNamespace(bert=bert, modules=lambda: parts), 4, 50, 6)
    assert found.gelu_error == pytest.approx(2, abs=1e-5)
    assert found == base.Recipe(2, 3, 12, 20, 40, (0.1, 0.2), found.gelu_error, 4, 50, 6)


def test_the_first_seed_says_how_many_sequences_were_asked_about():
    def of(**values):
        return SimpleNamespace(values=values)

    seeds = of(**{f"exchanged_bases_{seed}": Value(0.1 * seed, 0, 0, 1, 64 + seed) for seed in range(3)})
    baselines = of(**{f"{name}/exchanged-bases": Value(0.5, n=9) for name in ("kmers", "kmers-gapped")})
    found = evidence.exchange(seeds, baselines, of(named_bases=Value(0.75, n=30)), "bases")
    assert (found.sequences, found.balanced.n, found.bert[:, 0].tolist()) == (64, 30, [0, 0.1, 0.2])


def test_few_sequences_stand_in_the_order_of_their_classes(monkeypatch):
    train = [gene(label, label=label) for label in "fbadce"]
    monkeypatch.setattr(variant_baselines, "parts_of", lambda genes, by: [train, [], []])
    monkeypatch.setattr(variant_baselines, "SIZES", (1,))
    fitted = []
    monkeypatch.setattr(variant_baselines, "KmerRegression", lambda: SimpleNamespace(fit=fitted.append))
    monkeypatch.setattr(variant_baselines, "hits", lambda one, test: np.array([1.0]))
    variant_baselines.by_size([])
    assert ["".join(one.label for one in few) for few in fitted] == ["abcdef"] * variant_baselines.DRAWS
