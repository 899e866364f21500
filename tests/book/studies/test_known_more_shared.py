"""What several studies share, and the small studies, on inputs whose answer is known by hand."""

import math
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.positions import Rotary
from analysis.maps.gates import GATES
from analysis.models.controls import NETWORKS
from book.lab.dna.fasta import Gene
from book.lab.mathematics.stretching import MAPS
from book.publish.records import Value
from book.studies.gate_detector.measure import OwnScores
from book.studies.shared import (
    averages,
    census,
    released_code,
    side_by_side,
    variant_baselines,
    variant_columns,
    variant_fine_tuned,
    variant_seeds,
)
from book.studies.shared.variant_columns import MARKS, MASSES
from book.studies.streaming_capture import cost
from tests.book.studies.known import double, plain, record

exact = import_module("book.studies.exact.measure")  # the package exports a function of that name
peers = import_module("book.studies.peers.measure")


# ---- averages and the census


def test_averages_are_over_what_is_named():
    assert averages.mean([torch.tensor(1.0), 4.0]) == 2.5
    value, low, high = averages.interval([1.0, 2.0, torch.tensor(3.0)])
    half = 4.302653 / 3**0.5
    assert (value, low, high) == pytest.approx((2, 2 - half, 2 + half), abs=1e-5)
    values = np.arange(8.0).reshape(2, 2, 2)
    assert averages.over_heads(values, 1).tolist() == [[0.5, 2.5], [4.5, 6.5]]
    assert averages.over_heads(values[0], 1).tolist() == [[0, 1], [2, 3]]
    assert averages.by_layer(values).tolist() == [2.5, 4.5]


def test_a_ratio_of_totals_has_the_interval_of_its_residuals():
    part, whole = np.array([1.0, 3, 2]), np.array([2.0, 4, 4])
    value, low, high = census.ratio_interval(part, whole)
    # 6 over 10; residuals -0.2, 0.6 and -0.4; the error is the root of 3/2 times 0.56, over 10
    half = 4.302653 * (1.5 * 0.56) ** 0.5 / 10
    assert (value, low, high) == pytest.approx((0.6, 0.6 - half, 0.6 + half), abs=1e-6)
    assert math.isnan(census.ratio_interval(part, 0 * whole).value)
    assert census.ratio_interval(part[:1], whole[:1]).high == math.inf


def test_columns_follow_the_semi_bias_of_their_own_head():
    """Two heads of three keys: the first gets what its own bias says, the second is not directional."""
    state = torch.zeros(1, 2, 2, dtype=torch.long)
    reader = SimpleNamespace(census=SimpleNamespace(state={"bias": state}))
    reader.semi_bias = torch.zeros(2, 2, 3).double()  # b_Q of the first axis, keys of the second
    reader.semi_bias[0, 0], reader.semi_bias[1, 0] = double(1, 2, 3), double(3, 2, 1)
    reader.semi_bias[1, 1], reader.semi_bias[0, 1] = double(0, 5, 0), double(9, 0, 0)
    maps = torch.zeros(2, 3, 3).double()
    maps[0], maps[1] = double(math.exp(1), math.exp(2), math.exp(3)), double(1, 1, 2)
    columns = double([0, 0.1, 0.5], [0.5, 0, 0])
    reading = SimpleNamespace(
        columns=columns, score=lambda name: double(0.3, 0.29)[: 2 if name == "directional" else 0]
    )
    found = census._Reader.follow_bias(reader, 0, maps, reading)
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {"bias_maps": 1, "bias_correlation": 1, "bias_other": -1, "bias_top": 1, "bias_chance": 1 / 3}
    )
    assert (state[0, :, 1].tolist(), state[0, 1, 0].item()) == ([1, 0], 0)
    assert state[0, 0, 0].item() / census.streaming.UNIT == pytest.approx(1)


def test_columns_are_held_to_the_bias_of_the_next_head():
    """Three heads, all directional; the bias of the next head says of each what is there, its own the opposite."""
    reader = SimpleNamespace(census=SimpleNamespace(state={"bias": torch.zeros(1, 3, 2, dtype=torch.long)}))
    rising = double(1, 2, 3)
    reader.semi_bias = torch.zeros(3, 3, 3).double()
    for head in range(3):
        reader.semi_bias[head, head], reader.semi_bias[(head + 1) % 3, head] = -rising, rising
        reader.semi_bias[(head + 2) % 3, head] = double(1, -2, 1)
    maps = rising.exp().expand(3, 3, 3)
    reading = SimpleNamespace(columns=maps[:, 0], score=lambda name: double(0.5, 0.5, 0.5))
    found = census._Reader.follow_bias(reader, 0, maps, reading)
    assert (found["bias_correlation"].item(), found["bias_other"].item()) == pytest.approx((-3, 3))
    assert (found["bias_maps"].item(), found["bias_top"].item(), found["bias_chance"].item()) == (3, 0, 1)


def test_models_stand_side_by_side_in_means_over_layers(monkeypatch):
    own = {
        "gates": np.concatenate([np.full((2, 2, 2, 7), 0.05), np.full((2, 2, 2, 2), 9)], -1),  # text, layer, head, gate
        "first_failing": np.array([[0.2, 0.4], [0.4, 0.6]]),
        "cone": np.array([[1.0, 2], [1, 4]]),
        "largest": np.array([[[1.0, 3], [4, 8]]]),
        "D_total": np.array([[0.5]]),
    }
    model = side_by_side.Model("fine-tuned", 4, {"trained": own.get, "random": None})
    assert model.layers("random", "cone") is None
    assert model.layers("trained", "gates").tolist() == pytest.approx([0.35, 0.35])
    assert model.layers("trained", "largest").tolist() == [2, 6]
    text = replace(model, model="text", read={"trained": {"entropy": np.array([[1.0, 2], [3, 4]])}.get})
    assert text.layers("trained", "entropy").tolist() == [2, 3]  # no axis of heads
    measures = {measure.array: measure for measure in side_by_side.MEASURES}
    written = {name: measures[name].write(model.layers("trained", name), 0.25) for name in own}
    assert written == {
        "gates": "35 %",
        "first_failing": "40 %",
        "cone": "3.0 times",
        "largest": "3.0 times",
        "D_total": "2.0",
    }
    monkeypatch.setattr(side_by_side, "MEASURES", (measures["cone"], measures["D_total"]))
    monkeypatch.setattr(side_by_side, "critical_value", lambda width: width / 8)
    models = {"fine-tuned": replace(model, read=dict.fromkeys(NETWORKS) | {"trained": own.get})}
    monkeypatch.setattr(side_by_side, "read_models", lambda: models)
    (_, cone), (_, total) = side_by_side.compare()
    dashes = ["\u2013"] * (len(NETWORKS) - 1)
    assert cone == {"fine-tuned": ["3.0 times", *dashes]}
    assert total == {"fine-tuned": ["1.0", *dashes]}


# ---- the released code's heads


def test_heads_and_columns_are_compared_map_by_map(monkeypatch):
    layers = [SimpleNamespace(attention=k) for k in (1, 2)]
    monkeypatch.setattr(released_code, "load", lambda _: SimpleNamespace(encoder_layers=lambda: layers))
    monkeypatch.setattr(released_code, "with_stored_blocks", lambda attention: -attention)
    own = torch.tensor([[[1.0, 2], [3, 4]]] * len(MAPS))
    stored = torch.tensor([[[2.0, 4], [6, 8]], [[4, 3], [2, 1]], [[1, 2], [4, 3]]])
    monkeypatch.setattr(released_code.stretching, "over_heads", lambda _, of: own if of[0] > 0 else stored)
    found = released_code.compare_slices(None)
    assert found.heads.tolist() == own.tolist()
    assert found.correlation.tolist() == pytest.approx([1, -1, 0.8])
    assert found.rank_correlation.tolist() == pytest.approx([1, -1, 0.8])
    outputs = record(
        **{"net/largest": [[[1.0, 2], [4, 3]]] * 2, "net/code_largest": [[[1.0, 2], [3, 4]], [[1, 2], [5, 8]]]}
    )
    assert released_code.correlate_outputs(outputs, "net") == pytest.approx(0.8)


# ---- variants


def gene(name: str, bases: str, label: str, lineage: str = "", aligned: str = "") -> Gene:
    return Gene(name, bases, label, lineage, "", aligned or bases)


def test_the_regressions_penalty_is_the_first_of_the_best(monkeypatch):
    shares = {1.0: [1, 0, 0, 0], 0.01: [1, 1, 1, 0]}

    class Fitted:
        def __init__(self, strength=None):
            self.strength = strength

        def fit(self, train):
            self.train = train
            return self

    monkeypatch.setattr(variant_baselines, "hits", lambda one, validation: np.array(shares[one.strength]))
    monkeypatch.setattr(variant_baselines, "BASELINES", {"kmers": Fitted, "length": Fitted})
    best = variant_baselines.fitted("kmers", ["train"], ["validation"])
    assert (best.strength, best.train) == (0.01, ["train"])
    shares[0.01] = shares[1.0]
    assert variant_baselines.fitted("kmers", [], []).strength == 1.0
    assert variant_baselines.fitted("length", [], []).strength is None


def test_accuracies_count_sequences_and_units():
    found = variant_baselines.score("kmers-gapped", np.array([True, True, True, False]), ["a", "a", "b", "c"])
    assert (found.value, found.n, found.tolerance) == (0.75, 4, variant_baselines.EDGE)
    assert found.low < 0.3
    assert found.high > 0.95  # of three groups, not of four sequences
    assert variant_baselines.score("length", np.array([True]), ["a"]).tolerance == 1e-9
    table = variant_seeds.accuracy_value(np.array([[3, 1], [2, 4]]))
    assert (table.value, table.n) == (0.7, 10)


def test_a_sequence_with_anothers_deletions_is_named_after_one_of_them(monkeypatch):
    pairs = [
        (gene("1", "A", "x"), "y"),
        (gene("2", "C", "x"), "z"),
        (gene("3", "G", "y"), "x"),
        (gene("4", "T", "y"), "x"),
    ]
    monkeypatch.setattr(
        variant_baselines, "exchanged", lambda test, fill: pairs if (test, fill) == ("test", "N") else []
    )
    names = {"nearest": "xxyy", "nearest-ungapped": "yzxx", "kmers": "xzyx", "kmers-gapped": "qqqq", "phase": "yzxy"}
    classifiers = {
        name: SimpleNamespace(predict=lambda genes, of=of: list(of)[: len(genes)]) for name, of in names.items()
    }
    found = variant_baselines.by_exchange(classifiers, "test", "N")
    assert {name: value.value for name, value in found.items()} == {
        "nearest/exchanged-bases": 1,
        "nearest/exchanged-deletions": 0,
        "nearest-ungapped/exchanged-bases": 0,
        "nearest-ungapped/exchanged-deletions": 1,
        "kmers/exchanged-bases": 0.5,
        "kmers/exchanged-deletions": 0.5,
        "kmers-gapped/exchanged-bases": 0,
        "kmers-gapped/exchanged-deletions": 0,
        "phase/exchanged-bases": 0.25,
        "phase/exchanged-deletions": 0.75,
    }


def test_splits_are_scored_with_the_words_that_training_never_had(monkeypatch):
    train = [gene("1", "ab", "x")]
    test = [gene("2", "abc", "x", "l"), gene("3", "cd", "y", "l"), gene("4", "ab", "y", "m")]
    monkeypatch.setattr(variant_baselines, "UNITS", ("sequence", "clade"))
    monkeypatch.setattr(variant_baselines, "BASELINES", {"length": None})
    monkeypatch.setattr(variant_baselines, "parts_of", lambda genes, by: [train, [], test])
    monkeypatch.setattr(variant_baselines, "kmers", list)
    units = {"sequence": ["2", "3", "4"], "clade": ["l", "l", "m"]}
    monkeypatch.setattr(variant_baselines, "unit_names", lambda genes, by: units[by])
    monkeypatch.setattr(variant_baselines, "fitted", lambda name, *_: f"fitted {name}")
    monkeypatch.setattr(variant_baselines, "hits", lambda one, genes: np.array([True, True, False]))
    values, kept = variant_baselines.by_split([])
    assert kept == {"length": "fitted length"}
    assert (values["units/sequence"].value, values["units/clade"].value, values["units/clade"].n) == (3, 2, 3)
    assert values["unknown/clade"].value == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert (values["length/clade"].value, values["length/clade"].n) == (pytest.approx(2 / 3), 3)
    assert values["length/clade"].low < values["length/sequence"].low


def test_few_sequences_a_class_are_drawn_anew(monkeypatch):
    train = [gene(f"{label}{k}", "A", label) for label in "yx" for k in range(3)]
    monkeypatch.setattr(variant_baselines, "parts_of", lambda genes, by: [train, None, by])
    monkeypatch.setattr(variant_baselines, "SIZES", (1, 2, 8))
    drawn = []
    monkeypatch.setattr(
        variant_baselines, "KmerRegression", lambda: SimpleNamespace(fit=lambda few: drawn.append(few) or few)
    )
    monkeypatch.setattr(
        variant_baselines, "hits", lambda few, test: np.array([len(few), 0.0]) if test == "clade" else None
    )
    found = variant_baselines.by_size([])
    assert found.tolist() == [[1, 2, 3]] * variant_baselines.DRAWS  # half of 2, 4 and 6
    assert [one.label for one in drawn[1]] == ["x", "x", "y", "y"]
    assert {one.name for one in drawn[0]} <= {one.name for one in drawn[1]}


def test_lengths_are_counted_and_the_most_frequent_phases_taken(monkeypatch):
    genes = [gene("1", "AAA", "y"), gene("2", "CC", "y"), gene("3", "CC", "y"), gene("4", "AAA", "x")]
    monkeypatch.setattr(variant_baselines, "phases", lambda aligned: [len(aligned), 1])
    found = variant_baselines.lengths_and_phases(genes)
    assert (found["classes"].tolist(), found["lengths"].tolist()) == (["x", "y"], [2, 3])
    assert found["length_counts"].tolist() == [[0, 1], [2, 1]]
    assert found["phases"].tolist() == [[3, 1], [2, 1]]


def test_lineages_have_their_most_frequent_letters():
    genes = [gene(str(k), "", "x", "l", aligned) for k, aligned in enumerate(("AC-T", "AG-T", "AGAC"))]
    (found,) = variant_columns.consensuses(genes)
    assert (found.name, found.label, found.aligned) == ("l", "x", "AG-T")


def marked(monkeypatch, **kinds) -> None:
    sequences = zip(*(np.array(rows, dtype=bool) for rows in kinds.values()), strict=True)
    found = [dict(zip(MARKS, rows, strict=True)) for rows in sequences]
    monkeypatch.setattr(variant_columns, "marks", lambda data, genes: found)
    monkeypatch.setattr(variant_columns, "kmers", list)


def test_marked_words_get_more_or_less_than_all(monkeypatch):
    """Two sequences of three words behind [CLS]: the marked word gets half, where a third would be its share."""
    kinds = [[[1, 0, 0], [0, 1, 0]], [[1, 1, 1], [1, 1, 1]], [[0, 0, 0], [1, 0, 0]], [[0, 1, 1], [1, 0, 1]]]
    marked(monkeypatch, **dict(zip(MARKS, kinds, strict=True)))
    genes = [gene("1", "abc", "x"), gene("2", "abc", "x")]
    first, second = np.array([[4.0, 2, 1, 1], [4, 2, 1, 1]]), np.array([[1.0, 1, 2, 1], [1, 1, 2, 1]])
    measured = [dict.fromkeys(MASSES, each) for each in (first, second)]
    values = variant_columns.summarise(None, genes, measured)
    assert values["columns_on_class"].value == pytest.approx((0.5 + 0.2) / 2)
    assert values["received_site"].value == pytest.approx(1.5)
    assert (values["received_site"].n, values["columns_any_site"].value) == (2, pytest.approx(1))
    assert values["class_row_rare"].value == pytest.approx(0.75)  # a quarter each, of which there are two
    assert "columns_telling" not in values  # of one sequence only
    # of nine turns of both marks one has 1.5 twice and four have .75 twice
    assert (values["columns_site_chance_low"].value, values["columns_site_chance_high"].value) == (0.75, 1.5)
    assert values["tokens_site"].value == pytest.approx(1 / 3)
    assert values["tokens_telling"].value == pytest.approx(1 / 6)
    assert not any(name.startswith("tokens") for name in variant_columns.summarise(None, genes, measured, "control_"))
    found = variant_columns.profiles(None, [*genes[:1], gene("2", "abcd", "x")], measured)
    assert found["profile"][1, 0].tolist() == [1, 2, 1, 0]
    assert found["profile_marks"][0, 0].tolist() == [True, False, False, False]
    ratios = variant_columns.by_sequence(found["profile"], found["profile_marks"])
    assert ratios[1, 0].tolist() == pytest.approx([1.5, 0.75, 1.4625])  # of 1.5, .75 and .75
    assert ratios[0, 2].tolist() == [0, 0, 0]


def test_one_classifier_is_scored_on_whole_parts_and_sets(monkeypatch):
    data = SimpleNamespace(parts=SimpleNamespace(validation=range(10), test=range(20)))
    run = SimpleNamespace(data=data, card={"validation": 0.9, "test": 0.75}, model="model")
    monkeypatch.setattr(variant_seeds, "invent_backbones", lambda seed: "backbones")
    sets = ("balanced set", "other")
    monkeypatch.setattr(variant_seeds, "SETS", sets)
    monkeypatch.setattr(variant_seeds, "make_sets", lambda of, backbones, seed: (backbones, seed))
    counts = np.array([[[1, 1], [0, 2]], [[0, 3], [3, 0]]])
    monkeypatch.setattr(
        variant_seeds, "confuse_all", lambda model, of, given: counts if given == ("backbones", 4) else None
    )
    monkeypatch.setattr(variant_seeds, "follow", lambda *_: {"exchanged_bases": Value(0.25, 0.0)})
    values, found = variant_seeds.score_run(run, 4)
    assert found is counts
    assert {name: value.value for name, value in values.items()} == {
        "whole_validation": 0.9,
        "whole_test": 0.75,
        "balanced_set": 0.75,
        "other": 0,
        "exchanged_bases": 0.25,
    }
    assert (values["whole_test"].n, values["balanced_set"].n) == (20, 4)


def test_the_first_test_sequence_of_each_class_is_read(monkeypatch):
    genes = [gene(str(k), "A", label) for k, label in enumerate(["Omicron", "GH/490R", "other", "Omicron", "GH/490R"])]
    data = SimpleNamespace(genes=genes, parts=SimpleNamespace(test=[2, 3, 4, 0, 1]))
    assert [one.name for one in variant_fine_tuned.of_classes(data)] == ["4", "3"]
    assert variant_fine_tuned.stack([{"a": [1, 2]}, {"a": [3, 4]}])["a"].tolist() == [[1, 2], [3, 4]]
    monkeypatch.setattr(
        variant_fine_tuned, "make_model", lambda of, seed: SimpleNamespace(to=lambda _: f"model {seed}")
    )
    monkeypatch.setattr(variant_fine_tuned, "measure", lambda model, of, read: (model, [one.name for one in read]))
    found = list(variant_fine_tuned.measure_starts(data, "cpu"))
    assert found == [(f"model {seed}", ["4", "3"]) for seed in variant_fine_tuned.DRAWS]


# ---- small studies


def test_documents_are_counted_with_a_gate_by_order():
    present = np.zeros((3, 3, len(GATES)))
    present[:, 1, 2] = [0.01, 0.02, 0.03]
    table = OwnScores("", present, present).table()
    half = 4.302653 / 3**0.5
    assert table.iloc[2, 1] == f"2.0 ({2 - half:.1f} to {2 + half:.1f})"
    assert table.iloc[2, 0] == table.iloc[1, 1] == "0.0 (0.0 to 0.0)"
    assert table.index.name == "gate"


def test_a_key_bias_cancels_but_where_positions_turn_it():
    g = torch.Generator().manual_seed(0)
    given = {name: torch.randn(8, 4, generator=g) for name in ("W_Q", "W_K", "W_V")}
    layer = plain(8, heads=2, **given, W_O=torch.randn(4, 8, generator=g), b_V=double(1, 2, 3, 4))
    found = exact.try_biases(layer)
    assert found.key < 1e-12
    assert (found.unturned, found.value < 1e-12) == (None, True)
    half = exact.try_biases(replace(layer, positions=Rotary(double(1.0), 4)))
    assert half.key > 1e-3
    assert max(half.unturned, half.value) < 1e-12
    assert exact.try_biases(replace(layer, positions=Rotary(double(1.0, 0.5), 4))).unturned is None


def test_padding_is_on_the_right_of_one_text_and_on_the_left_of_another(monkeypatch):
    seen = []

    def agreement(model, read, inputs, in_double):
        seen.append(inputs)
        return SimpleNamespace(attention=1e-13, output=2e-13)

    monkeypatch.setattr(exact, "agreement", agreement)
    read = SimpleNamespace(family=SimpleNamespace(stack=""))
    ids = torch.ones(2, 5, dtype=torch.long)
    assert exact.pad(None, read, {"input_ids": ids, "decoder_input_ids": ids}) == 2e-13
    assert seen[0]["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    assert seen[0]["decoder_attention_mask"] is seen[0]["attention_mask"]
    assert exact.pad(None, read, {"pixels": ids}) is None


def test_statistics_of_maps_are_the_same_in_both_ways():
    """One text, one head, two keys: rows (1, 0) and (1/4, 3/4)."""
    maps = torch.tensor([[[[1.0, 0], [0.25, 0.75]]]])
    sharp = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    for way in (cost.vectorised, cost.naive):
        entropy, diagonal, column, row = (part[0].tolist() for part in way(torch.cat([maps, maps])))
        assert entropy == pytest.approx([0, 2 * sharp], abs=1e-6)
        assert diagonal == pytest.approx([0.5, 3.5, 0])
        assert (column, row) == (pytest.approx([2.5, 1.5]), pytest.approx([2, 2]))


def test_the_distance_is_the_largest_of_all_statistics(monkeypatch):
    monkeypatch.setattr(cost, "N", 2)
    monkeypatch.setattr(cost, "BATCH", 2)
    exact_sums = tuple(double(part) for part in ([0, 2.0], [0.5, 3.5, 0], [2.5, 1.5], [2, 2]))
    own = {"entropy_by_query": [0, 1.0], "diagonal_profile": [0.25, 0.875, 0], "column_mass": [1.25, 0.75]}

    def counted(**changed):
        given = own | {"row_mass": [1.0, 1]} | changed
        return SimpleNamespace(**{name: lambda values=values: double(values) for name, values in given.items()})

    assert cost.distance(counted(), exact_sums) == 0  # halves, and the middle diagonal has two cells
    for name, values in own.items():
        changed = counted(**{name: [values[0] - 0.125, *values[1:]]})
        assert cost.distance(changed, exact_sums) == 0.125
    assert cost.distance(counted(row_mass=[1, 1.5]), exact_sums) == 0.5


def test_peers_take_so_many_times_as_long():
    names = {"maps/ours/seconds": 2.0, "maps/none/seconds": 1.5, "maps/x/seconds": 3.0, "maps/y/seconds": 20.0}
    names |= {"maps/ours/megabytes": 12.4, "viewer/ours/bytes": 1_234_567}
    found = SimpleNamespace(values={name: Value(value, 0.0) for name, value in names.items()})
    table = type("Record", (), {"values": found.values, "__getitem__": lambda self, name: self.values[name].value})()
    assert (peers.times(table, "maps", "x"), peers.times(table, "maps", "y")) == ("1.5", "10")
    assert (peers.megabytes(table, "maps", "ours"), peers.kilobytes(table, "ours")) == ("12 MB", "1,235 kB")
    rows = peers.table_rows(table)
    assert len(rows) == sum(map(len, peers.TASKS.values()))
    assert [(row.seconds, row.megabytes) for row in rows if row.seconds] == [(2, 12.4), (1.5, None)]
    assert rows[0].task == peers.TASK_NAMES["spectra"]
