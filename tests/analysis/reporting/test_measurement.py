"""What splits scores into parts, by the bias of each head, and how a measurement is put into words and numbers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm, QueryKeyNorm
from analysis.core.positions import Alibi, Rotary, StreamPositions
from analysis.models.checkpoints import find
from analysis.models.controls import RUNGS
from analysis.models.families.tiny import tiny_model
from analysis.models.reading import load
from analysis.reporting import measurement
from analysis.reporting.measurement import Measurement, read_biases, splitter, to_json
from analysis.reporting.observations import Observations
from analysis.reporting.origins import kernel, rotate_back
from analysis.transformer.rotary import rotate
from tests.analysis.tiny import draw

ROTARY = Rotary(torch.tensor([1.0, 0.25]).double(), 6, base=500.0, attention_factor=1.5)
STREAM = StreamPositions("learned")


def test_the_bias_of_a_group_counts_for_each_of_its_heads():
    shapes = [(4, 3, 2), (2, 3, 2), (2, 3, 2), (4, 2, 3), (4, 2), (2, 2), (2, 2), (3,)]
    layer = AttentionLayer(*(draw(*shape, seed=seed) for seed, shape in enumerate(shapes)))
    b_Q, b_K = read_biases(layer)
    assert b_Q.equal(layer.b_Q)
    assert b_K.equal(layer.b_K[[0, 0, 1, 1]])
    assert [b.dtype for b in read_biases(layer.to(torch.float16))] == [torch.float32] * 2
    assert [b.dtype for b in read_biases(layer)] == [torch.float64] * 2


def test_a_split_is_scaled_and_turned_as_its_layer_is():
    vectors = [(draw(3, 6, seed=1), draw(3, 6, seed=2)), (draw(3, 6, seed=3), draw(3, 6, seed=4))]
    split = splitter(vectors, [STREAM, ROTARY], [0.5, 0.25])
    query, key = split(0, 7, 2.0)
    torch.testing.assert_close(query, vectors[0][0][:, None] / 4)  # a scale of 2 is still to come, 1/2 is due
    assert key.equal(vectors[0][1][:, None])
    query, key = split(1, 7, 1.0)
    assert query.shape == key.shape == (3, 7, 6)
    for place in range(7):
        at = torch.tensor([float(place)]).double()
        for found, vector, factor in ((query, vectors[1][0], 0.25), (key, vectors[1][1], 1.0)):
            torch.testing.assert_close(found[:, place], factor * rotate(vector[:, None], ROTARY, at)[:, 0])
    plain = splitter(vectors, [STREAM, ROTARY])
    assert plain(0, 7, 2.0)[0].equal(vectors[0][0][:, None])


def test_turned_rows_are_turned_back_and_a_kernel_is_a_score_by_distance():
    rows = draw(2, 5, 6)
    torch.testing.assert_close(rotate_back(rotate(rows, ROTARY), ROTARY), rows)
    query, key = draw(2, 6, seed=1), draw(2, 6, seed=2)
    found = kernel(query, key, ROTARY, 0.7, distances=4)
    due = torch.stack(
        [
            0.7 * (rotate(query[:, None], ROTARY, torch.tensor([5.0 + d]).double())[:, 0] * turned).sum(-1)
            for d in range(4)
            for turned in [rotate(key[:, None], ROTARY, torch.tensor([5.0]).double())[:, 0]]
        ],
        -1,
    )
    np.testing.assert_allclose(found, due - due.mean(-1, keepdim=True))


def test_masks_and_positions_in_words():
    shapes = [(2, 4, 6)] * 3 + [(2, 6, 4)] + [(2, 6)] * 3 + [(4,)]
    layer = AttentionLayer(*(draw(*shape) for shape in shapes))
    words = {
        Mask(): "every position",
        Mask(causal=True, reach=3): "causal, at most 3 away",
        Mask(causal=True, chunk=8): "causal, in blocks of 8",
    }
    for mask, said in words.items():
        assert measurement._name_mask(replace(layer, mask=mask)) == said
    assert measurement._name_positions(layer) == "none"
    assert measurement._name_positions(replace(layer, positions=Alibi(2))) == "ALiBi"
    turned = replace(layer, positions=replace(ROTARY, scaling="yarn"))
    said = "rotary: 4 of 6 coordinates, pairs of halves, base 500"
    assert measurement._name_positions(turned) == f"{said}, scaling yarn"
    assert measurement._name_positions(replace(layer, positions=ROTARY)) == said


@pytest.mark.usefixtures("unchecked")
def test_rotary_positions_alone_are_no_reason_not_to_split():
    shapes = [(2, 4, 6)] * 3 + [(2, 6, 4)] + [(2, 6)] * 3 + [(4,)]
    layer, norm = AttentionLayer(*(draw(*shape) for shape in shapes)), Norm(draw(6), draw(6))

    def reasons(**fields):
        return measurement.reasons_not_to_split(SimpleNamespace(layers=[replace(layer, **fields)]))

    assert reasons() == reasons(positions=ROTARY) == ""
    assert "ALiBi" in reasons(positions=Alibi(2))
    assert "soft cap of 3" in reasons(positions=ROTARY, soft_cap=3.0)
    both = reasons(positions=ROTARY, soft_cap=3.0, qk_norm=QueryKeyNorm(norm, norm))
    assert both.count(";") == 1


def test_numbers_are_kept_to_six_digits_and_pictures_left_out():
    measured = Measurement({"Model": "m"}, [], maps=np.ones((1, 1, 2, 2)), causal=True)
    measured.position_curves = np.array([[1 / 3, np.nan, 123456789.0], [np.int64(4), -2.0, np.inf]])
    found = to_json(measured)
    assert found["position_curves"] == [[0.333333, None, 123457000.0], [4.0, -2.0, None]]
    assert found["about"] == {"Model": "m"}
    assert found["causal"] is True
    assert not {"maps", "viewer"} & found.keys()
    assert to_json(replace(measured, mean_kernels=[np.array([[2, 3]])]))["mean_kernels"] == [[[2, 3]]]


@pytest.mark.parametrize(("model_type", "groups"), [("gpt2", ""), ("qwen2", ", 2 sets of keys and values")])
def test_sets_of_keys_are_told_where_heads_share_them(model_type, groups, tmp_path):
    model = tiny_model(model_type)
    model.save_pretrained(tmp_path)
    checkpoint = find(str(tmp_path))
    width = model.config.hidden_size
    told = measurement.describe(checkpoint, load(checkpoint))["Layers"]
    assert told == f"2, each of 4 heads{groups}; width {width}, heads of {width // 4}"


@pytest.mark.usefixtures("unchecked")
def test_controls_are_seen_anew_unless_every_rung_of_their_seed_was_kept(monkeypatch):
    shapes = [(2, 4, 6)] * 3 + [(2, 6, 4)] + [(2, 6)] * 3 + [(4,)]
    layer = AttentionLayer(*(draw(*shape) for shape in shapes), soft_cap=3.0)  # its scores are not split
    texts, bars = [torch.zeros(1, 4, dtype=torch.long)] * 2, []

    class Bar(SimpleNamespace):
        def update(self, steps=1):
            self.n += steps

        def close(self):
            bars.append((self.what, self.n, self.total))

    class Kept(dict):
        load = dict.get
        save = dict.__setitem__

    def see_again(model, see, seeds):
        return ((rung, seed, f"{rung}, {seed}, anew") for seed in seeds for rung in RUNGS)

    monkeypatch.setattr(measurement, "count_steps", lambda total, what, unit, show: Bar(total=total, what=what, n=0))
    monkeypatch.setattr(measurement, "observe_controls", see_again)
    read_all = replace(Observations.empty(1, 2), texts=2)
    state = Kept({"beside": read_all, "trained": read_all} | {f"{rung} 0": f"{rung}, 0, kept" for rung in RUNGS})
    state[f"{RUNGS[0]} 1"] = f"{RUNGS[0]}, 1, kept"  # and then the report was interrupted
    measured = Measurement({"Model": "m"}, [])
    read = SimpleNamespace(layers=[layer], heads=2, causal=False)
    measurement.observe(measured, None, read, texts, state, seeds=3)
    for rung in RUNGS:
        assert measured.controls[rung] == [f"{rung}, 0, kept", f"{rung}, 1, anew", f"{rung}, 2, anew"]
        assert state[f"{rung} 2"] == f"{rung}, 2, anew"
    assert bars == [("texts", 2, 2), ("controls", 3 * len(RUNGS), 3 * len(RUNGS))]
