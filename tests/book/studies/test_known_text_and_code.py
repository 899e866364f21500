"""The paper's text and its released code: counts, layers, pictures and outputs whose answer is known by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from analysis.models.controls import RUNGS
from book.lab.dna.fasta import Gene
from book.studies.shared.released_code import MapEntropies
from book.studies.text_and_code import classifier, layers, minilm, outputs, repository, tables
from book.studies.text_and_code.survey import FAULTS
from tests.book.studies.known import record


def test_sizes_are_those_of_the_authors_run():
    """Their counts by class add up to 49,403, of which their arithmetic makes the parts that the paper prints."""
    found = outputs.measure_sizes(record(by_class=np.array([9_881, 39_522]), parts=np.array([1, 2, 3])))
    assert (found.sequences, found.training, found.validation, found.tested) == (49_403, 36_360, 3_162, 9_881)
    assert (found.updates, found.warmup, found.printed_updates) == (18_180, 1_818, 19_761)
    assert (found.majority, found.computed, found.recorded) == ("80.0 %", (36_360, 3_162, 9_881), (1, 2, 3))


def test_words_and_parameters_are_counted(monkeypatch):
    """A gene of 3,822 bases: 424 words, 425 with N at its end; the model of this test has 1.5 million parameters."""
    asked = []

    def build_classifier(vocabulary, classes):
        asked.append((vocabulary, classes))
        model = nn.Linear(1499, 1000)
        model.config = SimpleNamespace(hidden_size=768)
        return model

    monkeypatch.setattr(outputs.code, "build_classifier", build_classifier)
    found = outputs.measure_words(record(words=2000, words_with_n=500, by_class=np.ones(7)))
    assert asked == [(28_996 + 2000, 7)]
    assert (found.bare_words, found.padded_words, found.tokens, found.padding_rows) == (424, 425, 427, 85)
    assert (found.added, found.with_n, found.parameters, found.fresh) == (2000, "25.0 %", "1.5", "1.5")
    assert found.parameter_count == 1_500_000


def test_frames_are_compared_with_those_of_the_own_words(monkeypatch):
    monkeypatch.setattr(outputs, "K", 3)
    seen = []

    def count_frames(words, gene):
        seen.append((list(words), gene))
        return {"uncodonic": SimpleNamespace(value=0.125)}, {"frame_shares": np.array([0.875, 0.125])}

    monkeypatch.setattr(outputs.repository, "count_frames", count_frames)
    tokenizer = SimpleNamespace(get_vocab=lambda: {"ACG": 0, "[SEP]": 1, "ANT": 2, "ACGT": 3, "TTT": 4})
    genes = [Gene("x", "ACT", aligned="ACT"), Gene("y", "AGT", aligned="AGT"), Gene("z", "CT", aligned="-CT")]
    authors = SimpleNamespace(top_count=4, plateaus=(5, 7))
    given = {"copied": 30, "copied_possible": 40, "inserted": 5, "inserted_possible": 100, "placed": 11}
    table = record(frame_shares=[0.6, 0.4], uncodonic=0.4, reference_frames=[[2, 1]], **given)
    found = outputs.measure_frames(table, authors, SimpleNamespace(tokenizer=tokenizer, genes=genes))
    assert seen == [(["ACG", "TTT"], "ACT")]
    assert (found.zero, found.uncodonic, found.own_uncodonic) == ("60 %", "40 %", "12.5 %")
    assert (found.copied, found.inserted, found.copied_times) == ("75.0 %", "5.0 %", "15")
    assert (found.placed, found.top, found.plateau_sum, found.groups) == (11, 4, 12, 2)
    assert found.own_shares.tolist() == [0.875, 0.125]


def by_network(minilm_of, classifier_of, *names):
    """Return the records of the text model and of the classifier, each trained and random, from (trained, random)."""
    both = []
    for given in (minilm_of, classifier_of):
        arrays = {
            f"{network}/{name}": given[name][k] for name in names for k, network in enumerate(("trained", "random"))
        }
        both.append(record(**arrays))
    return both


def test_heads_are_means_over_heads_and_ranges_over_layers(monkeypatch):
    """One passage, two layers, two heads; fault number k moves 0.1 k, and all together 0.25 and 0.75."""
    distance = np.zeros((2, 5, 2, 2)) + np.arange(5)[:, None, None] / 10
    distance[0, 4] = [[0.1, 0.3], [0.7, 0.7]]  # the passages' means over heads: 0.2 and 0.3, 0.7 and 0.8
    distance[1, 4] = [[0.3, 0.3], [0.8, 0.8]]
    alike = np.array([[[0.1, 0.3], [-0.5, -0.1]]])
    grown = np.zeros((1, 3, 2, 2))
    grown[0, 0], grown[0, 1] = [[0.5, 0.0], [0.2, 0.2]], [[0.9, 0.7], [0.0, 0.0]]
    given = {"distance": (distance, distance / 2), "alike": (alike, alike), "grown": (grown, grown)}
    given |= {"code_grown": (grown / 2, grown)}
    half = given | {"distance": (distance / 4, distance / 2)}
    text, other = by_network(given, half, *given)
    ranks = SimpleNamespace(rank_correlation=np.array([0.1, -0.2, 0.3]))
    monkeypatch.setattr(
        layers, "compare_slices", lambda model: ranks if model == "text" else SimpleNamespace(rank_correlation=[0.5])
    )
    monkeypatch.setattr(layers, "correlate_outputs", lambda table, network: 0.5 if table is text else -0.25)
    monkeypatch.setattr(layers, "draw", lambda drawn: drawn)
    found = layers.measure_heads({"text model": "text", "classifier": "variants"}, "drawn", text, other)
    assert (found.minilm_distance, found.classifier_distance) == ("0.25 to 0.75", "0.06 to 0.19")
    assert found.control_distance == "0.12 to 0.38"
    assert (found.minilm_alike, found.grown_queries, found.grown_keys) == ("0.30", "25 %", "80 %")
    assert (found.minilm_ranks, found.classifier_ranks) == ("+0.10, -0.20, +0.30", "+0.50")
    assert (found.minilm_outputs, found.classifier_outputs) == ("+0.50", "-0.25")
    assert found.coded_grown["text model"][1].tolist() == pytest.approx([0.4, 0])
    assert found.distances["text model"]["no mask"].tolist() == pytest.approx(np.full((2, 2), 0.1))
    assert list(layers.split_faults(distance)) == list(FAULTS)
    assert tables.distances(found.distances)["text model"].tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.5])


def test_the_head_that_is_drawn_is_the_sharpest(monkeypatch):
    monkeypatch.setattr(
        layers.survey, "attend_with_fault", lambda fault, passage, layer: torch.full((2, 3, 3), layer + 0.5)
    )
    maps = torch.stack([torch.full((3, 3), 1 / 3), torch.eye(3)])
    stations = [SimpleNamespace(attention=maps.flip(0)), SimpleNamespace(attention=maps)]
    found = layers.draw(SimpleNamespace(keep=torch.tensor([True, True, False]), stations=stations))
    assert (found.layer, found.head, found.own.tolist()) == (1, 1, [[1, 0], [0, 1]])
    assert found.coded.tolist() == [[1.5, 1.5], [1.5, 1.5]]


def test_the_forms_of_the_index_are_per_token_and_per_row():
    """Two passages of 427 and 854 tokens, which are padded to 512 and 1,024 rows; three states."""
    first = np.array([[1281.0, 4, 2135], [854, 4, 854]])
    padded = np.array([[1536.0, 1, 2560], [1024, 1, 1024]])
    up, down = np.array([[1.0, 2, 3], [3, 4, 5]]), np.array([[9.0, 4, 4.4]])
    given = {"cone": (first, up), "padded_cone": (up, up), "code_cone": (up, down), "padded_code_cone": (padded, up)}
    other = given | {"padded_code_cone": (up, down)}
    text, variants = by_network(given, other, *given)
    text.arrays["trained/tokens"] = np.array([427, 854])
    variants.arrays["classes/padded_code_cone"] = [[1.0, 2, 3], [1.0, 3, 2]]
    for rung in RUNGS:
        variants.arrays[f"{rung}/padded_code_cone"] = down
    found = layers.measure_cone(text, variants)
    assert (found.minilm_printed, found.minilm_code) == ("2.0 to 3.0", "2.00 to 3.00")
    assert (found.classifier_code, found.control_code) == ("2 to 4", "9 to 4")
    assert found.by_class_rise == "0.50"
    assert found.rises["classifier"]["unit rows, padding in"] == pytest.approx(1)
    assert found.rises["text model, random"]["unit rows, tokens"] == pytest.approx(-0.5)
    assert found.rungs["permuted"].tolist() == [[9, 4.4]]
    assert found.rungs["trained"].tolist() == [[1, 3], [3, 5]]
    assert layers.rise(np.array([[9.0, 0], [0, 10]])) == pytest.approx(1)  # the mean rises from 4.5 to 5


def test_shares_of_rows_are_ranges_over_layers():
    own, coded = np.array([[0.5, 0.1], [0.7, 0.3]]), np.array([[0.0, 0.1], [0.0, 0.3]])
    given = {"failing": (own, own / 2), "code_failing": (coded, coded / 2)}
    found = layers.measure_first_rows(
        *by_network(given, {name: values[::-1] for name, values in given.items()}, *given)
    )
    assert (found.minilm_own, found.minilm_code) == ("20 to 60 %", "0 to 20 %")
    assert (found.classifier_own, found.classifier_code) == ("10 to 30 %", "0 to 10 %")
    assert (found.control_own, found.control_code) == ("20 to 60 %", "0 to 20 %")


def test_logits_are_right_or_wrong_with_exact_intervals(monkeypatch):
    monkeypatch.setattr(outputs, "BLOCKS", (2, 4))
    confusion = [[1, 1], [0, 4]]
    table = record(
        logits_rows=6, logits_right=5, softmax_error=0.25, confusion=np.array(confusion), error_confidence=[0.93, 0.931]
    )
    found = outputs.measure_logits(table, SimpleNamespace(claimed_f1=98.765))
    assert (found.errors, found.accuracy, found.interval) == (1, "83.3 %", "35.9 to 99.6 %")
    assert (found.confident, found.softmax_error, found.claimed_f1) == (1, 0.25, "98.77 %")
    assert found.by_class["GH"][:2] == (1, 2)
    assert found.by_class["Lambda"][2:] == pytest.approx((0.025 ** (1 / 4), 1))
    assert list(found.by_class) == ["GH", "Lambda"]
    written = tables.logits(found.by_class)
    assert written.loc["Lambda"].tolist() == ["4 of 4", "39.8 to 100.0 %"]


def test_keys_and_cones_are_those_of_the_last_layers(monkeypatch):
    """Twelve layers of three heads; the median over heads is the middle one."""
    depth, three = np.arange(12.0), np.array([0.0, 1, 500])
    by_head = depth[:, None] * 10 + three  # (layer, head): medians 1, 11, ...
    authors = SimpleNamespace(minimal_keys=np.abs(by_head - 50))
    ranks = {"rank_maps": np.array([[3, 9]]), "rank_outputs": np.array([[2, 5]])}
    names = {"trained": 0, **{rung: 100 * (1 + k) for k, rung in enumerate(RUNGS)}}
    arrays = {}
    for name, more in names.items():
        arrays[f"{name}/minimal_keys"] = np.stack([by_head + more, by_head + 2 * more + 1])
        arrays[f"{name}/softmax_cone"] = np.stack([depth + more, depth + 2 * more])
        arrays[f"{name}/singular_values"] = np.stack([2 * depth + more, 3 * depth + more])
    arrays["trained/own_minimal_keys"] = np.stack([by_head, 0 * by_head])
    for name in ("trained", "random"):
        arrays |= {f"{name}/{key}": values + 10 for key, values in ranks.items()}
    text = record(**{f"trained/{key}": values + 20 for key, values in ranks.items()})
    found = outputs.measure_closing(record(**ranks), authors, text, record(**arrays))
    # |10 k - 50|, |10 k - 49| and |10 k + 450|: the medians are 50, 40, 30, 20, 10, 1, 11, ..., 61
    assert (found.first, found.lowest, found.lowest_layer, found.last) == ("50", "1", 5, "61")
    assert (found.here_first, found.here_last) == ("1", "111")
    assert (found.control_last, found.scaled_last, found.permuted_last) == ("211 to 312", "311 to 512", "411 to 712")
    assert (found.here_cone, found.control_cone) == ("10.000", "110.0 to 210.0")
    assert (found.here_values, found.control_values) == (20, "120 to 130")
    assert found.own_keys.tolist() == (10 * depth + 1).tolist()
    assert found.ranks == {
        "authors' base model": {"maps": (3, 9), "outputs": (2, 5)},
        "text model": {"maps": (23, 29), "outputs": (22, 25)},
        "classifier": {"maps": (13, 19), "outputs": (12, 15)},
        "classifier, random": {"maps": (13, 19), "outputs": (12, 15)},
    }
    assert tables.ranks(found.ranks).loc["text model"].tolist() == ["23 to 29", "22 to 25"]


def test_entropies_fall_or_rise_with_depth(monkeypatch):
    names = ("closed", "directional", "open", "backward", "instance", "cluster")
    ideal = {name: MapEntropies(whole=0.5 + k, blanked=0.25 + k, rows=1) for k, name in enumerate(names)}
    noise = {0.01: MapEntropies(2.5, 1.5, 1), 0.1: MapEntropies(1, 1, 1)}
    monkeypatch.setattr(layers.released_code, "measure_gates", lambda: ideal)
    monkeypatch.setattr(layers.released_code, "measure_noise", lambda: noise)
    # (class, layer, head): the means over heads of the classes are 3, 2, 1 and 1, 3, 2 and 2, 1, 0
    value = np.array([[3.0, 2, 1], [1, 3, 2], [2, 1, 0]])[..., None] + [-0.5, 0.5]
    given = {"mean_value_entropy": (value, -value), "mean_row_entropy": (-value, value)}
    text = record(**{"trained/value_entropy": value, "trained/row_entropy": 2 * value})
    found = layers.measure_entropies(text, variants_of(given))
    assert (found.closed, found.closed_blanked, found.faint, found.faint_blanked) == ("0.50", "0.25", "2.50", "1.50")
    assert (found.sharpest, found.most) == ("1.5000 to 4.500", "3.00")  # ln 20
    assert found.value_rises.tolist() == pytest.approx([-1, 0.5, -1])
    assert found.row_rises.tolist() == pytest.approx([1, -0.5, 1])
    assert (found.falling, found.classes) == (2, 3)
    assert found.value["random"].tolist() == [[-3, -2, -1], [-1, -3, -2], [-2, -1, 0]]
    assert found.text_row.tolist() == [[6, 4, 2], [2, 6, 4], [4, 2, 0]]
    assert found.text_value.tolist() == [[3, 2, 1], [1, 3, 2], [2, 1, 0]]


def variants_of(given):
    return record(
        **{
            f"{network}/{name}": pair[k]
            for name, pair in given.items()
            for k, network in enumerate(("trained", "random"))
        }
    )


def test_what_would_be_drawn_is_a_share_of_the_attention():
    seen = np.array([[[0.2, 0.4]], [[0.5, 0.7]]])  # (passage, layer, head): means 0.3 and 0.6
    given = {"seen": (seen / 2, seen / 4), "mean_seen": (seen, 0 * seen)}
    given |= {"mean_empty": (seen / 3, 1 + 0 * seen)}
    table = variants_of(given)
    table.arrays["words"] = [[400, 410], [425, 420]]
    last = np.array([[[0.1, 0.5]], [[0.3, 0.7]]])
    found = layers.measure_drawn(record(**{"trained/seen": seen, "trained/last": last}), table)
    assert (found.even, found.times_even) == ("0.0023", "4.3")  # 1 / 427, and 4.27 of it are 0.01
    assert (found.classifier_seen, found.text_seen) == ("45.0 %", "45 %")
    assert (found.empty_share, found.control_empty) == ("15 %", "100 %")
    assert (found.sep, found.most_sep) == ("40.0 %", "60 %")
    assert (found.fewest_words, found.most_words, found.spread_in_a_class) == (400, 425, 10)
    assert found.seen["classifier, random"].tolist() == pytest.approx(np.array([[0.075], [0.15]]))


def test_the_repository_is_read_cell_by_cell():
    cells = [{"outputs": []} for _ in range(41)]
    cells[34]["outputs"] = [{"text": ["duplicated ids = 3/17\n", "x"]}, {"text": ["duplicated ids = 0/8\n"]}]
    cells[39]["outputs"] = [{"text": ["train (a): 5 sequences\n", "test (b): 6 sequences"]}]
    cells[26]["outputs"] = [{"text": ["4\nfour 5\n"]}, {"data": {}}, {"text": ["6"]}]
    notebook = json.dumps({"cells": cells})
    found = repository.read_counts(notebook)
    assert {name: counted.tolist() for name, counted in found.items()} == {
        "by_class": [17, 8],
        "tested_by_class": [4, 6],
        "parts": [5, 6],
    }
    assert repository.cell_texts(notebook, 26) == "4\nfour 5\n\n\n6"
    assert repository.read_table("1,2.5\n\n-3,4\n").tolist() == [[1, 2.5], [-3, 4]]


def test_logits_are_summarised_by_blocks_of_rows():
    """Probabilities 3/4 and 1/4; of three rows of the first class and one of the second, one each is wrong."""
    logits = np.log([[3.0, 1], [3, 1], [1, 3], [9, 1]])
    due = np.array([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.9, 0.1]])
    given = due.copy()
    given[0] = [0.5, 0.5]
    values, arrays = repository.summarise_logits(logits, given, blocks=(3, 1))
    assert (values["logits_rows"].value, values["logits_right"].value) == (4, 2)
    assert values["softmax_error"].value == pytest.approx(0.25)
    assert values["mean_confidence"].value == pytest.approx((3 * 0.75 + 0.9) / 4)
    assert arrays["confusion"].tolist() == [[2, 1], [1, 0]]
    assert arrays["error_confidence"].tolist() == pytest.approx([0.75, 0.9])


def test_a_word_lies_where_it_has_fewest_mismatches_and_no_tie():
    gene = "A" * 12 + "C" * 12
    words = ["AAAAAACCCCCC", "AAAAAACCCCGG", "AAAAAACCCGGG", "GAAAAACCCCCC", "ACACACACACAC"]
    assert repository.nearest_places(words, gene).tolist() == [6, 6, -1, 6, -1]
    assert repository.nearest_places(["A" * 12], "A" * 13).tolist() == [-1]  # two places are as near


def test_texts_are_padded_by_the_share_of_a_gene():
    coded = {"input_ids": torch.full((1, 43), 5), "attention_mask": torch.ones(1, 43, dtype=torch.long)}
    found = minilm.pad(coded, 9)
    assert found["input_ids"].shape == (1, 52)  # 43 * 512 / 427 = 51.6
    assert found["input_ids"][0, 42:].tolist() == [5] + [9] * 9
    assert int(found["attention_mask"].sum()) == 43
    fewer = {name: values[:, :42] for name, values in coded.items()}
    assert minilm.pad(fewer, 9)["input_ids"].shape == (1, 50)  # 50.4


def test_controls_are_measured_on_the_longest_text(monkeypatch):
    texts = {"short": 2, "long": 4, "middle": 3}
    monkeypatch.setattr(minilm.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(minilm, "encode", lambda checkpoint, text: {"input_ids": torch.zeros(1, texts[text])})
    monkeypatch.setattr(minilm.pretrained, "load", lambda checkpoint, control_seed=None, device=None: control_seed)
    seen = lambda model, coded: {"seed": np.array(model or 0), "tokens": np.array(coded["input_ids"].shape[1])}  # noqa: E731
    monkeypatch.setattr(minilm, "_measure", seen)
    found = minilm.survey_texts("minilm", list(texts))
    assert found["trained/tokens"].tolist() == [2, 4, 3]
    assert found["random/tokens"].tolist() == [4] * len(minilm.SEEDS)
    assert found["random/seed"].tolist() == list(minilm.SEEDS)


def test_every_rung_has_its_seeds_and_only_two_networks_are_compared(monkeypatch):
    def make_controls(model, initialise):
        assert (model, initialise) == (1, "initialise")
        return [SimpleNamespace(rung=rung, network=10 * seed + k) for seed in (1, 2) for k, rung in enumerate(RUNGS)]

    for name in ("measure_rows", "measure_coded_maps", "compare_attention", "measure_maps", "measure_ranks"):
        monkeypatch.setattr(classifier.survey, name, lambda passage, name=name: {name: np.array(passage)})
    monkeypatch.setattr(classifier, "make_controls", make_controls)
    monkeypatch.setattr(classifier, "encode", lambda data, gene: {"of": gene})
    monkeypatch.setattr(classifier.survey, "run", lambda model, of: model + of)
    run = SimpleNamespace(model=1, data=None, control="initialise")
    found = classifier.survey_networks(run, 0.5)
    assert found["trained/measure_ranks"].tolist() == [1.5]
    assert found["random/measure_maps"].tolist() == [10.5, 20.5]
    assert found["permuted/measure_rows"].tolist() == [12.5, 22.5]
    assert "permuted/measure_maps" not in found
    assert len(found) == 5 * 2 + 2 * 2


def test_the_table_of_counts_writes_both_sides():
    sizes = SimpleNamespace(training=1, validation=2, tested=3, updates=4)
    words = SimpleNamespace(padded_words=5, bare_words=6, tokens=7, padding_rows=8, parameters="9.5", fresh="1.5")
    found = tables.counts(sizes, words)
    assert found["code"].tolist() == [1, 2, 3, 4, 5, 7, "9.5 M"]
    assert found.loc["words of a gene", "how"] == "6 without padding to a multiple of 12"
    assert found.loc["parameters", "how"] == "of which 1.5 M start fresh"
