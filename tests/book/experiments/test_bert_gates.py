"""The recorded experiments on gates and on the sink, on a tiny random BERT and on numbers known by hand."""

from dataclasses import replace

import pytest
import torch
from transformers import BatchEncoding, BertConfig, BertModel

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from analysis.models import extraction
from analysis.models.reading import load
from book.experiments import bert_gates, bert_gates_ablation, bert_gates_objections, bert_gates_query_bias

TEXT = "abcdefghij"


def two_heads(**changed):
    """Make a layer of two heads of one channel, whose queries and keys read a coordinate each."""
    W_Q = torch.tensor([[[1.0], [0.0]], [[0.0], [2.0]]])
    W_K = torch.tensor([[[0.0], [3.0]], [[1.0], [0.0]]])
    biases = {"b_Q": torch.tensor([[1.0], [0.0]]), "b_K": torch.zeros(2, 1), "b_V": torch.zeros(2, 1)}
    return AttentionLayer(W_Q, W_K, W_K, W_K.mT, b_O=torch.zeros(2), **biases | changed)


ROWS = [torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[3.0, 0.0], [-1.0, 2.0]])]
"""Queries of head 0: 3, 1, 4, 0; of head 1: 2, 2, 0, 4. Keys of head 0: 3, 3, 0, 6; of head 1: 2, 0, 3, -1."""


@pytest.fixture
def bert():
    """Return a random BERT of two layers and three heads, with biases."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 20}
        model = BertModel(BertConfig(vocab_size=31, max_position_embeddings=128, attn_implementation="eager", **shape))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
            for block in model.encoder.layer:  # queries have much in common, so that there are columns
                block.attention.self.query.bias.mul_(10)
    return model.eval().requires_grad_(False)


def tokenize(text, *, max_length=None, **_):
    """Take letters for tokens."""
    ids = torch.tensor([[1 + ord(letter) - ord("a") for letter in text[:max_length]]])
    return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def test_lengths_are_root_mean_squares_over_all_rows_of_all_texts():
    queries, keys = bert_gates_objections.rms_lengths(two_heads(), ROWS)
    torch.testing.assert_close(queries**2, torch.tensor([26.0, 24.0]) / 4)
    torch.testing.assert_close(keys**2, torch.tensor([54.0, 14.0]) / 4)


def test_a_layer_is_given_lengths_head_by_head_and_keeps_its_directions():
    layer, due = two_heads(), (torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]))
    given = bert_gates_objections.give_lengths(layer, ROWS, due)
    for own, wanted in zip(bert_gates_objections.rms_lengths(given, ROWS), due, strict=True):
        torch.testing.assert_close(own, wanted)
    torch.testing.assert_close(given.W_Q[0], 2 / 6.5**0.5 * layer.W_Q[0])
    torch.testing.assert_close(given.b_Q[0], 2 / 6.5**0.5 * layer.b_Q[0])
    torch.testing.assert_close(given.W_V, layer.W_V)


def test_the_type_is_taken_away_and_put_back(bert):
    types = bert.embeddings.token_type_embeddings.weight
    before = types.clone()
    found = [bert_gates_objections.columns_of(bert, tokenize, [TEXT], typed=typed) for typed in (True, False)]
    assert torch.equal(types, before)
    assert found[0] != found[1]
    types.zero_()
    assert bert_gates_objections.columns_of(bert, tokenize, [TEXT], typed=True) == found[1]


def test_one_layer_is_read_under_each_query_bias(bert):
    x = torch.randn(12, 12, generator=torch.Generator().manual_seed(1))
    layer = replace(load(bert).plain_layers()[0], b_Q=100 * torch.ones(3, 4))
    found = bert_gates.read_layer(x, layer, 0 * layer.b_Q, present=0.0)
    own, none, lent, centred = found["columns"]
    assert none == lent
    assert own == pytest.approx(found["gates"][0], abs=1e-6)
    assert own > 0.5 > none, "with a bias that outweighs all else every query looks at the same key"
    others = bert_gates.read_layer(x, replace(layer, b_Q=0 * layer.b_Q), layer.b_Q, present=0.0)["columns"]
    assert others.tolist() == pytest.approx([none, none, own, centred], abs=1e-6)


def test_classes_of_maps():
    scores = torch.zeros(4, len(gates.GATES))
    scores[0, 0] = scores[0, 2] = 0.2
    scores[1, 4] = 0.5
    scores[2, 3] = 0.06
    named = [bert_gates.CLASSES[k] for k in bert_gates.classify(scores)]
    assert named == ["vertical and diagonal", "block", "diagonal", "heterogeneous"]


def test_columns_in_bundles_have_a_column_beside_them():
    columns = torch.tensor([[0.5, 0.0, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    assert bert_gates.in_bundles(columns) == (0.25, 0.5)
    assert bert_gates.in_bundles(torch.zeros(2, 3)) == (0, 0)
    assert bert_gates.in_bundles(torch.ones(1, 3)) == (1, 1)


def test_maps_of_a_text_are_counted_by_kind(bert):
    """With one query for all tokens every row looks at the same key, so each map is a single column."""
    for block in bert.encoder.layer:
        block.attention.self.query.weight.zero_()
        block.attention.self.key.weight.mul_(1000)
    found = bert_gates.read_maps(bert, tokenize, TEXT)
    assert found["kinds"].tolist() == [1, 0, 0]
    assert found["holding"].tolist() == [1, 1, 1]
    assert found["strongest"] > 0.95


def test_a_network_runs_without_its_query_biases(bert):
    zeros = [0 * layer.b_Q for layer in load(bert).layers]
    own, vectors = bert_gates_query_bias.columns_of(bert, tokenize, [TEXT], 16)
    bert_gates_query_bias.set_query_biases(bert, zeros)
    assert all((layer.b_Q == 0).all() for layer in load(bert).layers)
    without, others = bert_gates_query_bias.columns_of(bert, tokenize, [TEXT], 16)
    maps = torch.cat(bert(**tokenize(TEXT), output_attentions=True).attentions)
    assert without == [pytest.approx(gates.read_gates(maps).scores[..., 0].mean().item())]
    assert own != without
    assert (vectors * others).sum().item() < 1 - 1e-6


def test_the_sink_of_one_document_is_measured_in_every_way(bert):
    (states,) = extraction.hidden_states(bert.double(), tokenize, [TEXT], 9)
    share, effects, held = bert_gates_ablation.measure_document(states, load(bert).encoder_layers(), 0)
    assert 0 < share < 1
    assert min(*effects, held) > 0
    assert len(effects) == len(bert_gates_ablation.NOTHING[1])
