"""Short functions of several studies, on numbers whose answer is known by hand: sizes differ along every axis."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.models.controls import RUNGS
from book.lab import rotary_probe
from book.publish.records import Value
from book.studies.bert_gates import gate_census, ideal_gates, interventions, query_bias
from book.studies.bert_rank import controls as rank_controls
from book.studies.bert_rank import switches
from book.studies.bert_similarity import networks as similarity
from book.studies.bert_stream import layer as stream
from book.studies.bert_stream import networks, survey
from book.studies.gate_detector import calibration
from book.studies.induction_head.prediction import ReadingSearch
from book.studies.induction_head.readings import Reading
from book.studies.one_score_four_parts import parts, tables
from book.studies.patterns_and_messages import tables as patterns
from book.studies.rotary_bias import runs
from book.studies.rotary_bias.parts import WAYS, Scores, SplitRows
from book.studies.shared import released_code, side_by_side
from book.studies.shared.documents import DocumentLadder
from book.studies.text_and_code import survey as text_and_code
from book.studies.variant_classifier import authors
from tests.book.studies.known import double, no_norm, record

# ---- what the ladders and the search over readings keep


def test_a_ladder_has_a_mean_over_layers_and_a_range_over_seeds():
    """Three documents of two layers: means of layers 3, 5 and 7."""
    controls = {"random": np.array([[1.0, 2], [5, 6], [3, 9]])}
    found = DocumentLadder(np.array([[2.0, 4], [4, 6], [6, 8]]), controls)
    half = 4.302653 * 2 / 3**0.5  # Student's t of three documents
    assert found.whole == pytest.approx((5, 5 - half, 5 + half), abs=1e-5)
    assert found.range_of("random") == (1.5, 6)
    assert found.ladder.trained[:, 0].tolist() == [4, 6]
    assert found.ladder.controls is controls


def search() -> tuple[list[Reading], ReadingSearch]:
    word = Reading()
    two, other = Reading(gain=1, weak="dropped"), Reading(gain=1, summed="j < i")
    three = Reading(gain=1, weak="dropped", summed="j < i")
    one = Reading(gain=1)
    counted = {word: 24, one: 7, Reading(weak="dropped"): 9, two: 0, other: 0, three: 0}
    return [word, one, two, other, three], ReadingSearch("6", 0, 0, 3, 0, counted)


def test_the_simplest_readings_are_those_that_survive_with_the_fewest_departures():
    (word, one, two, other, three), found = search()
    assert found.survivors == [two, other, three]
    assert found.simplest == [two, other]
    assert found.nearest == {0: word, 1: one, 2: two}
    assert found.fewest_cells(gain=100) == 9
    assert found.fewest_cells(gain=1, weak="kept") == 0
    assert found.fewest_cells(gain=1, weak="kept", summed="j <= i") == 7


# ---- gates


@pytest.fixture
def own_model(monkeypatch):
    """Let a reader's model be its seed, and return the calls that read the texts."""
    asked = []
    for module in (gate_census, interventions):
        monkeypatch.setattr(module.checkpoints, "find", lambda name: f"found {name}")
        monkeypatch.setattr(module.pretrained, "tokenizer", lambda checkpoint: f"tokenizer of {checkpoint}")
        monkeypatch.setattr(module.pretrained, "load", lambda checkpoint, control_seed, device: control_seed)
        monkeypatch.setattr(module.texts, "passages", lambda **given: asked.append(given) or "passages")
    return asked


def test_gates_are_counted_in_a_readers_model_and_in_its_control(own_model, monkeypatch):
    monkeypatch.setattr(gate_census, "take_census", lambda *given: given)

    def summarise(census, prefix):
        return SimpleNamespace(values={f"{prefix}v": census[0]}, arrays={f"{prefix}a": np.array(census[0] is None)})

    monkeypatch.setattr(gate_census, "summarise", summarise)
    found = gate_census.count_gates(SimpleNamespace(model="one", texts="own", device="cpu"))
    assert found.values == {"v": None, "control_v": 0}
    assert (found.arrays["a"].item(), found.arrays["control_a"].item()) == (True, False)
    assert own_model == [{"count": gate_census.OWN_TEXTS, "source": "own"}]


def test_heads_are_taken_away_and_made_level_in_both_models(own_model, monkeypatch):
    """Two texts, one layer, two heads, two ways."""
    effects = np.arange(8.0).reshape(2, 1, 2, 2)
    monkeypatch.setattr(
        interventions, "measure_effects", lambda model, *_: (effects if model is None else 10 * effects, None)
    )
    found = interventions.ablate_heads(SimpleNamespace(model="one", texts="own", device="cpu"))
    assert found["trained"]["zero"].tolist() == [[2, 4]]
    assert found["trained"]["uniform"].tolist() == [[3, 5]]
    assert found["control"]["uniform"].tolist() == [[30, 50]]


def test_exchanged_biases_are_averaged_over_texts(monkeypatch):
    layers = [SimpleNamespace(b_Q=torch.ones(2, 3))]
    monkeypatch.setattr(query_bias, "load", lambda model: SimpleNamespace(layers=layers))
    scores = np.zeros((3, 3, 1, 2, 9))  # text, way, layer, head, gate
    scores[:, 0, 0, 0, 0], scores[:, 0, 0, 1, 0] = [0.3, 0.5, 0.7], [0.1, 0.29, 0.6]
    scores[:, 1, 0, 0, 0], scores[:, 1, 0, 1, 0] = 0.2, 0.4

    def exchange(model, tokenizer, passages, biases):
        return scores[:, : len(biases)] * (1 if model == "trained" else 0.1)

    monkeypatch.setattr(query_bias, "exchange", exchange)
    found = query_bias.survey("trained", "control", None, [])
    assert found.arrays["scores"][0, 0, :, 0].tolist() == pytest.approx([0.5, 0.33])
    assert found.arrays["control_scores"][1, 0, :, 0].tolist() == pytest.approx([0.02, 0.04])
    assert found.values["maps_mostly"].value == 4
    assert found.values["columns_own"].value == pytest.approx(0.415)
    assert found.values["columns_none"].value == pytest.approx(0.3)
    assert found.values["mostly_own"].value == pytest.approx((0.3 + 0.5 + 0.65) / 3)
    assert found.values["mostly_none"].value == pytest.approx((0.2 + 0.2 + 0.3) / 3)
    assert found.values["control_lent"].value == pytest.approx(0.03)


def test_steps_between_the_printed_ends_of_a_diagonal():
    """(4.5) goes from row j and column 1 to row n and column n - j, (4.7) from row 1 and column j to row j and n."""
    down, right = ideal_gates.printed_steps("4.5", [(6, 3), (9, 2)])
    assert (down.tolist(), right.tolist()) == ([3, 7], [2, 6])
    down, right = ideal_gates.printed_steps("4.7", [(6, 3), (9, 2)])
    assert (down.tolist(), right.tolist()) == ([2, 1], [3, 7])


def test_a_kind_of_map_is_read_as_causal_if_it_is(monkeypatch):
    asked = []
    monkeypatch.setattr(calibration.gates, "read_gates", lambda maps, causal: asked.append(causal) or "reading")
    monkeypatch.setattr(calibration, "draw_maps", lambda kind, n, count, rng: (np.full((count, n), 1.0), "truth"))
    attention, reading, truth = calibration.read_kind("causal, seven", 5, 2, torch.device("cpu"))
    assert (attention.shape, reading, truth) == ((calibration.COUNT, 5), "reading", "truth")
    calibration.read_kind("seven", 5, 2, torch.device("cpu"))
    assert asked == [True, False]


def test_rows_of_the_released_code_are_normalised_with_their_skip_connection():
    x = double([1, 5, 0], [2, 6, 0.5])
    attention, values = double([[1, 0], [0.5, 0.5]]), double([[2, 0, 1], [0, 4, 0]])
    found = released_code.first_norm_rows(x, attention, values, 0.0)  # of (3, 5, 1) and (3, 8, 1)
    torch.testing.assert_close(found[0], double(0, 2, -2) / (8 / 3) ** 0.5)
    torch.testing.assert_close(found[1], double(-1, 4, -3) / (26 / 3) ** 0.5)


# ---- ranks, similarity and the stream


def test_switches_stand_in_the_places_of_the_arrays():
    found = dict(switches.settings())
    assert len(found) == math.prod(switches.SHAPE)
    names = {place: each.describe() for place, each in found.items()}
    whole, linear = names[1, len(switches.MLPS) - 1, 1, 1], names[0, 1, 0, 0]
    assert ("skip" in whole, "MLP" in whole, "linear" in whole, "LayerNorm" in whole) == (True, True, False, True)
    assert ("skip" in linear, "linear MLP" in linear, "LayerNorm" in linear) == (False, True, False)
    assert "MLP" not in names[1, 0, 1, 0]


def test_a_line_is_fitted_through_the_means(monkeypatch):
    """With units that read 1, 2 and 6 the line passes through the mean of GELU at the mean of what it reads."""
    x = double([1, 0], [2, 0], [6, 3])
    mlp = SimpleNamespace(W_in=double([1, 0, 2], [0, 1, -1]), b_in=double(0, 0.5, -1))
    monkeypatch.setattr(rank_controls, "run_layer", lambda rows, layer: SimpleNamespace(first=rows))
    monkeypatch.setattr(rank_controls, "apply_mlp", lambda rows, mlp: rows @ double([2, 0], [1, 3]) + double(5, 7))
    observed = SimpleNamespace(layers=[SimpleNamespace(mlp=mlp)], states=[[x[:2]], [x[2:]]])
    (fit,) = rank_controls.fit_mlps(observed)
    z = (x @ mlp.W_in + mlp.b_in).numpy()
    g = torch.nn.functional.gelu(torch.tensor(z)).numpy()
    for unit in range(3):
        slope, shift = np.polyfit(z[:, unit], g[:, unit], 1)
        assert (fit.slope[unit].item(), fit.shift[unit].item()) == pytest.approx((slope, shift))
    rows = x @ fit.map.W_in + fit.map.b_in
    written = rows @ fit.map.W_out + fit.map.b_out
    torch.testing.assert_close(written, x @ double([2, 0], [1, 3]) + double(5, 7), atol=0.05, rtol=0)


def test_the_head_that_is_drawn_is_the_fourth_of_the_first_layer_or_the_last_there_is():
    def of(layers, heads):
        return similarity.choose_head(
            SimpleNamespace(layers=range(layers), attention=[SimpleNamespace(heads=heads)] * layers)
        )

    assert (of(5, 12).layer, of(5, 12).head, of(5, 2).head) == (0, 3, 1)


def test_a_jacobian_has_rank_two_apart_from_the_gain():
    norm = no_norm(5)
    norm = type(norm)(double(1, 2, 0.5, 3, 4), double(0, 1, 0, 0, 2), 0.0)
    error, third = stream._compare_jacobian(double(1, -2, 4, 0.5, 3), norm)
    assert max(error, third) < 1e-12


def test_a_sentence_is_the_mean_row_after_the_last_layer(monkeypatch):
    monkeypatch.setattr(stream, "encode", lambda x, layers: [x, 2 * x, 5 * x])
    texts = [[double([1, 2], [3, 6]), "further"], [double([0, 1], [0, 2], [0, 6]), "further"]]
    found = stream.sentences(networks.Network(None, [], texts, []), [])
    assert found.tolist() == [[10, 20], [0, 15]]


def test_fully_mixed_blocks_are_as_many_as_there_are_heads():
    found = survey.measure_coupling({"trained": {"coupling": np.zeros((6, 7, 4, 4))}})
    assert found.mixed == 0.75


# ---- rotary positions


def test_windows_of_single_heads_are_spread_evenly():
    windows = torch.arange(2 * runs.HEAD_WINDOWS * 3).reshape(-1, 3)
    assert runs.choose_windows(windows)[:, 0].tolist() == list(range(0, 2 * runs.HEAD_WINDOWS * 3, 6))


def test_a_loss_is_taken_without_the_parts_of_each_way(monkeypatch):
    monkeypatch.setattr(runs, "Scores", lambda biases, rotary, drop: (biases, rotary, drop))
    seen = []
    monkeypatch.setattr(runs, "evaluate", lambda *given: seen.append(given) or (float(len(seen)), -1.0))
    losses = runs.lose_parts("model", "windows", "biases", "rotary")
    assert losses == [float(k + 1) for k in range(len(WAYS))]
    assert seen == [("model", "windows", ("biases", "rotary", drop)) for drop in WAYS.values()]


def test_one_head_after_another_loses_its_kernel(monkeypatch):
    shape = (runs.LAYERS, runs.HEADS)

    class Watching:
        def __init__(self, biases, rotary, drop=(), head=None, watch=()):
            self.drop, self.head, self.watch = drop, head, watch

        def previous_attention(self):
            offset = 0 if self.head is None else 100 * (self.head[0] + 1) + self.head[1]
            return torch.full((len(self.watch), *shape), float(offset))

    monkeypatch.setattr(runs, "Scores", Watching)

    def evaluate(model, windows, scores):
        assert scores.drop == (() if scores.head is None else ("kernel",))
        assert scores.watch == (tuple(WAYS) if scores.head is None else ("whole",))
        return (5.0 if scores.head is None else 6.0 + scores.head[0] + scores.head[1] / 10, -1.0)

    monkeypatch.setattr(runs, "evaluate", evaluate)
    found = runs.lose_heads(None, None, None, None)
    assert found["by_head"][1, 3] == pytest.approx(2.3)
    assert found["previous"].shape == (len(WAYS), *shape)
    assert found["previous_after"][1, 3, 0, 2] == 203


def test_the_attention_to_the_previous_token_is_a_mean_over_rows():
    scores = Scores([], None, watch=("whole", "no kernel"))
    scores.previous = {1: double([2, 6, 8], [4, 4, 4]), 0: double([10, 20, 30], [1, 2, 3])}
    scores.rows = {1: 2, 0: 10}
    assert scores.previous_attention().tolist() == [[[1, 2, 3], [1, 3, 4]], [[0.1, 0.2, 0.3], [2, 2, 2]]]


def test_shares_of_attention_are_means_over_rows():
    split = SplitRows.__new__(SplitRows)
    split.biases, split.rows = {"bias": None, "mean": None}, 4
    of = {("bias", 0): 4, ("bias", 1): 8, ("mean", 0): 12, ("mean", 1): 16}
    split.shares = {key: double([1, 2, 3], [0, 0, 5]) * value for key, value in of.items()}
    found = split.means()
    assert found.shape == (2, 2, 3, 2)  # counted, layer, head, part
    assert found[0, 1].tolist() == [[2, 0], [4, 0], [6, 10]]
    assert found[1, 0, 2].tolist() == [9, 15]


def test_a_projection_without_a_bias_has_zeros_for_one():
    attention = torch.nn.Module()
    attention.query_key_value = torch.nn.Linear(3, 5, bias=False)
    assert rotary_probe._bias(attention).tolist() == [0] * 5
    attention.query_key_value = torch.nn.Linear(3, 5)
    assert rotary_probe._bias(attention) is attention.query_key_value.bias


# ---- one score, its parts, and tables


def test_a_query_sees_itself_and_earlier_keys():
    rows = torch.tensor([0, 2])
    assert parts.visible(rows, 4, True).tolist() == [[True, False, False, False], [True, True, True, False]]
    assert parts.visible(rows, 3, False).tolist() == [[True] * 3] * 2


def test_the_first_layer_is_split_over_tokens_and_then_positions(monkeypatch):
    monkeypatch.setattr(parts.extraction, "embed", lambda model, ids: ("tokens", "positions", "norm"))
    monkeypatch.setattr(parts, "split_six", lambda *given: given)
    assert parts.first_layer(None, None, "layer", True) == ("tokens", "positions", "layer", "norm", True)


def test_shares_stand_in_the_column_of_their_layer():
    shares = np.arange(12.0).reshape(4, 3)
    table = tables.layers(shares)
    assert list(table.columns) == ["layer 0", "layer 1", "layer 2", "layer 3"]
    assert table["layer 1"].tolist() == [3, 4, 5]
    ways = {name: shares * (k + 1) for k, name in enumerate(tables.SUMMING)}
    content = tables.content_by_layer(ways)
    assert content.loc["reverse order", "layer 2"] == pytest.approx(3 * (6 + tables.CONTENT) / (6 + 7 + 8))
    assert tables.splits({"one": shares}).loc["one"].tolist() == [4.5, 5.5, 6.5, 16.5]


def test_six_terms_and_effects_keep_their_names():
    shares = {"a": SimpleNamespace(shares=np.arange(6.0)), "b": SimpleNamespace(shares=np.arange(6.0) + 10)}
    table = tables.first_layers(shares)
    assert table.loc["b"].tolist() == [10, 11, 12, 13, 14, 15]
    assert list(table.columns) == list(tables.SIX_NAMED)
    effect = SimpleNamespace(nats=Value(0.1), share=Value(0.2), at_equal_depth=0.3, with_depth=0.4)
    found = tables.effects({"m": dict.fromkeys(tables.CHANGES, effect)})
    assert found.index[0] == f"m, {next(iter(tables.CHANGES.values()))}"
    assert found.iloc[0].to_dict() == {"nats": 0.1, "share": 0.2, "nats, layer taken out": 0.3, "layer": 0.4}


def test_forms_of_gpt2_stand_by_their_nearest_and_farthest_layer():
    names = [*patterns.EXACT, *patterns.LEFT_OUT]
    gpt2 = {form: np.array([3.0, 1, 2]) + 10 * k for k, form in enumerate(names)}
    table = patterns.forms(SimpleNamespace(random={"gpt2": {names[0]: 0.5}}, gpt2=gpt2))
    assert isinstance(table, pd.DataFrame)
    assert table["GPT-2, nearest layer"].tolist() == [1 + 10 * k for k in range(len(names))]
    assert table["GPT-2, farthest layer"].tolist() == [3 + 10 * k for k in range(len(names))]
    assert table["random gpt2 layer"].iloc[0] == 0.5


# ---- text, code and variants


def test_attention_moves_by_half_of_what_differs_in_a_row():
    """Three rows of two keys: half of 1, of 0.5 and of 0, which is a third of 0.75."""
    one, other = double([[1, 0], [0.5, 0.5], [0, 1]]), double([[0.5, 0.5], [0.75, 0.25], [0, 1]])
    assert text_and_code.total_variation(one, other).tolist() == pytest.approx([0.25])


def test_the_authors_record_is_read_and_not_made_again(monkeypatch):
    monkeypatch.setattr(authors, "live_or_record", lambda *given, recompute: (given, recompute))
    assert authors.read("name", "inputs") == ("name", "inputs")


def test_three_models_are_read_from_their_own_records(monkeypatch):
    def of(offset, **arrays):
        return record(**{name: np.array(value) + offset for name, value in arrays.items()})

    ladder = np.arange(len(side_by_side.RUNGS)) + 10
    by_rung = np.arange(len(side_by_side.LADDER)) + 20
    records = {
        "variant-fine-tuned": of(0, D=1, ladder_D=ladder),
        "variant-measures": of(100, D=2, control_D=3),
        "bert-normality-ladder": of(200, **{"D": 4, f"D{side_by_side.CONTROLS}": by_rung}),
        "bert-gates-ladder": of(300, **{"gates": 5, f"gates{side_by_side.CONTROLS}": by_rung}),
    }
    monkeypatch.setattr(side_by_side.experiments, "load", records.__getitem__)
    monkeypatch.setattr(side_by_side.reading, "load", lambda name: SimpleNamespace(width=len(name)))
    tuned, scratch, text = side_by_side.read_models().values()
    assert list(side_by_side.read_models()) == ["fine-tuned", "scratch", "text"]
    arrays = [next(v for v in vars(model).values() if isinstance(v, dict)) for model in (tuned, scratch, text)]
    assert [int(arrays[0][rung]("D")) for rung in RUNGS] == [10 + k for k in range(len(RUNGS))]
    assert (int(arrays[0]["trained"]("D")), int(arrays[1]["trained"]("D")), int(arrays[1]["random"]("D"))) == (
        1,
        102,
        103,
    )
    assert (int(arrays[2]["trained"]("D")), int(arrays[2]["trained"]("gates"))) == (204, 305)
    for rung in RUNGS:
        place = side_by_side.LADDER.index(rung)
        assert (int(arrays[2][rung]("D")), int(arrays[2][rung]("gates"))) == (220 + place, 320 + place)
