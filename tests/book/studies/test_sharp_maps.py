"""What the studies of gates read off single maps and single heads, at the limits of what counts."""

import math
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.statistics.intervals import FEWEST
from book.publish.records import Value
from book.studies.bert_gates import controls, experiments, gate_census, interventions, query_bias, sink
from book.studies.bert_gates.gate_census import ModelCensus, Ratio
from tests.book.studies.known import double, plain, record
from tests.book.studies.test_known_more_gates import records_of_the_detector

chapter = import_module("book.studies.bert_gates.measure")  # the package exports a function of that name
detector = import_module("book.studies.gate_detector.measure")
GATES = list(gates.GATES)


# ---- maps


def sentence_of(monkeypatch, *layers):
    """Measure a sentence whose maps are given, and tell how they were read."""
    seen, visit = [], []

    class Encoding(dict):
        def to(self, device):
            return self

    class Tokenizer:
        def __call__(self, text, return_tensors):
            return Encoding(input_ids=[[1]])

        def convert_ids_to_tokens(self, ids):
            return ids

    def model(input_ids):
        for layer, maps in enumerate(layers):
            visit[0](layer, torch.stack([maps, 0 * maps + 0.5])[:, None])  # the second is of another text

    def read_gates(maps, causal):
        seen.append((maps, causal))
        return SimpleNamespace(cells=maps.round().to(torch.int8), scores=maps.sum(-1))

    monkeypatch.setattr(chapter.checkpoints, "find", lambda name: SimpleNamespace(name="found"))
    monkeypatch.setattr(chapter.pretrained, "tokenizer", lambda _: Tokenizer())
    monkeypatch.setattr(chapter.pretrained, "load", lambda *_, **__: model)
    monkeypatch.setattr(chapter.streaming, "visit_maps", visit.append)
    monkeypatch.setattr(chapter.attention_hooks, "with_attention", lambda *_: nullcontext())
    monkeypatch.setattr(chapter.gates, "read_gates", read_gates)
    return chapter.measure_sentence(SimpleNamespace(model="m", device="cpu")), seen[0]


CAUSAL = double([1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5])


def test_a_sentence_is_read_as_causal_if_no_query_sees_a_later_key(monkeypatch):
    found, (maps, causal) = sentence_of(monkeypatch, CAUSAL, CAUSAL)
    assert causal is True
    assert torch.equal(maps, torch.stack([CAUSAL, CAUSAL])[:, None])
    assert found.weights_for_each_near_one == 9
    ahead = CAUSAL.clone()
    ahead[0] = double(0.75, 0.25, 0)
    found, (_, causal) = sentence_of(monkeypatch, CAUSAL, ahead)
    assert causal is False
    assert (found.smallest_weight, found.weights_for_each_near_one) == (0, 18)
    found, _ = sentence_of(monkeypatch, CAUSAL / 2 + 1 / 6)
    assert found.smallest_weight == pytest.approx(1 / 6)


def test_a_volume_is_held_in_rows_that_have_a_sink_and_something_else():
    """The first two rows are nearly all sink, and nearly all something else: they stay as they are."""
    little = 1e-7
    maps = double([1 - little, little], [little, 1 - little], [0.5, 0.5], [0.25, 0.75])
    held = controls.hold_volume(maps, maps * sink.choose_sink(maps))
    assert torch.equal(held[:2], maps[:2])
    mean = (1 + 0.5 + 0.25) / 4
    torch.testing.assert_close(held[2:], double([mean, 1 - mean], [mean, 1 - mean]))


def test_a_layer_without_columns_has_no_share_of_its_first_column(monkeypatch):
    scores = torch.zeros(1, len(GATES)).double()
    for columns, share in ((double([0, 0, 0]), 0), (double([5e-10, 0, 0]), 0.5), (double([0.25, 0.5, 0.25]), 0.25)):
        reading = SimpleNamespace(scores=scores, columns=columns)
        monkeypatch.setattr(experiments.gates, "read_gates", lambda maps, reading=reading: reading)
        found = experiments.read_layer(torch.eye(3).double(), plain(3), double([0, 0, 0]))
        assert found["first of columns"] == pytest.approx(share)


def test_the_length_of_what_the_first_token_brings_is_a_mean_over_heads():
    """In one head key 0 brings three times as much as the others, in the other as much as they do."""
    x = torch.full((8, 2), 1.0).double()
    x[0, 0] = 3
    layer = plain(2, heads=2, W_O=torch.eye(2))
    layer.W_V[0, 0, 0] = layer.W_V[1, 1, 0] = 1
    assert experiments.measure_layer(x, layer)["length of first"] == pytest.approx(2)


def test_a_block_must_have_more_than_the_lines():
    scores = torch.zeros(4, len(GATES))
    scores[0, [0, 4]], scores[1, [2, 4]], scores[2, [2, 4]] = 0.25, 0.25, torch.tensor([0.25, 0.5])
    scores[3, 4] = 0.05
    assert [experiments.CLASSES[k] for k in experiments.classify(scores)] == ["vertical", "diagonal", "block", "block"]


def test_maps_in_any_order_are_read_with_the_scores_of_their_head(monkeypatch):
    """What every map of a layer reads as is kept by order, and by head."""
    module = import_module("book.studies.gate_detector.calibration")
    orders = iter([torch.tensor([[1, 2, 0]]), torch.tensor([[2, 0, 1]])])
    monkeypatch.setattr(module, "draw_orders", lambda *_: next(orders))
    monkeypatch.setattr(module.gates, "read_gates", lambda maps: SimpleNamespace(scores=maps[0].flatten()))
    layer = plain(1, W_Q=torch.eye(1), W_K=torch.eye(1))
    x = double([0], [1], [math.log(2)])
    own, keys, both = module.read_orders(x, layer, None).view(3, 3, 3)
    sums = [3, 1 + math.e + 2, 1 + 2 + 2 ** math.log(2)]
    due = [[1, 1, 1], [1, math.e, 2], [1, 2, 2 ** math.log(2)]]
    due = np.array(due) / np.array(sums)[:, None]
    np.testing.assert_allclose(own, due)
    np.testing.assert_allclose(keys, due[:, [1, 2, 0]])
    np.testing.assert_allclose(both, due[[2, 0, 1]][:, [1, 2, 0]])


# ---- heads


def test_heads_of_a_readers_model_are_compared_with_those_of_its_control(monkeypatch):
    """Every model is its seed; the effects tell text, head and way."""
    asked = []
    monkeypatch.setattr(interventions.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(interventions.pretrained, "tokenizer", lambda of: f"tokenizer of {of}")
    monkeypatch.setattr(interventions.pretrained, "load", lambda of, control_seed, device: (of, control_seed, device))
    passages = lambda **given: asked.append(given) or ["passages"]  # noqa: E731
    monkeypatch.setattr(interventions.texts, "passages", passages)
    effects = np.array([[[[1.0, 10]]], [[[3, 30]]]])  # two texts
    monkeypatch.setattr(interventions, "measure_effects", lambda *given: asked.append(given) or (effects, None))
    inputs = SimpleNamespace(model="own", texts="mine", device="cpu")
    found = interventions.ablate_heads(inputs)
    assert asked[0] == {"longest": 100, "count": 2, "source": "mine"}
    assert [given[0][1] for given in asked[1:]] == [None, 0]
    assert asked[1][1:] == ("tokenizer of own", ["passages"])
    assert found["control"] == {"zero": [[2]], "uniform": [[20]]}
    monkeypatch.setattr(interventions.query_bias, "survey", lambda *given: given)
    found = interventions.exchange_biases(inputs)
    assert found == (("own", None, "cpu"), ("own", 0, "cpu"), "tokenizer of own", ["passages"])
    assert asked[-1] == {"longest": 100, "count": 4, "source": "mine"}


def test_a_head_is_silenced_in_one_sequence_and_levelled_in_the_next():
    """Two heads, five sequences that are not alike, two tokens: a level head gives its own sequence's mean."""
    values = torch.arange(20.0).view(5, 2, 2, 1)
    queries = torch.zeros(5, 2, 2, 1)
    other = interventions.Ablate(1)(0, queries, queries, values, scale=1.0)
    assert torch.equal(other, values.mean(2, keepdim=True).expand_as(values))  # equal scores, and another layer
    keys = torch.tensor([0.0, 100]).view(1, 1, 2, 1).expand(5, 2, 2, 1)
    found = interventions.Ablate(1)(1, queries + 1, keys, values, scale=1.0)[..., 0]
    due = values[:, :, 1].expand(-1, -1, 2).clone()  # all look at the second token
    due[0, 0], due[2, 1] = 0, 0
    due[1, 0], due[3, 1] = 4.5, 14.5
    torch.testing.assert_close(found, due)
    causal = interventions.Ablate(1)(0, queries, queries, values, scale=1.0, causal=True)[..., 0]
    assert causal[0].tolist() == [[0, 0.5], [2, 2.5]]


def test_ablation_and_exchange_are_computed_for_a_readers_model(monkeypatch):
    head = np.array([[0.25]])
    effects = {"trained": {"zero": head, "uniform": 2 * head}, "control": {"zero": head, "uniform": head}}
    monkeypatch.setattr(interventions, "ablate_heads", lambda inputs: effects)
    scores = np.zeros((1, 1, len(GATES)))
    census = SimpleNamespace(scores={"trained": scores, "control": scores})
    ablation, numbers = interventions.measure_ablation(SimpleNamespace(departs=True), census)
    assert (ablation.source, ablation.effects) == ("Computed just now.", effects)
    assert (numbers.zero_other, numbers.level_other) == ("0.2500", "0.5000")
    assert numbers.zero_closed == gate_census.NOTHING
    names = ("columns_own", "columns_none", "columns_random", "mostly_own", "mostly_none", "mostly_random")
    values = {name: Value(0.125, 0, low=0.1, high=0.2, n=FEWEST) for name in (*names, "control_own", "control_lent")}
    monkeypatch.setattr(interventions, "exchange_biases", lambda _: SimpleNamespace(values=values))
    exchange, numbers = interventions.measure_bias_exchange(SimpleNamespace(departs=True))
    assert exchange.source == "Computed just now."
    assert (numbers.columns_own, numbers.control_own, numbers.columns_texts) == ("12 %", "12.5 %", FEWEST)


def test_a_head_that_is_closed_in_half_of_its_maps_is_closed():
    closed = {"trained": np.array([[0.5, 0.49], [0.5, 0.2], [0.1, 0.2]])}
    effects = np.array([[1.0, 2], [4, 8], [16, 32]])
    found = interventions.compare_closed_heads("", closed, {"trained": {"zero": effects, "uniform": -effects}})
    assert (found.closed_heads, found.closed_in_first_layer, found.others_in_first_layer) == (2, 1, 1)
    assert (found.medians.zero_closed, found.medians.zero_other, found.medians.zero_peers) == (2.5, 12, 2)
    assert found.medians.level_closed == -2.5


def test_each_way_has_its_own_biases_and_its_own_place(monkeypatch):
    """Two layers of two heads; the bias of each way is added in the place of the model's."""
    read = []

    def read_gates(maps, causal):
        read.append(maps)
        return SimpleNamespace(scores=torch.full((2, len(GATES)), float(len(read))))

    monkeypatch.setattr(query_bias.gates, "read_gates", read_gates)
    monkeypatch.setattr(query_bias.streaming, "visit_maps", lambda _: lambda *_, **__: None)
    own = [double([0, 0], [0, 0]), double([1, 0], [2, 0])]
    others = [double([7, 7], [7, 7]), double([3, 0], [2, 0])]
    reader = query_bias.Exchange(own, {"own": own, "other": others})
    assert reader.found.shape == (2, 2, 2, len(GATES))
    query, key = double([[[1, 0]], [[2, 0]]]), double([[[0, 0], [1, 0]], [[0, 0], [1, 0]]])
    reader(1, query, key, None, scale=0.5)
    assert reader.found[:, :, 0, 0].tolist() == [[0, 1], [0, 2]]
    odds = [(maps[..., 1] / maps[..., 0]).flatten().log().tolist() for maps in read]
    assert odds[0] == pytest.approx([0.5, 1])  # of queries 1 and 2
    assert odds[1] == pytest.approx([1.5, 1])  # 1 - 1 + 3, and 2


# ---- the census, and the detector's page


def census(lengths, by_text) -> ModelCensus:
    gate = np.zeros(len(GATES))
    return ModelCensus({}, {}, gate[None, None], gate, by_text, np.array(lengths), gate[None], gate, gate[None])


def test_texts_are_grouped_in_as_many_groups_as_have_enough_texts():
    for count, groups in ((2 * FEWEST - 1, 1), (2 * FEWEST, 2), (4 * FEWEST, 3)):
        lengths = list(range(count))
        spans, by_length = gate_census.group_by_length(census(lengths, np.zeros((count, len(GATES)))))
        assert (len(spans), len(by_length["open"])) == (groups, groups)
        assert (spans[0].split()[0], spans[-1].split()[-1]) == ("0", str(count - 1))


def test_a_ratio_of_enough_texts_has_bounds_and_one_of_fewer_has_none():
    assert not math.isnan(gate_census.bound_ratio(Ratio(0.5, 0.4, 0.6, FEWEST)).low)
    assert math.isnan(gate_census.bound_ratio(Ratio(0.5, 0.4, 0.6, FEWEST - 1)).high)


def test_ratios_that_may_exceed_1_are_not_held_below_it():
    ratios = {name: Ratio(0.9, 0.5, 1.5, 50) for name in gate_census.RATIOS}
    found = gate_census.bound_ratios(ModelCensus(ratios, {}, *[np.zeros(1)] * 7)).ratios
    assert {name for name in gate_census.SHOWN if found[name].high == 1.5} == {"end_of_diagonal", "points_a_map"}
    assert max(found[name].high for name in ("patterned", "composed", "weak_points")) <= 1


def test_own_scores_are_tabulated_with_intervals_over_documents():
    present = np.zeros((3, 3, len(GATES)))
    present[:, 1, 4] = [0.1, 0.2, 0.3]
    table = detector.OwnScores("", present, present).table()
    assert list(table.index) == list(gates.PATTERNS)
    # a mean of 20 %, and 4.3027 standard errors of 10 % over the root of 3
    assert table.loc["cluster"].tolist() == ["0.0 (0.0 to 0.0)", "20.0 (-4.8 to 44.8)", "0.0 (0.0 to 0.0)"]


def test_lines_and_columns_of_shuffled_scores_are_told_apart(monkeypatch):
    """Two documents, three orders and nine gates: means over documents, in per cent."""
    present = np.random.default_rng(0).random((2, 3, 9))
    records = records_of_the_detector()
    records["gate-detector-own-scores"] = record(shares=present / 2, present=present)
    monkeypatch.setattr(detector, "choose_inputs", lambda device: SimpleNamespace(device=device))
    monkeypatch.setattr(detector, "live_or_record", lambda name, _, recompute: (records[name], name))
    monkeypatch.setattr(detector, "read_causal_gates", lambda device: {})
    found = detector.measure("cpu").numbers
    one, other = present.tolist()
    percent = [[50 * (one[order][gate] + other[order][gate]) for gate in range(9)] for order in range(3)]
    assert found.lines_as_they_are == round(percent[0][1] + percent[0][2] + percent[0][3])
    assert found.lines_shuffled == round(percent[2][1] + percent[2][2] + percent[2][3])
    assert found.clusters_as_they_are == f"{percent[0][4]:.1f} %"
    assert found.clusters_keys_shuffled == f"{percent[1][4]:.1f} %"
    assert found.clusters_shuffled == f"{percent[2][4]:.1f} %"
    assert found.columns_shuffled == f"{percent[2][0]:.1f} %"


def test_causal_gates_are_drawn_from_one_generator(monkeypatch):
    drawn = []
    truth = np.full(len(GATES), 0.05)

    def draw(positions, present, noise, generator, causal):
        drawn.append((noise, generator.random()))
        return SimpleNamespace(truth=truth)

    monkeypatch.setattr(detector, "draw", draw)
    monkeypatch.setattr(detector, "read_specimens", lambda whole, causal, device: [(0, 0, "open") for _ in whole])
    found = detector.read_causal_gates(torch.device("cpu"))
    count = 8 * len(detector.HELD_OUT)
    assert found["open"] == (count, count)
    assert found["closed"] == (0, count)
    numbers = np.random.default_rng(0).random(len(drawn))
    assert [number for _, number in drawn] == numbers.tolist()
    assert [noise for noise, _ in drawn[:16]] == [detector.HELD_OUT[0]] * 8 + [detector.HELD_OUT[1]] * 8


def test_columns_are_the_mean_over_all_layers_of_all_texts(monkeypatch):
    """Two texts through two layers: their columns are 1, 2, 3 and 4, their patterns the halves."""
    types = torch.nn.Parameter(torch.ones(1, 2), requires_grad=False)
    network = SimpleNamespace(embeddings=SimpleNamespace(token_type_embeddings=SimpleNamespace(weight=types)))
    layers = [SimpleNamespace(b_Q=k) for k in range(2)]
    monkeypatch.setattr(controls, "load", lambda _: SimpleNamespace(plain_layers=lambda: layers))
    asked, read = [], []

    def hidden_states(of, tokenizer, some, longest):
        asked.append((some, longest))
        return [["x0", "x1", "x2"]]

    def read_layer(x, layer, lent):
        read.append((x, layer.b_Q, lent, types.sum().item()))
        shares = np.zeros(len(GATES))
        shares[controls.DIRECTIONAL] = len(read)
        return {"gates": shares, "patterned": np.array(len(read) / 2), "entropy": np.array(0.5)}

    monkeypatch.setattr(controls.extraction, "hidden_states", hidden_states)
    monkeypatch.setattr(controls, "read_layer", read_layer)
    assert controls.columns_of(network, None, ["a", "b"], typed=True) == (2.5, 1.25)
    assert asked == [(["a"], 128), (["b"], 128)]
    assert read == [("x0", 0, 0, 2)] * 2 + [("x1", 1, 1, 2)] * 2


def test_numbers_of_the_objections_are_means_over_seeds_and_over_documents(monkeypatch):
    table = record(columns=[[0.2, 0.01], [0.3, 0.03], [0.7, 0.02]], patterned=[[0.9, 0.0], [0.8, 0.05], [0.1, 0.01]])
    table.arrays["held"] = [0.02, 0.04, 0.12]
    table.arrays |= {"columns as long": np.array([0.1, 0.2, 0.6]), "patterned as long": np.array([0.5, 0.6, 1.0])}
    table.arrays["entropy as long"] = np.array([[0.9, 0.6], [0.7, 0.9], [0.8, 0.9]])
    asked = []
    live = lambda name, given, recompute: asked.append((name, given, recompute)) or (table, "")  # noqa: E731
    monkeypatch.setattr(controls, "live_or_record", live)
    assert vars(controls.measure_objections("inputs")) == {
        "columns_typed": "40.0 %",
        "columns_untyped": "2.0 %",
        "patterned_typed": "60 %",
        "patterned_untyped": "5.0 %",
        "sink_held": pytest.approx(0.06),
        "columns_as_long": "30 %",
        "patterned_as_long": "70 %",
        "entropy_as_long": "0.80",
    }
    assert asked == [("bert-gates-objections", "inputs", False)]
