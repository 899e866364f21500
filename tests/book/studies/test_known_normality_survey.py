"""The survey behind the chapter on normality: silenced heads, padding and the ladder, on stand-ins known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from book.studies.bert_normality import controls, rows
from tests.book.studies.known import double

TURN = double([0, 1], [-1, 0])
MAPS = torch.stack([torch.eye(3), torch.tensor([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]])]).double()


class Layer:
    """A layer that adds its number, and turns rows by a right angle if its first head is uniform."""

    def __init__(self, number, heads=2):
        self.number, self.attention = number, SimpleNamespace(heads=heads)

    def to(self, dtype):
        return self

    def run(self, x, patched_attention=None):
        second = x + self.number
        if patched_attention is not None:
            uniform = (patched_attention == 1 / 3).all((-2, -1)).tolist()
            assert sum(uniform) == 1  # one head at a time
            second = second @ TURN if uniform[0] else second
        return SimpleNamespace(attention=MAPS, second=second)


@pytest.fixture
def silenced(monkeypatch):
    layers = [Layer(0.0), Layer(1.0)]
    monkeypatch.setattr(controls, "load", lambda model: SimpleNamespace(encoder_layers=lambda: layers))
    asked = []

    def hidden_states(model, tokenizer, passages, longest):
        asked.append(longest)
        return [torch.stack([double([2, 0], [2, 0], [2, 0]) * k, double([9, 9], [9, 9], [9, 9])]) for k in (1, 2)]

    monkeypatch.setattr(controls.extraction, "hidden_states", hidden_states)
    monkeypatch.setattr(controls, "encode", lambda x, layers: [x, x, x + 1])
    monkeypatch.setattr(controls, "run_layer", lambda x, layer, **given: layer.run(x, **given))
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=50))
    found = controls.ablate(model, None, ["one", "two"])
    assert asked == [50]
    return found


def test_a_heads_effect_is_how_far_the_sentence_turns(silenced):
    """The end is (3, 1) and (5, 1): turned in layer 0 the row ends at (1, 3) and (1, 5), in layer 1 at (-1, 3), ..."""
    effect = silenced["effect"]
    assert effect[:, 0, 0].tolist() == pytest.approx([1 - 6 / 10, 1 - 10 / 26])
    assert effect[:, 1, 0].tolist() == pytest.approx([1, 1])
    np.testing.assert_allclose(effect[:, :, 1], 0, atol=1e-12)


def test_entropy_and_sink_are_of_the_maps_that_were_made_uniform(silenced):
    np.testing.assert_allclose(silenced["effect_entropy"][..., 0], 0, atol=1e-12)
    np.testing.assert_allclose(silenced["effect_entropy"][..., 1], 2 / 3 * math.log(2) / math.log(3))
    np.testing.assert_allclose(silenced["effect_sink"][..., 0], 2 / 3)
    np.testing.assert_allclose(silenced["effect_sink"][..., 1], (0.5 + 0.5 + 1) / 3)


class Counting(nn.Module):
    """A model whose state is the mask, and one more in every layer."""

    device, config = torch.device("cpu"), SimpleNamespace(max_position_embeddings=4)

    def forward(self, input_ids, attention_mask, output_hidden_states):
        assert output_hidden_states
        return SimpleNamespace(hidden_states=[attention_mask[..., None] + float(k) for k in range(3)])


def test_texts_are_padded_to_the_models_limit_and_padding_is_counted(monkeypatch):
    class Coded(dict):
        def to(self, device):
            return self

    def tokenizer(text, truncation, padding, max_length, return_tensors):
        assert (truncation, padding, max_length) == (True, "max_length", 4)
        mask = (torch.arange(4) < len(text))[None].long()
        return Coded(input_ids=mask, attention_mask=mask)

    def measure(passed, keep, padding):
        assert padding
        return {"of": np.array([[float(each.sum()), int(keep.sum())] for each in passed])}

    monkeypatch.setattr(controls, "load", lambda model: SimpleNamespace(encoder_layers=lambda: [1, 10]))
    monkeypatch.setattr(controls, "run_layer", lambda x, layer, keep: x * layer)
    monkeypatch.setattr(controls.layer_profile, "measure", measure)
    found = controls.measure_padded(Counting(), tokenizer, ["a", "abc"])
    # the first layer reads the mask, the second the mask plus one, which is 1 in padding
    assert found["of"].tolist() == [[[1, 1], [50, 1]], [[3, 3], [70, 3]]]


def test_rows_of_all_texts_stand_out_together_and_plain_ones_apart(monkeypatch):
    """Two texts of one and two rows, in two layers; plain rows are those before the first LayerNorm, normalised."""
    texts = [double([[1, 3]], [[2, 9]]), double([[5, 1], [1, 2]], [[0, 4], [4, 0]])]
    seen = {}

    def outstanding(by_layer, lengths):
        seen[len(seen)] = [rows.tolist() for rows in by_layer], lengths
        return {"outliers": np.array([len(rows) for rows in by_layer])}

    def run_layer(x, layer):
        return SimpleNamespace(x=x, first=x * layer, before_first=x)

    monkeypatch.setattr(controls, "load", lambda model: SimpleNamespace(encoder_layers=lambda: [1, 10]))
    monkeypatch.setattr(controls, "run_layer", run_layer)
    monkeypatch.setattr(controls.extraction, "hidden_states", lambda *_: texts)
    monkeypatch.setattr(
        controls.layer_profile, "measure", lambda passed: {"D_sum": np.array([float(p.x.sum()) for p in passed])}
    )
    monkeypatch.setattr(controls.layer_profile, "outstanding", outstanding)
    found = controls._measure_layers(None, None, [])
    assert found["tokens"].tolist() == [1, 2]
    assert found["D_sum"].tolist() == [[4, 11], [9, 8]]
    assert seen[0] == ([[[1, 3], [5, 1], [1, 2]], [[20, 90], [0, 40], [40, 0]]], [1, 2])
    np.testing.assert_allclose(seen[1][0], [[[-1, 1], [1, -1], [-1, 1]], [[-1, 1], [-1, 1], [1, -1]]])
    assert (found["first_outliers"].tolist(), found["bare_outliers"].tolist()) == ([3, 3], [3, 3])


def test_the_ladder_is_per_token_and_over_heads(monkeypatch):
    """A text of four tokens: the indices are over 4, singular values over 2, quantities of heads their means."""
    by_layer, by_head = np.array([4.0, 8.0]), np.array([[2.0, 6.0], [8.0, 4.0]])
    names = (*controls.BY_LAYER, "D_total", "cone", "cone_bare")
    profile = {name: by_layer + k for k, name in enumerate(names)}
    profile |= {"stable_rank": by_head, "entropy": 2 * by_head, "largest": 3 * by_head}
    monkeypatch.setattr(controls.checkpoints, "find", lambda name: None)
    monkeypatch.setattr(controls.pretrained, "tokenizer", lambda checkpoint: None)
    monkeypatch.setattr(controls.extraction, "hidden_states", lambda *_: [torch.zeros(3, 4, 2)])
    monkeypatch.setattr(controls, "load", lambda model: SimpleNamespace(encoder_layers=list))
    monkeypatch.setattr(controls.layer_profile, "measure", lambda passed: profile)
    monkeypatch.setattr(controls, "survey_documents", lambda measure, **given: (measure(None, "a text", None), given))
    found, given = controls.measure_ladder("cpu")
    assert given == {"each_of_controls": 3, "device": "cpu", "tolerance": 0.02}
    k = names.index("cone")
    assert found["cone"].tolist() == [1 + k / 4, 2 + k / 4]
    assert found["cone_bare"].tolist() == [1 + (k + 1) / 4, 2 + (k + 1) / 4]
    assert found["largest"].tolist() == [6, 9]
    assert (found["stable_rank"].tolist(), found["entropy"].tolist()) == ([4, 6], [8, 12])
    assert found["cosine"].tolist() == (by_layer + controls.BY_LAYER.index("cosine")).tolist()


def test_the_text_that_is_drawn_is_the_fourth_and_one_control_has_no_token_type(monkeypatch):
    """Of two passages the fourth is the second again. A network is its seed here, and a layer adds 1."""

    def load(checkpoint, control_seed, device):
        model = nn.Module()
        model.seed, model.embeddings = control_seed, nn.Module()
        model.embeddings.token_type_embeddings = nn.Embedding.from_pretrained(torch.ones(2, 1))
        return model

    def hidden_states(model, tokenizer, passages):
        number = (model.seed or 5) + float(model.embeddings.token_type_embeddings.weight.sum())
        assert passages == ["second"]
        return [torch.stack([torch.full((2, 3), number + k) for k in range(3)])]

    monkeypatch.setattr(rows.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(rows.pretrained, "load", load)
    monkeypatch.setattr(rows.pretrained, "tokenizer", lambda checkpoint: None)
    monkeypatch.setattr(rows.texts, "passages", lambda source: ["first", "second"])
    monkeypatch.setattr(rows.extraction, "hidden_states", hidden_states)
    monkeypatch.setattr(rows, "load", lambda model: SimpleNamespace(encoder_layers=lambda: [1, 2]))
    monkeypatch.setattr(
        rows, "run_layer", lambda x, layer: SimpleNamespace(before_first=x * layer, before_second=x * 10 * layer)
    )
    monkeypatch.setattr(rows, "SEEDS", {"trained": None, "control": 1})
    found = rows.run_networks(SimpleNamespace(model="one", texts=None, device="cpu"))
    assert {name: states[:, 0, 0].tolist() for name, states in found.states.items()} == {
        "trained": [7, 8, 9],
        "control": [3, 4, 5],
    }
    assert found.bare_states[0, 0, 0] == 1
    assert (found.layers, found.middle) == ((0, 1), 1)
    described = rows.describe(found)
    assert (described.tokens, described.width, described.middle) == (2, 3, 1)
    assert (described.before_first[0, 0], described.before_second[0, 0]) == (7, 160)
