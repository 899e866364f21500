"""The chapters on the variant classifier as wholes, and what stands behind one sequence, on given parts."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from book.lab.dna.fasta import Gene
from book.lab.training import dna_classifier
from book.publish.records import Value
from book.studies.shared import variant_baselines, variant_columns
from book.studies.variant_classifier import authors, controls, depth, maps, sequence
from book.studies.variant_data import partings
from tests.book.studies.known import double, record

classifier = import_module("book.studies.variant_classifier.measure")  # the packages export functions of that name
data = import_module("book.studies.variant_data.measure")

# ---- whole chapters


def told(monkeypatch, module, *names: str) -> None:
    """Let functions of a module return their names and what they are given."""
    for name in names:
        monkeypatch.setattr(module, name, lambda *given, name=name, **named: (name, *given, *named.items()))


def test_the_chapter_on_the_classifier_is_made_of_its_parts(monkeypatch):
    module = classifier
    inputs = SimpleNamespace(device="there")
    run = SimpleNamespace(data=SimpleNamespace(labels=("A", "B", "C")))
    recorded = SimpleNamespace(sources=("one", "two"))
    example = SimpleNamespace(n=42, width=192)
    phases, gates = SimpleNamespace(unchanged="unchanged"), SimpleNamespace(gallery="gallery")
    given = {
        "choose_inputs": lambda device: inputs if device == "own" else None,
        "read_records": lambda of: recorded,
        "read_nearest": lambda of: "nearest",
        "pass_example": lambda of, device: f"passage on {device}",
        "read_base_training": lambda of, classes: (f"base of {classes}", "base source"),
        "measure_example": lambda passage: example,
        "read_sequence": lambda of: ("tuned", "tuned source"),
        "measure_phases": lambda *of: phases if of == (recorded, "passage on there", "tuned") else None,
        "measure_gates": lambda *of: gates if of == (recorded, "passage on there") else None,
    }
    for name, function in given.items():
        monkeypatch.setattr(module, name, function)
    monkeypatch.setattr(module.checkpoints, "find", lambda name: SimpleNamespace(folder=f"folder of {name}"))
    monkeypatch.setattr(
        module.variant_measures, "open_run", lambda folder, device: run if folder.endswith("bert-mini") else None
    )
    parts = ("recipe", "head", "weights", "columns", "rows", "table", "depth", "emergence", "real", "authors", "large")
    told(monkeypatch, module, *(f"measure_{part}" for part in parts), "compare")
    found = module.measure("own")
    passage = "passage on there"
    assert found.sources == ("one", "two", "tuned source", "base source")
    assert (found.classes, found.base, found.recipe) == (("A", "B", "C"), "base of 3", dna_classifier.MINI)
    assert found.full_size == ("measure_recipe", dna_classifier.BASE, run.data)
    assert found.columns == ("measure_columns", recorded, ("A", "B", "C"), "unchanged", 42)
    assert (found.head, found.weights) == (("measure_head", passage), ("measure_weights", recorded, passage))
    assert (found.table, found.depth) == (("measure_table", recorded, 192), ("measure_depth", recorded, 42))
    assert (found.emergence, found.rows) == (("measure_emergence", recorded, 3), ("measure_rows", recorded))
    assert (found.real, found.authors) == (("measure_real", recorded), ("measure_authors", passage, inputs))
    large = ("large", ("measure_large", passage))
    assert found.compared == ("compare", "nearest", "tuned", recorded, example, "gallery", large)
    assert (found.inputs, found.example, found.phases, found.gates) == (inputs, example, phases, gates)
    assert found.checkpoint.folder == "folder of variant-bert-mini"


def test_the_chapter_on_the_data_is_made_of_its_records(monkeypatch):
    module = data
    inputs = SimpleNamespace(device="there")
    monkeypatch.setattr(module, "choose_inputs", lambda device: inputs)
    monkeypatch.setattr(
        module, "live_or_record", lambda name, of, recompute: (f"record {name}", f"source {name}, {recompute}")
    )
    monkeypatch.setattr(module.checkpoints, "find", lambda name: SimpleNamespace(folder=name))
    of_run = SimpleNamespace(labels=("A", "B", "C"))
    monkeypatch.setattr(module.variant_measures, "open_run", lambda folder, device: SimpleNamespace(data=of_run))
    parts = ("corpus", "authors", "leak", "partings", "training", "evidence", "pretraining", "real")
    told(monkeypatch, module, *(f"measure_{part}" for part in parts))
    found = module.measure()
    records = {name: f"record {of}" for name, of in module.RECORDS.items()}
    assert found.sources == tuple(
        f"source {of}, False"
        for of in (
            "variant-baselines",
            "variant-seeds",
            "variant-data-real",
            "variant-data-splits",
            "variant-data-pretraining",
        )
    )
    assert {part: getattr(found, part)[1:] for part in parts} == {
        "corpus": (of_run, "there"),
        "authors": ("record text-and-code-repository",),
        "leak": ("record variant-baselines",),
        "partings": ("record variant-data-splits", "record variant-baselines"),
        "training": ("record variant-seeds",),
        "evidence": (records, ("A", "B", "C")),
        "pretraining": (records, 3),
        "real": (records,),
    }


def test_records_are_read_and_not_computed_anew(monkeypatch):
    monkeypatch.setattr(authors, "live_or_record", lambda *given, recompute: ((*given, recompute), "source"))
    assert authors.read("name", "inputs") == ("name", "inputs", False)


# ---- one sequence


def station(*, attention: torch.Tensor, x: torch.Tensor, k: int) -> SimpleNamespace:
    return SimpleNamespace(attention=attention, x=x, k=k)


def test_one_sequence_is_measured_at_the_places_of_the_figures(monkeypatch):
    """Three layers of two heads; maps of six tokens. What is measured of a layer is its number."""
    monkeypatch.setattr(sequence, "NORMS_OF", (1, 0))
    monkeypatch.setattr(sequence, "TUNED_SPECTRA_OF", ((0, 1), (2, 0)))
    layers = [SimpleNamespace(attention=f"weights {k}") for k in range(3)]
    monkeypatch.setattr(sequence, "load", lambda network: SimpleNamespace(encoder_layers=lambda: layers))

    def row_norms(x, weights, head):
        assert (x, weights, head) == ("x 1", "weights 1", 0)
        return double([2, 4], [1, 2], [4, 2], [6, 6])

    by_layer = torch.arange(3.0)[:, None] + double(0, 0.5)
    monkeypatch.setattr(sequence, "row_norms", row_norms)
    profile = sequence.layer_profile
    monkeypatch.setattr(profile, "sums", lambda of: {"second": by_layer, "total": double(7, 8), "bare": -by_layer})
    monkeypatch.setattr(profile, "singular_values", lambda of: torch.arange(12.0).reshape(3, 2, 2))
    monkeypatch.setattr(profile, "row_statistics", lambda of: {"first": by_layer + 10, "bare": by_layer})
    maps = torch.zeros(2, 6, 6)
    maps[0, :, 0], maps[1] = 1, 1 / 6
    stations = [station(attention=maps * (k + 1), x=f"x {k}", k=k) for k in range(3)]
    places = [(0, 0), (0, 1), (2, 0), (1, 0), (0, 0)]
    scores = np.zeros((5, len(GATES)))
    for k, gate in enumerate(("directional", "open", "forward", "cluster", "open")):
        scores[k, GATES.index(gate)] = (k + 1) / 10
    scores[2, GATES.index("backward")] = scores[4, GATES.index("cluster")] = 0.2
    read = []
    monkeypatch.setattr(
        sequence, "read_gates", lambda of: read.append(tuple(of.shape)) or SimpleNamespace(scores=torch.tensor(scores))
    )
    found = sequence._measure("network", stations, places, (0, 2))
    assert found["growth"].tolist() == [[0.5, 0.5], [2, 0.5], [3, 1.5]]
    assert found["row_D"].tolist() == [[10, 10.5], [12, 12.5]]
    assert (found["sums"].tolist(), found["total"].tolist()) == ([[0, 0.5], [2, 2.5]], [7, 8])
    assert found["singular"].tolist() == [[2, 3], [8, 9]]
    assert read == [(5, 6, 6)]
    np.testing.assert_allclose(found["maps"][0], [[2, 0], [2, 0]])  # a third of the cells, in six times their share
    np.testing.assert_allclose(found["maps"][1], [[1, 1], [1, 1]], rtol=1e-3)
    np.testing.assert_allclose(found["maps"][2], [[6, 0], [6, 0]])
    assert found["maps"].dtype == np.float16
    assert found["carried"].tolist() == pytest.approx([0.1, 0.2, 0.5, 0.4, 0.2])  # of the last the second largest


def test_the_first_network_chooses_the_heads_of_all(monkeypatch):
    attention = {"tuned": torch.zeros(2, 3, 3), "start": torch.ones(2, 3, 3)}
    monkeypatch.setattr(
        sequence.variant_measures,
        "pass_all",
        lambda network, inputs: ([station(attention=attention[network], x=0, k=0)] * 2, None),
    )
    scores = np.zeros((4, len(GATES)))
    for head, gate in enumerate(("open", "directional", "cluster", "backward")):
        scores[head, GATES.index(gate)] = 0.5
    shapes = []

    def read_gates(maps):
        shapes.append((tuple(maps.shape), float(maps.max())))
        return SimpleNamespace(scores=torch.tensor(scores))

    monkeypatch.setattr(sequence, "read_gates", read_gates)
    monkeypatch.setattr(
        sequence, "_measure", lambda network, stations, heads, layers: {"of": np.array([network, str(layers)])}
    )
    found = sequence.measure({"after": "tuned", "before": "start"}, {}, (4, 5))
    assert found["of"].tolist() == [["tuned", "(4, 5)"], ["start", "(4, 5)"]]
    assert found["heads"][:4].tolist() == [[0, 1], [0, 0], [1, 1], [1, 0]]
    assert shapes == [((4, 3, 3), 0)]


def test_the_sequence_of_the_class_is_padded_and_passed_through_both(monkeypatch):
    genes = [Gene(str(k), "A", label) for k, label in enumerate(["Omicron", "Mu", "Omicron"])]
    coded = []

    def encode(of, pad_to, device):
        coded.append(([gene.name for gene in of], pad_to, device))
        return "coded"

    of_run = SimpleNamespace(genes=genes, parts=SimpleNamespace(test=[1, 2, 0]), encode=encode)
    run = SimpleNamespace(data=of_run, model="trained model", control=lambda: "control model")
    keep = {"trained model": torch.tensor([True, True, False]), "control model": None}
    monkeypatch.setattr(sequence.variant_measures, "pass_all", lambda model, inputs: ([model, inputs], keep[model]))
    found = sequence.pass_example(run, "there")
    assert (found.gene.name, coded) == ("2", [(["2"], 512, "there")])
    assert found.stations == {"trained": ["trained model", "coded"], "control": ["control model", "coded"]}
    assert (found.keep.tolist(), found.tokens) == ([True, True, False], 2)


def test_a_sequence_is_predicted_by_the_trained_model(monkeypatch):
    monkeypatch.setattr(sequence.dna_classifier, "predict", lambda *given: [given, "second"])
    run = SimpleNamespace(model="model", data=SimpleNamespace(tokenizer="tokenizer"))
    passage = SimpleNamespace(run=run, gene=Gene("1", "ACG"))
    assert sequence.predict(passage) == ("model", "tokenizer", ["ACG"])


# ---- each seed before its training


def test_gates_before_the_training_are_read_for_some_classes(monkeypatch):
    names = [*controls.KEPT]
    genes = [Gene(label, "A", label) for label in ("Alpha", "Beta", "Omicron")]
    monkeypatch.setattr(controls, "firsts", lambda of: genes)
    monkeypatch.setattr(controls, "survey", lambda model, of, some: {"within": (model, of, some)})
    monkeypatch.setattr(controls.variant_measures, "largest_values", lambda model: f"largest of {model}")

    def survey(model, of, some, *, read):
        assert (model, of, some, read) == ("model", "data", genes, [True, False, True])
        found = [{name: np.array([k + 10.0 * n]) for n, name in enumerate(names)} for k in range(3)]
        for k in (0, 2):
            found[k]["gates"] = np.array([k + 0.5])
        return found

    monkeypatch.setattr(controls.variant_measures, "survey", survey)
    columns, marked = np.arange(2 * 3 * 4.0).reshape(2, 3, 4), np.ones((2, 4, 4), bool)

    def profiles(of, some, measured):
        assert (of, [gene.name for gene in some]) == ("data", ["Alpha", "Omicron"])
        assert [one["gates"].tolist() for one in measured] == [[0.5], [2.5]]
        return {"profile": columns, "profile_marks": marked}

    monkeypatch.setattr(controls.variant_columns, "profiles", profiles)
    monkeypatch.setattr(controls.variant_columns, "by_sequence", lambda *given: np.array([len(each) for each in given]))
    found = controls.one(3, SimpleNamespace(model="model", data="data"))
    assert {name: found[name].ravel().tolist() for name in names} == {
        name: [k + 10.0 * n for k in range(3)] for n, name in enumerate(names)
    }
    assert found["gates"].tolist() == [[0.5], [2.5]]
    assert found["profile"].tolist() == columns[:, variant_columns.MASSES.index("columns")].tolist()
    assert (found["enriched"].tolist(), found["enriched"].dtype) == ([2, 2], np.float32)
    assert (found["maps"], found["within"]) == ("largest of model", ("model", "data", genes))


def test_attention_within_a_phase_leaves_out_the_class_token_and_the_padding(monkeypatch):
    """[CLS], three words of which the last has another phase, and padding; two layers of one head."""
    attention = torch.full((1, 5, 5), 9.0)
    attention[0, 1:4, 1:4] = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.125, 0.125, 0.75]])
    keep = torch.tensor([True, True, True, True, False])
    monkeypatch.setattr(controls.sites, "token_phases", lambda gene: np.array([0, 0, 3]))
    passed = [SimpleNamespace(attention=attention), SimpleNamespace(attention=torch.ones(1, 5, 5))]
    monkeypatch.setattr(controls.variant_measures, "pass_all", lambda *_: (passed, keep))
    found = controls.survey(None, SimpleNamespace(encode=lambda of: of), [Gene("1", "A")] * 2)
    assert found["within"].tolist() == [[[pytest.approx(2.25 / 3)], [pytest.approx(5 / 9)]]] * 2
    assert found["pairs"].tolist() == pytest.approx([5 / 9] * 2)


def test_sums_of_untrained_models_are_tested_layer_by_layer(monkeypatch):
    monkeypatch.setattr(controls, "firsts", lambda of: ["first", "last"])

    def untrained(seed, recipe, of, device):
        assert (recipe, device) == ("recipe", "there")
        states = [torch.full((1, 2, 3), float(seed + k)) for k in range(3)]
        return SimpleNamespace(model=lambda **coded: SimpleNamespace(hidden_states=states))

    monkeypatch.setattr(controls, "untrained", untrained)
    monkeypatch.setattr(controls.normality, "lilliefors", lambda sums: sums[:, 0])
    asked = []
    of = SimpleNamespace(encode=lambda genes, device: asked.append((genes, device)) or {})
    assert controls.many_sums(2, of, "recipe", "there").tolist() == [[2, 4], [4, 6]]
    assert asked == [(["last"], "there")]


# ---- what the records of the data's chapter say


def test_trainings_are_told_seed_by_seed():
    arrays = {f"trace_{name}": np.full((3, 2), float(k)) for k, name in enumerate(("loss", "step", "validation"))}
    given = record(**arrays)
    given.values = {
        f"whole_{part}_{seed}": Value(share + seed / 100, n=10)
        for part, share in (("validation", 0.5), ("test", 0.75))
        for seed in range(3)
    }
    found = partings.measure_training(given)
    assert [array[0, 0] for array in (found.losses, found.steps, found.validation_curves)] == [0, 1, 2]
    assert [each.value for each in found.validation] == [0.5, 0.51, 0.52]
    assert [each.value for each in found.test] == [0.75, 0.76, 0.77]


def test_curves_of_models_are_in_per_cent(monkeypatch):
    gates = np.zeros((2, len(GATES)))
    gates[:, GATES.index("directional")], gates[:, GATES.index("cluster")] = [0.25, 0.5], [0.125, 0.75]
    means = {"gates": {"one": gates}, "entropy": {"one": np.array([0.75, 1.0])}}
    monkeypatch.setattr(partings, "average_heads", lambda records, name, classes: means[name])
    found = partings.compare_layers({}, 8)
    assert {panel: of["one"].tolist() for panel, of in found.items()} == {
        "directional": [25, 50],
        "cluster": [12.5, 75],
        "missing entropy": [25, 0],
    }


def test_an_exchange_is_drawn_among_the_others_with_the_seed(monkeypatch):
    """Of the sequences only those with another class and another phase give their deletions; one has none."""
    genes = [Gene(str(k), "ACGT", label, aligned=f"row {k}-") for k, label in enumerate("xxyyz")]
    phase = dict(zip("01234", (0, 1, 0, 1, 9), strict=True))
    monkeypatch.setattr(variant_baselines, "by_phase", lambda gene: phase[gene.name])
    monkeypatch.setattr(variant_baselines, "exchange_gaps", lambda own, other, fill: f"{own}>{other}{fill}")
    found = variant_baselines.exchanged(genes[:4], "!", 5)
    assert [(gene.aligned, label) for gene, label in found] == [
        ("row 0->row 3-!", "y"),
        ("row 1->row 2-!", "y"),
        ("row 2->row 1-!", "x"),
        ("row 3->row 0-!", "x"),
    ]
    assert found[0][0].bases == "row 0>row 3!"
    assert [gene.label for gene, _ in found] == list("xxyy")
    assert variant_baselines.exchanged(genes[:2], "!") == []
    drawn = [[gene.aligned[7:12] for gene, _ in variant_baselines.exchanged(genes, "!", seed)] for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1]
    assert drawn[2] == ["row 4", "row 2", "row 1", "row 4", "row 0"]  # every one of another class and another phase


def test_the_last_of_three_layers_is_the_top():
    gate = GATES.index("directional")
    gates = np.zeros((2, 3, 1, len(GATES)))  # (sequence, layer, head, gate)
    gates[:, :, 0, gate] = [0.9, 0.7, 0.5]
    traced, control = np.zeros((2, 3, len(GATES))), np.zeros((2, 3, 1, len(GATES)))
    traced[0, :, gate], traced[1, :, gate] = 0.25, 0.75
    pretraining = record(
        gates=gates,
        entropy=gates[..., gate],
        trace_gates=traced,
        trace_entropy=traced[..., gate],
        pretrain_loss=[3.0],
        updates=7,
        exchanged_bases=0.0,
        exchanged_deletions=1.0,
    )
    pretraining.values = {"whole_test": Value(0.5)}
    records = {
        "pretraining": pretraining,
        "seeds": record(gates=np.stack([gates, gates / 2, gates / 5]), entropy=np.stack([gates[..., gate]] * 3)),
        "measures": record(control_gates=control, control_entropy=control[..., gate]),
    }
    found = partings.measure_pretraining(records, 2)
    assert (found.top, found.top_seeds, found.before) == ("50 %", "50 %, 25 %, 10 %", "25.0 %")
    assert (found.loss.tolist(), found.test.value, found.hidden) == ([3], 0.5, "15 %")
    resultant = np.zeros((1, 2, 3))
    resultant[0] = [[0.1, 0.9, 0.2], [0.2, 0.1, 0.5]]
    traces = {"trace_gates": np.zeros((1, 2, 3, len(GATES))), "trace_resultant": resultant}
    traces |= {"trace_validation": [[0.25, 0.75]], "trace_step": [[0, 5]], "trace_entropy": resultant}
    emerged = depth.measure_emergence(SimpleNamespace(seeds=record(**traces)), 4)
    assert (emerged.when_closed, emerged.top_resultant.tolist()) == ("75 %", [[0.2, 0.5]])


@pytest.mark.parametrize(("carried", "written"), [(0.0949, "9 %"), (0.0955, "1e+01 %")])
def test_what_the_named_open_head_carries_is_written_with_one_digit(monkeypatch, carried, written):
    for name in ("measure_gallery", "measure_mixture"):
        monkeypatch.setattr(maps, name, lambda *_: None)
    shares = np.zeros((1, 1, 12, 12, len(GATES)))
    shares[..., 1, 3, GATES.index("open")] = carried
    given = {"measures": record(gates=shares[0], control_gates=shares[0]), "seeds": record(gates=shares)}
    given |= {"controls": record(gates=shares), "real": record()}
    found = maps.measure_gates(controls.Recorded(**given, sources=()), None)
    assert found.open_named == written
    assert found.heads["open"].ranks == (1,)


def test_classes_of_one_phase_hold_clusters_in_the_mean_over_them(monkeypatch):
    """Four classes, of which the first and the last have one phase; one seed, one layer, two heads."""
    pairs = np.array([1.0, 0.5, 0.75, 1.0])
    monkeypatch.setattr(maps.controls, "firsts", lambda of: of)
    monkeypatch.setattr(maps.controls, "survey", lambda *_: {"pairs": pairs, "within": np.zeros((4, 1, 2))})
    monkeypatch.setattr(maps.controls, "survey_turns", lambda *_: np.ones((2, 1)))
    gates = np.zeros((1, 4, 1, 2, len(GATES)))
    gates[0, :, 0, :, GATES.index("cluster")] = [[0.2, 0.0], [0.3, 0.3], [0.0, 0.4], [0.1, 0.1]]
    passage = SimpleNamespace(run=SimpleNamespace(data=None, model=None), models={"trained": None, "control": None})
    read = SimpleNamespace(seeds=record(gates=gates), controls=record(within=np.zeros((3, 4, 1, 2))))
    found = maps.measure_phases(read, passage, SimpleNamespace(turn=np.ones((4, 2, 1))))
    assert (found.holding_unchanged.tolist(), found.holding_changed.tolist()) == ([0.75], [0.75])
    assert (found.hold_still, found.unshifted, found.shifted) == ("75 %", "20 %", "30 % to 40 %")
    assert found.clusters.tolist() == [pytest.approx([0.1, 0.3, 0.2, 0.1])]
