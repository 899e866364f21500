"""What was left of short functions of the studies and of the book's lab, on numbers known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from book.lab.training import attention_only
from book.studies.bert_gates import sink
from book.studies.bert_stream import controls as stream
from book.studies.one_score_four_parts import causes, parts
from book.studies.patterns_and_messages import readings
from book.studies.rotary_bias import ladder as rotary
from book.studies.rotary_bias.parts import WAYS
from book.studies.semi_bias import gpt2, locality
from book.studies.semi_bias.tokens import TokenScatter
from book.studies.shared import map_counts, variant_baselines, variant_fine_tuned, variant_measures
from book.studies.streaming_capture import cost
from book.studies.text_and_code import survey as text_and_code
from book.studies.variant_classifier import depth
from book.studies.variant_data import evidence
from book.studies.weighted_mean import identities
from tests.book.studies.known import double, hand_over


def test_titles_of_heads_name_the_correlation_and_not_its_bounds():
    correlations = np.array([[0.5, -0.25], [0.4, -0.5], [0.6, 0.0]])
    found = TokenScatter(np.ones(1), np.ones((2, 1)), np.ones(1), correlations)
    assert found.titles == ["head 0: 0.50", "head 1: -0.25"]


def test_columns_of_a_layer_are_means_over_heads(monkeypatch):
    def read_gates(attention):
        return SimpleNamespace(scores=attention[:, 0], columns=attention[:, 1])

    monkeypatch.setattr(variant_measures.gates, "read_gates", read_gates)
    maps = torch.arange(2 * 3 * 2 * 4.0).reshape(2, 3, 2, 4)  # layer, head, row, key
    scores, columns = variant_measures.read_layers(list(maps))
    assert torch.equal(scores, maps[:, :, 0])
    assert columns.tolist() == maps[:, :, 1].mean(1).tolist()


def test_a_curve_ends_where_it_is_positive():
    """Positions on three axes of unlike size, centred by hand; the last hundred decide on the sign."""
    places = torch.arange(300.0).double()
    wide, middle, small = places - 149.5, 40 * torch.cos(places / 299 * 2 * torch.pi), 3 * torch.sin(places)
    table = torch.stack([small, -wide, 0 * places, middle], 1) + double(5, 6, 7, 8)
    found = gpt2.curve(table)
    assert found.shape == (300, 3)
    assert (found[-100:].sum(0) > 0).all()
    assert found[:, 0].abs()[[0, -1]].tolist() == pytest.approx([149.5, 149.5], rel=0.01)
    assert found[-1, 0] > 0 > found[0, 0]
    assert found.norm(dim=0).diff().max() < 0  # the widest first


def test_the_largest_composition_is_told_over_the_median_one(monkeypatch):
    seen = []

    def composition_scores(written, read):
        seen.append((written, read))
        return double([1, 2, 4], [8, 3, 2])

    monkeypatch.setattr(stream, "composition_scores", composition_scores)
    before, layer = (SimpleNamespace(attention=SimpleNamespace(W_O=f"O {k}", W_Q=f"Q {k}")) for k in (0, 1))
    assert stream._peak(before, layer) == 4  # torch's median of six is the third
    assert seen == [("O 0", "Q 1")]


def test_sizes_of_a_case_are_those_of_the_largest_head(monkeypatch):
    sizes = SimpleNamespace(content=double(1, 3, 2), constant=double(5, 4, 6))
    monkeypatch.setattr(identities.uniform, "key_preference", lambda layer, hull: sizes)
    monkeypatch.setattr(identities, "replace", lambda layer, mask: mask.causal)
    maps = double([[1, 0], [0.75, 0.25]], [[1, 0], [0.4, 0.6]])
    monkeypatch.setattr(identities, "attend", lambda x, causal: SimpleNamespace(attention=maps if causal else None))
    case = identities.measure_case("layer", torch.zeros(2, 3).double())
    assert (case.content, case.constant, case.distance) == (3, 6, pytest.approx(0.25))


def test_columns_are_short_under_half_of_the_rows():
    """Four rows: a column of one cell is short, of two it is not; a cluster two cells high is not, of one it is."""
    column, cluster, rest = (GATES.index(name) for name in ("directional", "cluster", "residual"))
    cells = torch.full((1, 4, 5), rest)
    cells[0, 0, 0] = column
    cells[0, :2, 1] = column
    cells[0, :2, 2] = cluster
    cells[0, 3, 3] = cluster
    columns, clustered = double([1, 2, 0, 0, 0]), double([0, 0, 4, 8, 0])
    reading = SimpleNamespace(cells=cells, columns=columns, clustered=clustered)
    one_hot = torch.zeros(5, len(map_counts.KINDS)).double()
    one_hot[:2, 0], one_hot[2:, 1] = 1, 1
    maps = torch.arange(20.0).double().reshape(1, 4, 5)
    found = map_counts.measure_columns(maps, reading, one_hot)
    assert [float(found[name]) for name in ("directional_mass", "directional_short")] == [3, 1]
    assert [float(found[name]) for name in ("vertical_mass", "vertical_short")] == [15, 9]
    first, second = map_counts.KINDS[:2]
    assert [float(found[f"columns_{kind}"]) for kind in (first, second)] == [3, 0]
    assert [float(found[f"tokens_{kind}"]) for kind in (first, second)] == pytest.approx([0.4, 0.6])
    assert float(found[f"attention_{first}"]) == 7.5 + 8.5


def test_attention_of_two_maps_is_alike_if_it_peaks_at_one_key():
    one, other = torch.zeros(1, 12, 4), torch.zeros(1, 12, 4)
    one[0, :, 1] = other[0, :, 1] = 1
    other[0, 9, 2] = 2
    one[0, 2, 3] = 5  # among the rows that are left out
    assert readings._same(one, other).tolist() == [0.75]


def test_singular_values_do_not_hang_on_the_side_that_is_long():
    wide = double([3, 0, 0], [0, 0, 4])
    for matrix in (wide, wide.mT, torch.stack([wide, 2 * wide])):
        found = text_and_code.singular_values(matrix)
        assert found.shape[-1] == 2
        assert found.reshape(-1, 2)[0].tolist() == pytest.approx([3, 4])


def test_accuracy_is_a_share_of_the_true_class():
    confusion = np.array([[[3, 1, 0], [0, 2, 2], [0, 0, 0]]])
    assert evidence.accuracy_by_class(confusion).tolist() == [[0.75, 0.5, 0]]


def test_a_head_is_levelled_to_one_over_the_keys(monkeypatch):
    """One layer of two heads that adds its attention's first column: from logits (3, 4) to (3, 4) and (0, ...)."""
    maps = double([[1, 0, 0, 0]] * 4, [[0.25, 0.25, 0.25, 0.25]] * 4)
    monkeypatch.setattr(
        variant_fine_tuned,
        "load",
        lambda model: SimpleNamespace(encoder_layers=lambda: [SimpleNamespace(attention=SimpleNamespace(heads=2))]),
    )
    monkeypatch.setattr(
        variant_fine_tuned,
        "run_layer",
        lambda x, layer, patched_attention: SimpleNamespace(second=patched_attention[:, :, 0]),
    )
    monkeypatch.setattr(variant_fine_tuned, "_logits", lambda model, rows: rows[:, 0] * double(3, 4))
    station = SimpleNamespace(attention=maps, x=None, second=maps[:, :, 0])
    found = variant_fine_tuned._level(None, [station])
    own = (3**2 + 1) ** 0.5  # of (3 * 1, 4 / 4)
    assert found.tolist() == [[pytest.approx(3 * 0.75 / own), 0]]


def test_rows_without_extremes_are_kept_apart_by_sequence(monkeypatch):
    asked = []

    def outstanding(by_layer, lengths):
        asked.append(([len(rows) for rows in by_layer], lengths))
        return {"failing_kept": "kept", "outliers": "further"}

    monkeypatch.setattr(variant_fine_tuned.layer_profile, "outstanding", outstanding)
    passed = [[SimpleNamespace(first=torch.zeros(n, 2)) for _ in range(3)] for n in (4, 5)]
    assert variant_fine_tuned.fail_without_extremes(passed) == "kept"
    assert asked == [([9, 9, 9], [4, 5])]


def test_phases_are_exchanged_with_another_class_only(monkeypatch):
    genes = [SimpleNamespace(label=label, phase=phase) for label, phase in (("A", 1), ("A", 2), ("B", 1), ("B", 3))]
    monkeypatch.setattr(variant_baselines, "by_phase", lambda gene: gene.phase)
    monkeypatch.setattr(variant_baselines, "exchange_gaps", lambda own, other, fill: other)
    monkeypatch.setattr(variant_baselines, "replace", lambda gene, aligned, bases: (gene, aligned))
    for gene in genes:
        gene.aligned = f"{gene.label}{gene.phase}"
    for seed in range(8):
        for (gene, aligned), label in variant_baselines.exchanged(genes, "-", seed):
            assert label != gene.label
            assert not aligned.endswith(str(gene.phase))


def test_the_sink_is_turned_by_so_much_of_its_weight(monkeypatch):
    """The sentence (1, 0) becomes (1, 1) after a change of half of the sink: by 1 - cos 45 degrees."""
    monkeypatch.setattr(sink, "choose_sink", lambda maps: maps > 2)

    def run_without(x, layers, taken, change):
        assert x.tolist() == [[7, 7], [7, 7]]
        assert taken(double([1, 4])).tolist() == [[0, 2]]
        return double([2, 1], [0, 1]), None

    monkeypatch.setattr(sink, "run_without", run_without)
    states = torch.stack([double([7, 7], [7, 7]), double([5, 5], [5, 5]), double([2, 0], [0, 0])])
    assert sink.turn(states, None, None, 0.5) == pytest.approx(1 - 2**-0.5)


def test_attention_of_positions_is_watched_in_all_ways(monkeypatch):
    class Watching:
        def __init__(self, biases, rotary, watch):
            self.given = biases, rotary, watch

        def previous_attention(self):
            return torch.ones(len(self.given[2]), 2, 3)

    monkeypatch.setattr(rotary, "Scores", Watching)
    ran = []
    monkeypatch.setattr(
        rotary, "evaluate", lambda network, windows, scores: ran.append((network, windows, scores.given))
    )
    assert rotary._previous("network", "windows", "biases", "turned").shape == (len(WAYS), 2, 3)
    assert ran == [("network", "windows", ("biases", "turned", tuple(WAYS)))]


def test_wrong_phases_cost_what_the_loss_rises(monkeypatch):
    monkeypatch.setattr(
        rotary.reading, "load", lambda model: SimpleNamespace(layers=[SimpleNamespace(positions="turned")])
    )
    monkeypatch.setattr(rotary, "make_probe", lambda windows: lambda step, model: {"a": [1, 2]})
    monkeypatch.setattr(rotary, "biases_of", lambda trace: {"bias": ["b"] * 2, "mean": ["m"] * 3})
    monkeypatch.setattr(
        rotary, "kernel_of", lambda trace, kind, layer, turned: (trace["a"].tolist(), kind, layer, turned)
    )
    monkeypatch.setattr(rotary, "with_random_phases", lambda kernel, generator: (kernel, generator.initial_seed()))
    monkeypatch.setattr(rotary, "spread_kernel", lambda kernel, length: (kernel, length))
    monkeypatch.setattr(rotary, "Scores", lambda biases, turned, drop, instead: (biases, turned, drop, instead))
    seen = []

    def evaluate(model, windows, scores=None):
        seen.append(scores)
        return (2.0 if scores is None else 5.0 + len(scores[0]), -1.0)

    monkeypatch.setattr(rotary, "evaluate", evaluate)
    assert rotary._lose_phases("model", torch.zeros(4, 9), 3) == [5, 6]
    assert seen[0] is None
    biases, turned, drop, instead = seen[2]
    assert (biases, turned, drop) == (["m"] * 3, "turned", ("kernel",))
    assert instead == [((([[1, 2]], "mean", layer, "turned"), 3), 8) for layer in range(3)]


def test_the_spread_of_a_tilt_is_over_positions(monkeypatch):
    """Two heads of four positions: one rises by 1 a step, the other falls by 2."""
    own = torch.stack([torch.arange(4.0), -2 * torch.arange(4.0)])
    mass = torch.arange(3 * 3 * 2.0).reshape(3, 3, 2)
    monkeypatch.setattr(locality, "attention_of_positions", lambda layer: (own, SimpleNamespace(mass=mass)))
    spread = (5 / 3) ** 0.5
    found = locality.tilt(None)
    assert found[:2].tolist() == [[1, -1], [pytest.approx(spread), pytest.approx(2 * spread)]]
    assert found[2:].tolist() == [[6, 7], [10, 11]]


def test_content_is_a_share_of_the_divergence_in_every_rung(monkeypatch):
    place = causes.MEASURES.index("content")
    trained, controls = np.ones((2, 4)), np.ones((len(causes.RUNGS), 2, 2, 4))
    trained[:, 0], trained[:, place] = [4, 8], [1, 6]
    controls[..., 0], controls[..., place] = 10, 2
    controls[0, 1, :, place] = [3, 6]
    scaled = causes.RUNGS.index("random, as large")
    controls[scaled, :, -1, place] = [7, 9]
    hand_over(monkeypatch, causes, trained=trained, controls=controls)
    found = causes.measure_rungs(None)
    assert found.rung_trained == "58 %"  # 7 of 12
    assert (found.rung_trained_last, found.rung_scaled_last) == ("75 %", "80 %")
    assert found.rung_random == "20 to 45 %"
    assert found.rung_permuted == "20 to 20 %"


def test_formulas_read_one_text_of_the_vocabulary():
    tokens = parts.random_tokens()
    assert torch.equal(tokens, parts.random_tokens())
    assert tokens.shape == (parts.POSITIONS,)
    assert 0 <= tokens.min() <= tokens.max() < parts.VOCABULARY


def test_the_top_layer_is_the_last_one(monkeypatch):
    """Two seeds, three looks, two layers: accuracy is read where the last layer is narrowest."""
    resultant = np.zeros((2, 3, 2))
    resultant[0, :, 1], resultant[1, :, 1], resultant[:, 2, 0] = [0.1, 0.9, 0.2], [0.3, 0.2, 0.8], 1
    gates = np.zeros((2, 3, 2, 4, len(GATES)))
    gates[0, 1, 1, :, GATES.index("cluster")] = [0.1, 0.2, 0.3, 0.6]
    gates[..., GATES.index("closed")] = 0.5
    arrays = {"trace_gates": gates, "trace_resultant": resultant, "trace_step": np.arange(3)}
    arrays |= {"trace_validation": np.array([[0.1, 0.25, 0.9], [0.3, 0.4, 0.5]]), "trace_entropy": resultant + 1}
    found = depth.measure_emergence(SimpleNamespace(seeds=SimpleNamespace(array=arrays.__getitem__)), 8)
    assert (found.when_closed, found.guess) == ("25, 50 %", "12.5 %")
    assert found.top_resultant.tolist() == resultant[:, :, 1].tolist()
    assert found.mass[0, 1].tolist() == pytest.approx([0, 0.3])
    assert found.by_layer["row entropy"][0, 0, 0] == 1


def test_a_small_transformer_warms_up_for_a_quarter_of_its_steps_and_fifty_at_most():
    assert [attention_only.settings(steps).warmup for steps in (40, 4000)] == [10, 50]
    assert attention_only.looks(900) == [*range(0, 600, 25), 600, 700, 800, 900]


def test_costs_are_ratios_of_the_fastest_runs_and_a_difference_of_memories(monkeypatch):
    asked = []
    seconds = {"streamed": [9.0, 6.0, 7.0], "plain": [5.0, 4.0]}
    monkeypatch.setattr(cost, "whole_model", lambda layers, repeats: asked.append((layers, repeats)) or (seconds, 0.1))
    single = {"vectorised": [12.0, 8.0], "naive": [40.0], "extra": [2.0, 3.0]}
    monkeypatch.setattr(cost, "one_layer", lambda repeats: asked.append(repeats) or (single, 0.2))
    monkeypatch.setattr(cost, "peak", lambda which, layers: {"streamed": 130.0, "plain": 100.0}[which] + layers)
    found = cost.measure(layers=3, repeats=2)
    assert asked == [(3, 2), 5]
    due = {"time": 1.5, "memory": 30, "vectorised": 4, "naive": 20, "error": 0.2, "output_error": 0.1}
    assert found == due | {"plain_seconds": 4}


def test_the_example_is_the_head_whose_two_parts_are_most_nearly_of_one_size(monkeypatch):
    """Of two layers of three heads it is layer 1, head 2, with a constant part of 0.55."""
    trained = {
        name: double([0.9, 0.1, 0.8], [0.2, 0.3, 0.55]) for name in ("constant", "influence", "query bias", "angle")
    }
    monkeypatch.setattr(readings.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(
        readings,
        "readings",
        lambda name, control_seed, **which: {k: v if control_seed is None else v / 10 for k, v in trained.items()},
    )
    monkeypatch.setattr(
        readings, "layers", lambda name, **which: iter([[("weights 0", "rows 0"), ("weights 1", "rows 1")]])
    )
    given = [torch.arange(6.0).reshape(3, 2) * 10**k for k in range(3)]
    monkeypatch.setattr(
        readings, "parts", lambda rows, weights: given if (rows, weights) == ("rows 1", "weights 1") else None
    )
    found = readings.measure_readings(SimpleNamespace(model="a/b", texts=None, device="cpu"))
    assert (found.model, found.example.layer, found.example.head) == ("b", 1, 2)
    assert found.example.varying.tolist() == [4, 5]
    assert found.example.constant.tolist() == [440, 550]
    assert (found.constant_range, found.constant_control) == ("10% to 90%", "9%")
    assert (found.query_bias_range, found.influence_control) == ("10 to 90 %", "5%")
