"""The questions of the first page and what is shown of the atlas, on inputs whose answer is known by hand."""

import math
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.atlas import heads, shown
from book.studies.intro import questions
from tests.book.studies.known import double, no_norm, plain, record

sentence = import_module("book.studies.intro.sentence")
EYE = torch.eye(2).double()


def test_the_semi_bias_is_drawn_less_its_mean_and_without_the_last_position(monkeypatch):
    rows = double([1, 2, 3, 10], [0, 0, 8, -4])
    monkeypatch.setattr(questions, "scores_of_positions", lambda: (rows, None))
    (panel,) = questions.which_bias().axes
    (image,) = panel.images
    assert image.get_array().tolist() == [[-3, -2, -1], [-1, -1, 7]]
    assert (image.norm.vmin, image.norm.vmax) == (-7, 7)


def test_one_query_of_one_head_is_drawn_with_the_places_before_it(monkeypatch):
    """Of head 1 and query 3 the last three keys; key 0 has weight as well, and what follows has none."""
    for name, value in {"HEAD": 1, "QUERY": 3, "BACK": 2}.items():
        monkeypatch.setattr(questions, name, value)
    pairs, rows = torch.zeros(3, 6, 6).double(), torch.zeros(3, 6).double()
    pairs[1, 3, 1], rows[1, 2], rows[1, 5] = math.log(4), math.log(2), 99
    monkeypatch.setattr(questions, "scores_of_positions", lambda: (rows, pairs))
    (panel,) = questions.neighbours().axes
    assert [bar.get_height() for bar in panel.patches] == pytest.approx([4 / 8, 2 / 8, 1 / 8])
    assert [bar.get_x() + bar.get_width() / 2 for bar in panel.patches] == pytest.approx([-2, -1, 0])
    assert panel.patches[0].get_width() == 1


def test_the_last_a_looks_at_both_letters_that_followed_an_a():
    (panel,) = questions.induction_head().axes
    drawn = np.ma.filled(panel.images[0].get_array(), np.nan)
    assert drawn[5].tolist() == pytest.approx([0, 0, 0.5, 0, 0.5, 0], abs=1e-6)  # of !abaca b and c
    assert drawn[3, :4].tolist() == pytest.approx([0, 0, 1, 0], abs=1e-6)
    assert np.isnan(drawn).tolist() == [[key > query for key in range(6)] for query in range(6)]
    assert panel.images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in panel.get_xticklabels()] == list("!abaca")
    assert panel.get_yticks().tolist() == list(range(6))


def test_tokens_are_as_wide_as_the_middle_position(monkeypatch):
    """Widths 1, 3 and 6: the middle one is 3, and neither the mean nor twice it has its square."""
    layer = plain(2, W_Q=EYE, W_K=2**0.5 * EYE, b_Q=double(1, 0))
    places = double([1, -1], [3, -3], [6, -6])
    model = SimpleNamespace(positions=places, norm=lambda _: no_norm(2), layers=[layer])
    monkeypatch.setattr(questions, "load", lambda name, dtype: model)
    own, pairs = questions.scores_of_positions()
    assert own[0].tolist() == pytest.approx([1 / 10**0.5, 3 / 18**0.5, 6 / 45**0.5])
    assert pairs[0, 2, 1].item() == pytest.approx((6 * 3 + 6 * 3) / (45 * 18) ** 0.5)


def test_of_the_late_queries_the_one_that_reads_most_of_an_earlier_token_is_shown(monkeypatch):
    """Six tokens, so that queries 4 and 5 are late; query 5 reads itself, and query 3 comes too early."""
    weights = torch.full((6, 6), 0.02).double().tril()
    weights[3, 0], weights[4, 1], weights[4, 4], weights[5, 2], weights[5, 5] = 0.9, 0.5, 0.44, 0.2, 0.72
    weights /= weights.sum(1, keepdim=True)
    content = torch.zeros(2, 6, 6).double()
    content[1] = weights.log().masked_fill(torch.ones(6, 6).triu(1).bool(), 9)  # what lies ahead would draw most
    semi_bias = double([[0, 3, 3, 3, 3, 3]], [[5, -5, 5, -5, 5, -5]])
    query_side, kernel = torch.arange(12).double().reshape(2, 6, 1), double(100, 200).reshape(2, 1, 1)
    terms = SimpleNamespace(
        content=content, semi_bias=semi_bias, query_side=query_side, kernel=kernel, total=lambda: content
    )
    monkeypatch.setattr(sentence, "score_terms", lambda x, weights: terms)
    monkeypatch.setattr(sentence, "apply_norm", lambda x, norm: x)
    monkeypatch.setattr(sentence.checkpoints, "find", lambda name: name)
    tokenizer = SimpleNamespace(encode=lambda text: [0] * 6, decode=lambda one: " a ")
    monkeypatch.setattr(sentence.pretrained, "tokenizer", lambda _: tokenizer)
    model = SimpleNamespace(
        layers=[plain(2)], norm=lambda _: None, tokens=torch.zeros(1, 2), positions=torch.zeros(9, 2)
    )
    monkeypatch.setattr(sentence, "load", lambda *_, **__: model)
    found = sentence.measure("text")
    assert (found.head, found.query, found.key) == (1, 4, 1)
    assert np.nan_to_num(found.weights) == pytest.approx(weights.numpy())
    assert np.isnan(found.weights).tolist() == [[key > query for key in range(6)] for query in range(6)]
    constants = found.parts["constants"]
    assert np.nanmean(constants) == pytest.approx(0)
    assert constants[3, 0] - constants[1, 1] == 2
    assert found.start() == {"text": "text", "layer": 0, "head": 1, "query": 4, "key": 1}


# ---- the atlas


class Recorder(SimpleNamespace):
    """A model of two layers of two heads on three tokens; it was asked for states and maps."""

    device = "cpu"

    def __call__(self, ids, **asked):
        assert asked == {"output_hidden_states": True, "output_attentions": True}
        return SimpleNamespace(hidden_states=self.states, attentions=self.maps)


class Tokenizer:
    """Three tokens, of which the first and the last are a space."""

    def __call__(self, text, return_tensors):
        return {"input_ids": torch.tensor([[7, 8, 7]])}

    def decode(self, one):
        return " " if one == [7] else f" t{one[0]} "


def test_a_sentence_is_read_layer_by_layer(monkeypatch):
    """Layer 0 reads (1, 0), (0, 1), (3, 4); its values are the rows, its outputs twice them in the second head."""
    x = double([1, 0], [0, 1], [3, 4])
    first, second = (
        plain(2, heads=2, causal=True, W_Q=EYE, W_K=EYE, W_V=EYE, W_O=scale * EYE, b_V=double(0, bias))
        for scale, bias in ((1, 0), (3, 5))
    )
    first.W_O[1] *= 2
    # maps of a causal model: equal weights in head 0, and the token itself in head 1
    even = torch.ones(3, 3).tril().double() / double([1], [2], [3])
    maps = torch.stack([even, torch.eye(3).double()])
    model = Recorder(states=[x[None], 2 * x[None], None], maps=[maps[None], maps.flip(0)[None]])
    monkeypatch.setattr(heads, "load", lambda _: SimpleNamespace(plain_layers=lambda: [first, second]))
    monkeypatch.setattr(heads.extraction, "attention_inputs", lambda _, states: states)
    model.states[2] = x[None]
    found = heads.read(model, Tokenizer(), "text")
    assert found.tokens == ["\u2423", "t8", "\u2423"]
    assert torch.equal(found.weights[0], maps)
    assert torch.equal(found.weights[1], maps.flip(0))
    assert found.lengths[0].tolist() == pytest.approx(np.array([[1, 1, 5], [2, 2, 10]]))
    # layer 1 reads twice the rows, with a bias: (2, 5), (0, 7), (6, 13), times 3
    due = [3 * math.hypot(*row) for row in ((2, 5), (0, 7), (6, 13))]
    assert found.lengths[1].tolist() == pytest.approx(np.array([due, due]))
    assert found.content.tolist() == [[1, 1], [1, 1]]  # no bias of queries
    assert found.distances.shape == (2, 2, len(heads.CONSTRUCTED))
    names = [heads.CONSTRUCTED[int(k)] for k in found.distances[0].argmin(-1)]
    assert names == ["equal weights", "the token itself"]
    assert found.distances[0, 1, 0].item() == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)


def test_the_viewer_opens_a_head_that_is_there():
    weights = np.full((4, 3, 10, 2, 2), 255.0)
    opened = shown.overview(record(minilm_weights=weights)).start()
    assert (opened["layer"], opened["head"], opened["sentence"], opened["model"]) == (2, 9, 0, "minilm")
    assert len(set(opened["colours"])) == len(opened["colours"]) == len(heads.gates.GATES)
    assert shown.overview(record(other_weights=weights), "other").weights.shape == (3, 10, 2, 2)
