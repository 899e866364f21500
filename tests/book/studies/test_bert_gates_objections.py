"""Columns without what BERT adds to every token and with shorter queries and keys, the sink as one setting per head."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.models import extraction, pretrained
from analysis.models.checkpoints import find
from analysis.models.controls import SHARP, make_controls
from analysis.models.reading import load
from book.publish import choose_inputs
from book.studies.bert_gates import controls, sink
from book.studies.bert_gates.experiments import DIRECTIONAL


@pytest.fixture(scope="module")
def record():
    return controls.live_or_record("bert-gates-objections", choose_inputs(), recompute=False)[0]


def test_a_held_volume_keeps_the_mean_of_the_head_and_the_proportions_of_the_rest():
    maps = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)
    held = controls.hold_volume(maps, maps * sink.choose_sink(maps))
    torch.testing.assert_close(held.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    torch.testing.assert_close(held[..., 0], maps[..., 0].mean(1, keepdim=True).expand(2, 5))
    torch.testing.assert_close(held[..., 2] / held[..., 1], maps[..., 2] / maps[..., 1])


def test_a_row_with_nothing_else_to_share_stays_as_it_is():
    maps = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    assert controls.hold_volume(maps, maps * sink.choose_sink(maps))[0].tolist() == [1.0, 0.0]


def test_the_type_is_taken_away_and_put_back(monkeypatch):
    network, seen = pretrained.load(find("minilm")), []
    types = network.embeddings.token_type_embeddings.weight
    before = types.clone()

    def read(x, layer, lent):
        seen.append(float(types.abs().max()))
        scores = np.zeros(12)
        scores[DIRECTIONAL] = len(seen)
        return {"gates": scores, "patterned": np.array(0.5), "entropy": np.array(0.5)}

    monkeypatch.setattr(controls, "read_layer", read)
    columns, patterned = controls.columns_of(network, pretrained.tokenizer(find("minilm")), ["A text."], typed=False)
    assert seen == [0.0] * 6
    assert (columns, patterned) == (3.5, 0.5)
    assert torch.equal(types, before)
    assert types.abs().max() > 0


def test_large_random_weights_have_columns_only_with_what_all_tokens_share(record):
    with_type, without = record.array("columns").T
    assert with_type.min() > 0.15
    assert without.max() < 0.01
    assert record.array("patterned")[:, 1].max() < 0.05


def two_heads(**changed):
    """Make a layer of two heads of one channel, whose queries and keys read a coordinate each."""
    W_Q = torch.tensor([[[1.0], [0.0]], [[0.0], [2.0]]])
    W_K = torch.tensor([[[0.0], [3.0]], [[1.0], [0.0]]])
    biases = {"b_Q": torch.tensor([[1.0], [0.0]]), "b_K": torch.zeros(2, 1), "b_V": torch.zeros(2, 1)}
    return AttentionLayer(W_Q, W_K, W_K, W_K.mT, b_O=torch.zeros(2), **biases | changed)


ROWS = [torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[3.0, 0.0], [-1.0, 2.0]])]
"""Queries of head 0: 3, 1, 4, 0; of head 1: 2, 2, 0, 4. Keys of head 0: 3, 3, 0, 6; of head 1: 2, 0, 3, -1."""


def test_lengths_are_root_mean_squares_over_all_rows_of_all_texts():
    queries, keys = controls.rms_lengths(two_heads(), ROWS)
    torch.testing.assert_close(queries**2, torch.tensor([26.0, 24.0]) / 4)
    torch.testing.assert_close(keys**2, torch.tensor([54.0, 14.0]) / 4)


def test_a_layer_is_given_lengths_head_by_head_and_keeps_its_directions():
    layer = two_heads()
    due = torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0])
    given = controls.give_lengths(layer, ROWS, due)
    for own, wanted in zip(controls.rms_lengths(given, ROWS), due, strict=True):
        torch.testing.assert_close(own, wanted)
    factor = 2 / 6.5**0.5
    torch.testing.assert_close(given.W_Q[0], factor * layer.W_Q[0])
    torch.testing.assert_close(given.b_Q[0], factor * layer.b_Q[0])
    torch.testing.assert_close(given.W_V, layer.W_V)


def test_maps_are_read_on_the_own_rows_layer_by_layer(monkeypatch):
    layers = [two_heads(), two_heads(b_Q=torch.ones(2, 1))]
    texts = [torch.stack([x, x + 1]) for x in ROWS]
    seen = []

    def read(x, layer, lent):
        assert torch.equal(lent, layer.b_Q)
        seen.append((x, layer))
        scores = np.zeros(12)
        scores[DIRECTIONAL] = len(seen)
        return {"gates": scores, "patterned": np.array(len(seen) / 10), "entropy": np.array(len(seen) ** 2)}

    monkeypatch.setattr(controls, "read_layer", read)
    monkeypatch.setattr(controls, "load", lambda network: SimpleNamespace(plain_layers=lambda: layers))
    found = controls.read_maps(torch.nn.Identity(), texts)
    assert found["columns"] == 2.5
    assert found["patterned"] == pytest.approx(0.25)
    assert found["entropy"].tolist() == [2.5, 12.5]
    for k, (n, text) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        assert torch.equal(seen[k][0], texts[text][n])
        assert seen[k][1] is layers[n]
    seen.clear()
    wanted = [(torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]))] * 2
    controls.read_maps(torch.nn.Identity(), texts, wanted)
    for n in (0, 1):
        (_, layer), rows = seen[2 * n], [text[n] for text in texts]
        torch.testing.assert_close(controls.rms_lengths(layer, rows), wanted[n])


def test_random_weights_of_the_trained_size_make_longer_queries_and_keys():
    """In every layer, on average over heads."""
    checkpoint = find("minilm")
    trained = pretrained.load(checkpoint)
    (control,) = make_controls(
        trained, lambda seed: pretrained.load(checkpoint, control_seed=seed), rungs=(SHARP,), seeds=[0]
    )
    tokenizer = pretrained.tokenizer(checkpoint)
    lengths = []
    for network in (trained, control.network):
        (rows,) = extraction.hidden_states(network, tokenizer, ["The bank of the river was steep and green."], 32)
        layers = zip(rows, load(network).plain_layers(), strict=False)
        lengths.append(torch.stack([torch.stack(controls.rms_lengths(layer, [x])).mean(-1) for x, layer in layers]))
    assert (lengths[1] > lengths[0]).all()


def test_random_maps_are_flatter_in_every_layer_where_queries_and_keys_are_as_long(record):
    assert record.array("entropy as long").shape == (5, 6)
    assert (record.array("entropy as long") > record.array("entropy of MiniLM") + 0.05).all()
    assert (record.array("entropy as long").argmin(1) == record.array("entropy of MiniLM").argmin()).all()
    assert record.array("patterned as long").max() < record.array("patterned")[:, 0].min()
    assert record.array("columns as long").max() < record.array("columns")[:, 0].min()


def test_one_volume_per_head_turns_the_sentence_far_less_than_sharing_the_sink(record):
    whole = controls.live_or_record("bert-gates-removal", choose_inputs(), recompute=False)[0]
    shared = whole.array("sink")[:, list(sink.WAYS).index("deleted, rows renormalised")]
    assert len(shared) == len(record.array("held"))
    assert record.array("held").mean() < shared.mean() / 4


def test_numbers_are_written_from_the_record(monkeypatch):
    class Made:
        def array(self, name):
            return {
                "columns": np.array([[0.2, 0.01], [0.3, 0.03]]),
                "patterned": np.array([[0.9, 0.0], [0.8, 0.05]]),
                "held": np.array([0.02, 0.04]),
                "columns as long": np.array([0.1, 0.2]),
                "patterned as long": np.array([0.6, 0.8]),
                "entropy as long": np.array([[0.9, 0.6], [0.7, 0.8]]),
            }[name]

    monkeypatch.setattr(controls, "live_or_record", lambda *_, **__: (Made(), ""))
    found = controls.measure_objections(None)
    assert found.columns_typed.startswith("25")
    assert found.columns_untyped.startswith("2.0")
    assert found.patterned_typed.startswith("85")
    assert found.patterned_untyped.startswith("5.0")
    assert found.sink_held == pytest.approx(0.03)
    assert found.columns_as_long.startswith("15")
    assert found.patterned_as_long.startswith("70")
    assert found.entropy_as_long == "0.70"
