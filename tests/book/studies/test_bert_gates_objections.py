"""Columns without what BERT adds to every token, and the sink as one setting per head: by hand, and as recorded."""

import numpy as np
import pytest
import torch

from analysis.models import pretrained
from analysis.models.checkpoints import find
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
        return {"gates": scores, "patterned": np.array(0.5)}

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
            }[name]

    monkeypatch.setattr(controls, "live_or_record", lambda *_, **__: (Made(), ""))
    found = controls.measure_objections(None)
    assert found.columns_typed.startswith("25")
    assert found.columns_untyped.startswith("2.0")
    assert found.patterned_typed.startswith("85")
    assert found.patterned_untyped.startswith("5.0")
    assert found.sink_held == pytest.approx(0.03)
