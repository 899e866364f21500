"""Weights, gates, phases and one sequence of the variant classifier: answers known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig

from analysis.maps.gates import GATES
from book.lab.dna.fasta import Gene
from book.publish.records import Disagrees
from book.studies.variant_classifier import authors, base, controls, maps, sequence, tables
from book.studies.variant_classifier.controls import Recorded
from tests.book.studies.known import Known, double, plain, record


def recorded(**given: Known) -> Recorded:
    names = ("measures", "seeds", "controls", "real")
    return Recorded(**{name: given.get(name, record()) for name in names}, sources=())


def gates_of(*shape: int, **carried: float) -> np.ndarray:
    """Return the shares of maps that all hold the same."""
    shares = np.zeros((*shape, len(GATES)))
    for gate, share in carried.items():
        shares[..., GATES.index(gate)] = share
    return shares


def weights_of(monkeypatch, live: np.ndarray) -> maps.Weights:
    """Two seeds, three maps, one layer, two heads: trained 1 to 12, random 2 and 4, 1 and 3, ..."""
    trained = np.arange(1.0, 13).reshape(2, 3, 1, 2)
    control = np.array([[[[2.0, 4]], [[1.0, 3]], [[5.0, 5]]], [[[6.0, 6]], [[8.0, 8]], [[10.0, 14]]]])
    monkeypatch.setattr(maps.variant_measures, "largest_values", lambda model: live)
    grown = np.zeros((2, 2, 3, 1, 2))
    grown[1, 1, 2, 0, 0] = 0.25
    records = recorded(seeds=record(maps=trained, grown=grown), controls=record(maps=control, grown=grown + 0.5))
    return maps.measure_weights(records, SimpleNamespace(run=SimpleNamespace(model=None)))


def test_weights_are_over_the_mean_of_random_ones(monkeypatch):
    found = weights_of(monkeypatch, np.arange(1.0, 7).reshape(3, 1, 2))
    assert found.largest["trained"][:, 1, 0, 0].tolist() == [7, 9, 11]
    assert found.over_random["trained"].reshape(3, 4).tolist() == [
        pytest.approx([1 / 3, 2 / 3, 7 / 6, 8 / 6]),
        pytest.approx([3 / 2, 4 / 2, 9 / 8, 10 / 8]),
        pytest.approx([5 / 5, 6 / 5, 11 / 12, 12 / 12]),
    ]
    assert found.most_grown == "33, 100, 20 %"
    assert (found.longer, found.random_sigma) == ("25 %", "0.71")
    sigma = 0.02 * (math.sqrt(768) + 8)
    assert found.paper.tolist() == pytest.approx([1.72 / sigma, 2.68 / sigma, 0.98 / sigma])


def test_weights_of_another_classifier_are_refused(monkeypatch):
    with pytest.raises(Disagrees, match="not those of the bundled"):
        weights_of(monkeypatch, np.arange(7.0, 13).reshape(3, 1, 2))


def test_gates_are_means_over_sequences_and_controls_the_most_of_any(monkeypatch):
    monkeypatch.setattr(maps, "PAPER_HEADS", {"open": (4, (1, 0), ("open",))})
    monkeypatch.setattr(maps, "measure_gallery", lambda shares, passage: (shares, passage))
    monkeypatch.setattr(maps, "measure_mixture", lambda shares: shares.sum())
    many = gates_of(4, 2, 2)
    many[:2, 1, 0, GATES.index("open")] = 0.2  # the mean over four sequences is 0.1
    trained = gates_of(3, 2, 2, 2, cluster=0.01)
    trained[0, ..., GATES.index("open")] = 0.9  # seed 0 is read from the other record
    trained[1, :, 0, 1, GATES.index("open")] = [0.2, 0.4]
    trained[1, 0, 1, 1, GATES.index("cluster")] = 0.05
    trained[2, :, 0, 0, GATES.index("cluster")] = 0.5
    control = gates_of(3, 2, 2, 2)
    control[2, 0, 0, 0] = 0.4  # 0.2 in the mean
    of_measures = gates_of(4, 2, 2)
    of_measures[:, 1, 1] = 0.1
    found = maps.measure_gates(
        recorded(
            measures=record(gates=many, control_gates=of_measures),
            seeds=record(gates=trained),
            controls=record(gates=control),
        ),
        "passage",
    )
    assert (found.open, found.open_ranks, found.open_named) == ("30.00 %", "1, 2, 1", "1e+01 %")
    assert found.by_seed[0, 1, 0, GATES.index("open")] == pytest.approx(0.1)
    assert found.control[..., 0].tolist() == [[0.2, 0], [0, pytest.approx(0.1)]]
    assert (found.clustered, found.clustered_sequences.tolist()) == ("0, 1, 2", [0, 1, 2])
    assert len(found.control_maps) == 3 * 2 + 4
    assert found.mixtures == pytest.approx(tuple(seed.sum() for seed in trained))
    assert found.gallery[0].shape == (2, 2, len(GATES))
    assert found.gallery[0][0, 1, GATES.index("open")] == 0


def test_a_head_of_the_paper_has_a_rank_among_all_heads():
    shares = gates_of(2, 1, 3)
    shares[0, 0, :, GATES.index("backward")] = [0.3, 0.1, 0.2]
    shares[0, 0, :, GATES.index("forward")] = [0.0, 0.0, 0.15]
    control = gates_of(1, 3, backward=0.01, forward=0.02, open=0.5)
    found = maps.measure_head_of_paper(shares, control, 5, (0, 0), ("backward", "forward"))
    assert (found.figure, found.head, found.carried.tolist()) == (5, (0, 0), [0.3, 0])
    assert found.control == pytest.approx(0.03)
    assert found.ranks == (2, 1)  # 0.35 is above 0.3; a tie is not above


def test_mixtures_count_maps_and_sequences_are_independent():
    shares = gates_of(2, 1, 4)
    held = [
        {"cluster": 0.05, "open": 0.05},
        {"cluster": 0.2, "closed": 0.7},
        {"open": 0.06},
        {"closed": 0.9},
        {"cluster": 0.1, "backward": 0.05},
        {"directional": 0.04},
    ]
    for place, of in zip(np.ndindex(2, 1, 4), held, strict=False):
        for gate, share in of.items():
            shares[(*place, GATES.index(gate))] = share
    found = maps.measure_mixture(shares)
    assert [each.value for each in found] == [4 / 8, 3 / 8, pytest.approx(2 / 3)]
    assert found.cluster.low < 0.02  # two cases, not eight
    assert found.cluster.high > 0.9


def test_the_gallery_has_the_heads_with_most_of_each_gate(monkeypatch):
    """Two layers of three heads; maps of six tokens of which the first three attend to the last three."""
    shares = gates_of(2, 3)
    for place, gate in {(0, 2): "directional", (1, 1): "open", (0, 0): "forward", (1, 0): "cluster"}.items():
        shares[(*place, GATES.index(gate))] = 0.5
    shares[0, 1, GATES.index("cluster")] = shares[0, 1, GATES.index("open")] = 0.3
    seen = []

    def read_gates(some):
        seen.append((tuple(some.shape), some[1].argmax().item()))
        scores = gates_of(5)
        for k, gate in enumerate(["directional", "open", "backward", "cluster", "cluster"]):
            scores[k, GATES.index(gate)] = 0.1 * (k + 1)
        scores[2, GATES.index("forward")] = scores[4, GATES.index("open")] = 0.04
        return SimpleNamespace(scores=torch.tensor(scores))

    monkeypatch.setattr(maps, "read_gates", read_gates)
    attention = torch.zeros(3, 8, 8)
    attention[:, :3, 3:6], attention[1, 3:6, :3] = 1 / 3, 1 / 6
    stations = [SimpleNamespace(attention=attention), SimpleNamespace(attention=2 * attention)]
    passage = SimpleNamespace(tokens=6, stations={"trained": stations, "control": stations[::-1]})
    found = maps.measure_gallery(shares, passage)
    assert found.heads.tolist() == [[0, 2], [1, 1], [0, 0], [1, 0], [0, 1]]
    assert seen == [((5, 6, 6), 3)] * 2  # the largest cell is in row 0, key 3
    np.testing.assert_allclose(found.maps[0, 0], [[0, 2], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(found.maps[0, 1], [[0, 4], [2, 0]], atol=1e-6)
    np.testing.assert_allclose(found.maps[1, 1], [[0, 2], [1, 0]], atol=1e-6)
    assert found.carried[0].tolist() == pytest.approx([0.1, 0.2, 0.34, 0.4, 0.04])


def test_clusters_are_held_where_the_phase_changes(monkeypatch):
    """Three classes, of which the last has one phase; two seeds, one layer, two heads."""
    pairs = np.array([0.5, 0.75, 1.0])
    within = np.arange(6.0).reshape(3, 1, 2)
    monkeypatch.setattr(maps.controls, "firsts", lambda data: f"firsts of {data}")
    monkeypatch.setattr(maps.controls, "survey", lambda *given: {"pairs": pairs, "within": within, "given": given})
    turns = {"trained": np.array([[2.0, 4.0]]), "control": np.array([[1.0, 1.5]])}
    monkeypatch.setattr(maps.controls, "survey_turns", lambda model, data, genes: turns[model])
    clusters = gates_of(2, 3, 1, 2)
    clusters[0, :, 0, :, GATES.index("cluster")] = [[0.05, 0.3], [0.2, 0.04], [0.01, 0.03]]
    clusters[1, :, 0, :, GATES.index("cluster")] = [[0.0, 0.0], [0.0, 0.1], [0.06, 0.0]]
    passage = SimpleNamespace(run=SimpleNamespace(data="data", model="trained"), models={"trained": "trained"})
    passage.models["control"] = "control"
    tuned = SimpleNamespace(turn=np.array([[[8.0, 10.0]], [[5.0, 6.0]], [[1.0, 1.0]], [[2.0, 2.0]]]))
    control = np.stack([within / 10, within, within])
    records = recorded(seeds=record(gates=clusters), controls=record(within=control))
    found = maps.measure_phases(records, passage, tuned)
    assert found.unchanged.tolist() == [False, False, True]
    assert (found.holding_changed.tolist(), found.holding_unchanged.tolist()) == ([0.75, 0.25], [0, 0.5])
    assert (found.hold, found.hold_still) == ("75, 25 %", "0, 50 %")
    assert (found.shifted, found.unshifted) == ("20 % to 30 %", "6 %")
    assert found.clusters[0].tolist() == pytest.approx([0.175, 0.12, 0.02])
    assert found.control.tolist() == (within / 10).tolist()
    assert (found.turn, found.turn_control, found.turn_tuned, found.turn_start) == (3, 1.25, 9, 5.5)


def test_rows_turn_where_the_phase_changes_and_nowhere_else(monkeypatch):
    """Eight words in two blocks behind [CLS], with one row of padding; blocks of the other sequence do not change."""
    blocks = torch.eye(2).repeat_interleave(4, 0).repeat_interleave(4, 1) / 4
    attention = torch.zeros(2, 10, 10)
    attention[:, 0, :9] = 1 / 9
    attention[:, 1:9, 1:9] = 0.9 * blocks + 0.1 * torch.eye(8)
    attention[1, 1:9, 1:9] = 0.8 * blocks + 0.2 * torch.eye(8)
    keep = torch.arange(10) < 9
    phase = {"changes": np.repeat([0, 3], [4, 5]), "stays": np.zeros(9, int)}
    monkeypatch.setattr(controls.sites, "token_phases", lambda gene: phase[gene.name])
    monkeypatch.setattr(
        controls.variant_measures, "pass_all", lambda *_: ([SimpleNamespace(attention=attention)] * 2, keep)
    )
    genes = [Gene(name, "A") for name in phase]
    found = controls.survey_turns(None, SimpleNamespace(encode=lambda genes: genes), genes, window=1)
    assert found.shape == (1, 2)
    assert found.tolist()[0] == pytest.approx([(10 + 5) / 2] * 2)
    turns = controls.turn_at(0.9 * blocks[None] + 0.1 * torch.eye(8), np.array([4]), window=1)
    assert turns.tolist() == pytest.approx([10])


def test_a_turn_is_between_means_of_rows_and_elsewhere_is_two_windows_away():
    """Rows 6 to 9 attend to keys 0, 1, 1 and 2: the means of two rows share a half; of the others row 0 is mixed."""
    rows = torch.eye(16)[[0] * 7 + [1, 1, 2] + [0] * 6]
    rows[0, [0, 3]] = 0.5
    # elsewhere are the places 2, 3, 13 and 14; at 2 a quarter turns
    assert controls.turn_at(rows[None], np.array([8]), window=2).tolist() == pytest.approx([0.5 / (0.25 / 4)])


class Drawn(nn.Module):
    """A classifier of given outputs, with a head of its own."""

    def __init__(self):
        super().__init__()
        self.bert = nn.Module()
        self.bert.pooler = nn.Module()
        self.bert.pooler.dense = nn.Linear(2, 3)
        self.classifier = nn.Linear(3, 2)
        for part, weight, bias in ((self.bert.pooler.dense, 1.0, 0.0), (self.classifier, 1.0, 0.0)):
            nn.init.constant_(part.weight, weight)
            nn.init.constant_(part.bias, bias)
        self.classifier.bias.data[1] = math.log(3)

    def forward(self, input_ids, attention_mask, labels, output_hidden_states):
        rows = torch.tensor([[[0.0, 0.0], [1.0, 2.0]]])
        logits, loss = torch.tensor([[0.5, math.log(3)]]), torch.tensor(math.log(4 / 3) + 0.125)
        return SimpleNamespace(hidden_states=(rows + 9, rows + 5, rows), logits=logits, loss=loss)


def passage_of(**given) -> sequence.Passage:
    data = SimpleNamespace(labels=("A", "B"), tokenizer=SimpleNamespace(cls_token_id=7))
    names = ("input_ids", "attention_mask", "labels")
    own = {
        "run": SimpleNamespace(model=Drawn(), data=data),
        "gene": Gene("one", "A" * 24, "B"),
        "coded": {name: torch.tensor([[7, 1]]) for name in names} | {"rest": None},
        "models": {},
        "stations": {},
        "keep": torch.tensor([True, True, False]),
    }
    return sequence.Passage(**own | given)


def test_logits_are_of_the_row_of_the_class_token(monkeypatch):
    """The row of zeros gives the bias: probabilities 1/4 and 3/4."""
    monkeypatch.setattr(sequence, "predict", lambda passage: torch.tensor([0.25, 0.65]))
    found = sequence.measure_head(passage_of())
    assert (found.logits, found.loss) == pytest.approx((0.5, 0.125), abs=1e-6)
    assert found.probabilities == pytest.approx(0.1, abs=1e-6)
    assert (found.class_token_first, found.hidden_units, found.outputs) == (True, 3, 2)


def test_norms_are_of_the_rows_that_are_tokens(monkeypatch):
    eye = torch.eye(2)
    layer = plain(2, 2, W_Q=2 * eye, W_K=3 * eye, W_V=0 * eye, b_V=double(0, 1))
    layer.W_Q[0] = 100
    monkeypatch.setattr(sequence, "NORMS_OF", (1, 1))
    layers = [None, SimpleNamespace(attention=layer)]
    monkeypatch.setattr(sequence, "load", lambda model: SimpleNamespace(encoder_layers=lambda: layers))
    stations = [None, SimpleNamespace(x=double([3, 4], [1, 0], [9, 9]))]
    found = sequence.measure_row_norms(passage_of(models={"trained": None}, stations={"trained": stations}))
    assert found["trained"].tolist() == [[5, 1], [10, 2], [15, 3], [1, 1]]


def test_layers_and_heads_of_the_figures_are_picked(monkeypatch):
    heads = torch.arange(24.0).reshape(12, 1, 2) + 100 * torch.arange(10.0)[:, None]
    monkeypatch.setattr(sequence.layer_profile, "singular_values", lambda stations, keep: stations * heads)
    by_layer = torch.arange(12.0)[:, None] + torch.tensor([0.0, 0.5])
    monkeypatch.setattr(
        sequence.layer_profile, "row_statistics", lambda stations, keep: {"first": stations * by_layer, "bare": None}
    )
    monkeypatch.setattr(
        sequence.layer_profile,
        "sums",
        lambda stations, keep: {"second": stations * by_layer, "total": by_layer[stations]},
    )
    passage = passage_of(stations={"trained": 1, "control": 2})
    values = sequence.singular_values(passage)
    assert list(values) == ["layer 0, head 3", "layer 4, head 9", "layer 11, head 8"]
    assert values["layer 4, head 9"]["control"].tolist() == [2 * 908, 2 * 909]
    statistics = sequence.row_statistics(passage)
    assert {layer: of["trained"].tolist() for layer, of in statistics.items()} == {
        k: [k, k + 0.5] for k in (1, 2, 5, 11)
    }
    summed = sequence.sum_rows(passage)
    assert {title: (name, of.tolist()) for title, (name, of) in summed["sums"].items()} == {
        f"{name}, layer {k}": (name, [by * k, by * (k + 0.5)])
        for by, name in ((1, "trained"), (2, "control"))
        for k in (1, 2, 5)
    }
    assert summed["totals"]["control"].tolist() == [2, 2.5]
    norms = {"trained": np.array([[1.0, 2, 5], [0, 0, 0]]), "control": np.ones((2, 3))}
    for name, given in {"measure_row_norms": norms, "predict": torch.tensor([0.5]), "singular_values": {}}.items():
        monkeypatch.setattr(sequence, name, lambda passage, given=given: given)
    passage.run.model.config = SimpleNamespace(hidden_size=4)
    found = sequence.measure_example(passage)
    assert (found.input_norm, found.input_spread, found.n, found.width) == (2, 2, 2, 4)
    assert found.tokens == ("[CLS]", "A" * 12, "A" * 12)


def test_random_weights_as_large_are_asked_for_the_cosine_of_their_tokens(monkeypatch):
    def make_controls(model, initialise, *, rungs, seeds):
        assert rungs == ["random, as large"]
        return [SimpleNamespace(network=seed) for seed in seeds]

    rows = {4: double([3, 4], [3, -4], [0, 1]), 5: double([1, 0], [7, 0], [0, 1])}

    def pass_all(network, coded):
        return [SimpleNamespace(second=rows[network]), SimpleNamespace(second=rows[4])], torch.arange(3) < 2

    monkeypatch.setattr(sequence, "make_controls", make_controls)
    monkeypatch.setattr(sequence.variant_measures, "pass_all", pass_all)
    found = sequence.measure_large(passage_of(), seeds=(4, 5))
    np.testing.assert_allclose(found, [[-0.28, -0.28], [1, -0.28]])


def test_the_four_networks_are_in_their_order(monkeypatch):
    monkeypatch.setattr(sequence, "make_model", lambda data, seed, start: torch.tensor([seed, start]))
    monkeypatch.setattr(sequence, "scale_matrices", lambda random, like: (random.tolist(), like))
    run = SimpleNamespace(model="tuned", data=None)
    found = sequence.make_networks(run, torch.device("cpu"))
    assert (found["fine-tuned"], found["start"].tolist(), found["random"].tolist()) == ("tuned", [0, 1], [0, 0])
    assert found["random, as large"] == ([0, 0], "tuned")
    genes = [Gene(str(k), "A", label) for k, label in enumerate(["Omicron", "Mu", "Omicron", "Omicron"])]
    data = SimpleNamespace(genes=genes, parts=SimpleNamespace(test=[1, 3, 2]))
    assert sequence.first_of_class(SimpleNamespace(data=data)).name == "3"


@pytest.mark.parametrize(("activation", "error"), [("gelu", 0.0), ("relu", 0.17)])
def test_a_recipe_is_read_off_the_model(monkeypatch, activation, error):
    """GELU and ReLU are furthest apart at 0.75, by 0.75 Phi(-0.75) = 0.17."""
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 20}
    sizes |= {"max_position_embeddings": 40, "vocab_size": 9, "hidden_dropout_prob": 0.1, "num_labels": 2}
    config = BertConfig(**sizes, attention_probs_dropout_prob=0.2, hidden_act=activation)
    monkeypatch.setattr(base.dna_classifier, "configure", lambda of, data: config)
    found = base.measure_recipe(SimpleNamespace(batch=4, steps=50, warmup=6), None)
    assert (found.layers, found.heads, found.width, found.feed_forward, found.positions) == (2, 3, 12, 20, 40)
    assert (found.dropout, found.batch, found.steps, found.warmup) == ((0.1, 0.2), 4, 50, 6)
    assert found.gelu_error == pytest.approx(error, abs=2e-3)


def test_the_authors_recipe_is_arithmetic(monkeypatch):
    """100 sequences: 20 to test, 7 of the 80 to validate, 73 to train on; a model of 2.5 million parameters."""
    own = {"text-and-code-repository": record(by_class=np.array([60, 40]), words=5, softmax_error=0.5)}
    own["text-and-code-classifier"] = "classifier"
    monkeypatch.setattr(authors, "read", lambda name, inputs: own[name])
    settings = SimpleNamespace(start="a start", rate=2e-5, epochs=2, batch=4)
    monkeypatch.setattr(authors.released_code, "load_authors_outputs", lambda: settings)
    asked = []
    monkeypatch.setattr(authors.code, "build_classifier", lambda *given: asked.append(given) or nn.Linear(2499, 1000))
    monkeypatch.setattr(authors, "describe", lambda *given: given[1:])
    monkeypatch.setattr(authors, "compare_slices", lambda model: SimpleNamespace(rank_correlation=model))
    monkeypatch.setattr(authors, "correlate_outputs", lambda table, network: (table, network))
    passage = SimpleNamespace(run=SimpleNamespace(model="model"))
    found = authors.measure_authors(passage, None)
    assert (found.padding, found.rate, found.parameters, found.training) == (85, "2e-5", "2.5", 73)
    assert asked == [(authors.code.BASE_VOCABULARY + 5, 2)]
    assert found.recipe == (4, *authors.code.count_updates(73))
    assert (found.slices, found.head_outputs, found.softmax_error) == ("model", ("classifier", "trained"), 0.5)


def test_tables_hold_per_cent_and_ranges():
    shares = gates_of(2, 2, directional=0.25, cluster=0.125)
    shares[0, 0, GATES.index("open")] = 0.04
    rungs = {rung: gates_of(2, 2, 2, forward=0.5) for rung in tables.NAMES}
    carried = tables.carried(SimpleNamespace(gates=shares, control_gates=rungs))
    assert carried["fine-tuned"].to_dict() == {
        "directional": "25.0",
        "open": "1.0",
        "backward": "0.0",
        "forward": "0.0",
        "cluster": "12.5",
    }
    assert carried.loc["forward", "shuffled"] == "50.0"
    head = maps.NamedHead(4, (1, 3), np.array([0.5, 0.25]), 0.125, (2, 144))
    (row,) = tables.named_heads(SimpleNamespace(heads={"open": head})).itertuples()
    assert tuple(row) == ("figure 4, open", "1.3", "0.5000, 0.2500", "0.1250", "2, 144")
    within = np.array([[[0.5, 0.9]], [[0.1, 0.2]]])
    measured = SimpleNamespace(pairs=[0.5, 1], within=within, control=within / 2, clusters=np.array([[0.1, 0.2]] * 2))
    table = tables.phases(measured, ["a", "b"])
    assert table.loc["b"].tolist() == ["1.00", "0.10 to 0.20", "0.05 to 0.10", "20.0, 20.0"]
    sites = {"a": SimpleNamespace(times=2.0, low=0.5, high=1.5, others=[1, 3], control=None)}
    assert tables.class_sites(SimpleNamespace(by_class=sites)).loc["a"].tolist() == [
        2.0,
        "0.50 to 1.50",
        "1.00, 3.00",
        "",
    ]
    added = np.array([[[1.0, 3.0], [-1.0, -1.0]]])  # of the second layer two sequences move by 3 and by -1
    pair = (added, -added / 1000)
    table = tables.padding(SimpleNamespace(padding={"cone": (added + 20.5, added), "cosine": pair, "D": pair[::-1]}))
    assert table.loc["trained"].tolist() == ["21 % more", "2.000", "0.002"]
    assert table.loc["control", "mean cosine, at most"] == "0.002"
