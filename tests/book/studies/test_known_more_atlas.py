"""The atlas of heads, the first sentence, silenced heads and printed walkthroughs, on inputs known by hand."""

import math
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.atlas import heads, shown
from book.studies.atlas.heads import CONSTRUCTED
from book.studies.bert_gates import interventions, printed_gates
from book.studies.induction_head import prediction
from book.studies.induction_head.readings import Reading
from book.studies.intro import questions
from tests.book.studies.known import double, no_norm, plain, record

first_sentence = import_module("book.studies.intro.sentence")
EYE = torch.eye(2).double()


# ---- the atlas


def test_spread_is_a_variance_along_the_keys_that_are_seen():
    scores = double([[1, 100, 100], [1, 3, 100], [0, 3, 6]])[None]
    seen = torch.ones(3, 3).tril().bool()
    assert heads.spread(scores[0], seen).tolist() == pytest.approx([(0 + 1 + 6) / 3])
    x = double([1, 0], [0, 1])
    even = plain(2, W_Q=EYE, W_K=EYE, b_Q=double(1, 1))  # the semi-bias of both keys is the same
    assert heads.content_share(x, even, causal=False).tolist() == [1]
    both = plain(2, W_Q=EYE, W_K=EYE, b_Q=double(3, 1))
    # the content varies by 1/4 in both rows (less under a mask), the semi-bias by 1, times one half
    assert heads.content_share(x, both, causal=False).tolist() == pytest.approx([1 / 5])
    assert heads.content_share(x, both, causal=True).tolist() == pytest.approx([1 / 5])
    one = plain(2, W_Q=torch.diag(double(1, 0)), W_K=EYE, b_Q=double(3, 1))
    assert heads.content_share(x, one, causal=False).tolist() == pytest.approx([1 / 8 / (1 / 8 + 1)])
    assert heads.content_share(x, one, causal=True).tolist() == [0]  # its content is in the first row alone


def test_constructed_maps_are_what_they_are_called():
    tokens = torch.tensor([7, 9, 7, 5])
    found = dict(zip(CONSTRUCTED, heads.ideal_maps(tokens, causal=False), strict=True))
    assert found["equal weights"].flatten().tolist() == pytest.approx([1 / 4] * 16)
    assert found["the first token"][:, 0].tolist() == pytest.approx([1] * 4, abs=0.01)
    assert found["the last token"][:, 3].tolist() == pytest.approx([1] * 4, abs=0.01)
    assert found["the previous token"].diagonal(-1).tolist() == pytest.approx([1] * 3, abs=0.01)
    assert found["equal tokens"][0].tolist() == pytest.approx([0.5, 0, 0.5, 0], abs=0.01)
    assert (found["late positions"][2].diff() > 0).all()
    assert found["the token itself"].tolist() == torch.eye(4).tolist()
    assert found["the next token"][0].tolist() == [0, 1, 0, 0]
    causal = dict(zip(CONSTRUCTED, heads.ideal_maps(tokens, causal=True), strict=True))
    assert causal["equal weights"][1].tolist() == pytest.approx([0.5, 0.5, 0, 0])
    assert torch.equal(causal["the next token"], causal["equal weights"])
    assert causal["the last token"][1].tolist() == pytest.approx([0.5, 0.5, 0, 0])  # it lies in the future
    assert causal["the last token"][3, 3].item() == pytest.approx(1, abs=0.01)


def reading(n: int, near: float) -> heads.Reading:
    """One layer of two heads, one of which looks at the first token and one at all alike."""
    weights = torch.zeros(1, 2, n, n).double()
    weights[0, 0, :, 0], weights[0, 1] = 1, 1 / n
    distances = torch.ones(1, 2, len(CONSTRUCTED)).double()
    distances[0, 0, 1], distances[0, 1, 3] = near, 0.5
    content = double([near, 1.0])
    return heads.Reading(["a"] * n, weights, torch.full((1, 2, n), 2.0).double(), content, distances)


def test_sentences_are_packed_side_by_side():
    found = heads.pack([reading(8, 0.25), reading(16, 0.75)], causal=False)
    assert found["weights"].shape == (2, 1, 2, 16, 16)
    assert (found["weights"][0, 0, 0, 0, 0], found["weights"][1, 0, 1, 0, 0]) == (255, round(255 / 4))
    assert found["weights"][0, 0, :, 8:].max() == 0
    assert (found["gates"][0, 0, 0, 3, 0], found["gates"][0, 0, 0, 9].max()) == (1, 0)  # a column; beyond the end
    assert found["lengths"][0, 0, 0].tolist() == [2] * 8 + [0] * 8
    assert found["shares"][0, 0, 0] == pytest.approx(1)
    assert found["content"].tolist() == [[0.5, 1]]
    assert found["entropy"].tolist() == [[0, pytest.approx(1)]]
    assert (found["nearest"].tolist(), found["distance"].tolist()) == ([[1, 3]], [[0.5, 0.5]])
    assert heads.most(4, causal=False) == pytest.approx(math.log(4))
    assert heads.most(4, causal=True) == pytest.approx(math.log(24) / 4)


def test_the_overview_is_as_long_as_the_first_sentence():
    weights = np.zeros((2, 1, 2, 5, 5))
    weights[0, 0, :, :3, 0] = 255
    weights[0, 0, 1, :3, 1] = 51
    found = shown.overview(record(minilm_weights=weights))
    assert found.weights.shape == (1, 2, 3, 3)
    assert found.weights[0, 1, 2].tolist() == pytest.approx([1, 1 / 25, 0])


class Encoder:
    """A model whose embedding is the sum of the rows of its only output matrix."""

    def __init__(self):
        self.device = "cpu"
        dense = SimpleNamespace(weight=SimpleNamespace(data=double([3, 0, 0, 1], [0, 4, 0, 0])))
        layer = SimpleNamespace(attention=SimpleNamespace(output=SimpleNamespace(dense=dense)))
        self.encoder, self.config = SimpleNamespace(layer=[layer]), SimpleNamespace(num_attention_heads=2)

    def __call__(self, **inputs):
        rows = self.encoder.layer[0].attention.output.dense.weight.data.sum(-1)
        return SimpleNamespace(last_hidden_state=rows.expand(1, 3, 2))


class Inputs(dict):
    def to(self, device):
        return self


def test_a_head_is_silenced_and_comes_back():
    model = Encoder()
    found = heads.effects(model, lambda text, return_tensors: Inputs(input_ids=1))
    # whole (4, 4); without the first two rows (1, 0), without the last two (3, 4)
    assert found.tolist() == [pytest.approx([1 - 0.5**0.5, 1 - 7 / (5 * 2**0.5)])]
    assert model.encoder.layer[0].attention.output.dense.weight.data.tolist() == [[3, 0, 0, 1], [0, 4, 0, 0]]
    model.lm_head, model.config.n_head = None, 4
    weight = SimpleNamespace(data=double([1], [2], [4], [8]))
    model.transformer = SimpleNamespace(
        h=[SimpleNamespace(attn=SimpleNamespace(c_proj=SimpleNamespace(weight=weight)))]
    )
    type(model).__call__ = lambda self, labels, **inputs: SimpleNamespace(loss=-weight.data.sum())
    assert heads.effects(model, lambda text, return_tensors: Inputs(input_ids=1)).tolist() == [[1, 2, 4, 8]]


# ---- the first pages


def test_a_query_is_chosen_that_reads_one_earlier_token_most(monkeypatch):
    """Normalised tokens are (1, -1) or the opposite; the second head's semi-bias is the stronger one."""
    layer = plain(2, heads=2, causal=True, W_Q=EYE, W_K=EYE, b_K=double(1, 0))
    layer.b_Q[0], layer.b_Q[1] = double(0.5, 0), double(-3, 0)
    tokens = double([2, -2], [-3, 3])
    model = SimpleNamespace(
        layers=[layer], norm=lambda _: no_norm(2), tokens=tokens, positions=torch.zeros(9, 2).double()
    )
    ids = [0, 0, 1, 0, 0, 0]
    tokenizer = SimpleNamespace(encode=lambda _: ids, decode=lambda one: f" t{one[0]}")
    monkeypatch.setattr(first_sentence.checkpoints, "find", lambda _: None)
    monkeypatch.setattr(first_sentence.pretrained, "tokenizer", lambda _: tokenizer)
    monkeypatch.setattr(first_sentence, "load", lambda *_, **__: model)
    found = first_sentence.measure("text")
    assert (found.head, found.tokens[2]) == (1, "t1")
    # of the last third every query likes key 2 best: 1 point to -1 for the others, times 3 less 2 for its own content
    assert (found.query, found.key) == (4, 2)
    root = 2**0.5
    assert np.isnan(found.weights[0, 1])
    odds = math.exp((3 - 2 - (-3 + 2)) / root)
    assert found.weights[4, 2] == pytest.approx(odds / (odds + 4))
    semi = found.parts["semi-bias"] * root
    assert semi[4, 2] - semi[4, 1] == pytest.approx(6)
    for part in found.parts.values():
        assert np.nanmean(part) == pytest.approx(0)
    assert (found.parts["constants"][2] * root)[0] - (found.parts["constants"][0] * root)[0] == pytest.approx(-2)
    ids[:] = 0, 0, 0, 0, 1, 0
    found = first_sentence.measure("text")
    assert (found.query, found.key) == (5, 4)  # the query before it is the token that is liked, and reads itself
    ids[:] = 0, 0, 1
    found = first_sentence.measure("text")
    assert found.weights[2, 2] > 0.99
    assert (found.query, found.key) == (2, 0)  # the one that is left reads itself, which is no earlier token


def test_positions_alone_are_read_with_tokens_as_wide(monkeypatch):
    layer = plain(2, W_Q=EYE, W_K=2**0.5 * EYE, b_Q=double(1, 0))
    places = double([1, -1], [2, -2], [2, -2])
    model = SimpleNamespace(positions=places, norm=lambda _: no_norm(2), layers=[layer])
    monkeypatch.setattr(questions, "load", lambda *_, **__: model)
    own, pairs = questions.scores_of_positions()
    widths = [5**0.5, 8**0.5, 8**0.5]  # of 1 and 2, and 2 and 2
    assert own[0].tolist() == pytest.approx([1 / widths[0], 2 / widths[1], 2 / widths[2]])
    assert pairs[0, 0, 1].item() == pytest.approx((1 * 2 + 1 * 2) / (widths[0] * widths[1]))


# ---- silenced heads


def test_copies_lose_one_head_or_get_it_level(monkeypatch):
    """Five copies of a text of two heads, two positions and one channel."""
    query = torch.zeros(5, 2, 2, 1).double()
    key, value = query.clone(), query + double([[2], [4]], [[6], [10]])
    key[:, :, 1], query[:] = math.log(3), 1
    change = interventions.Ablate(3)
    found = change(3, query, key, value, scale=1.0)[..., 0]
    own = [[3.5, 3.5], [9, 9]]
    for copy in range(5):
        head, level = divmod(copy, 2)
        for other in range(2):
            due = own[other] if other != head or copy == 4 else [[0, 0], [[3, 3], [8, 8]][other]][level]
            assert found[copy, other].tolist() == pytest.approx(due), (copy, other)
    again = change(2, query, key, value, scale=1.0)[..., 0]
    assert again.tolist() == pytest.approx(np.array([own] * 5))
    assert interventions.distance(double([3, 4], [0, 2]), double(0, 1)).tolist() == pytest.approx([0.2, 0])


# ---- what is printed


def test_printed_gates_are_counted_gate_by_gate(monkeypatch):
    monkeypatch.setattr(printed_gates, "SIZES", (3,))
    found = printed_gates.measure_printed_gates()
    gates, against, ranks, back, wrong, other, lines, printed_lines, instances = tuple(vars(found).values())
    assert gates == {
        "directional": 3,
        "open": 1,
        "backward": 2,
        "forward": 2,
        "cluster": 4 + 1,
        "instance": 9,
        "closed": 1,
    }
    assert against == dict.fromkeys(gates, 0) | {"cluster": 5}  # of k + 1 columns, and 1/k in each
    assert ranks["directional"] == [1]
    assert ranks["open"] == [3]
    assert ranks["backward"] == [2, 3]  # one row of the diagonal and the mean; two and the mean
    assert (ranks["closed"], ranks["instance"]) == ([1], [2])
    assert back == [-1]
    assert wrong == dict.fromkeys(gates, 0)
    assert (other, lines, printed_lines, instances) == ({"closed": 0, "inverse directional": 0}, 0, 5, 0)


def test_readings_are_counted_by_the_cells_that_they_contradict(monkeypatch):
    own = Reading()
    one, two = Reading(gain=1), Reading(gain=1, weak="dropped")
    hard, other = Reading(attention="hard", gain=1), Reading(attention="hard")
    every = {
        own: 24,
        one: 5,
        two: 2,
        hard: 0,
        other: 3,
        Reading(attention="softmax", weak="dropped", summed="j < i"): 4,
    }
    monkeypatch.setattr(prediction.readings, "every", lambda: list(every))
    monkeypatch.setattr(prediction.readings, "tables", lambda tokens, vocab, read: read)
    monkeypatch.setattr(prediction.walkthrough, "printed_tables", lambda: None)
    monkeypatch.setattr(
        prediction.readings, "differing", lambda tables, _: {"a": torch.ones(every[tables]), "b": torch.zeros(3)}
    )
    found = prediction.search_readings()
    assert tuple(vars(found).values())[:5] == ("6", 0, 2, 1, 1)
    assert prediction.nearest_with(every, departures=1) == other
