"""MiniLM without some cells of its maps, computed a second time by hooks in the running network."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.models import checkpoints, pretrained
from book.studies.bert_gates import sink
from tests.book.studies.known import save_bert

CPU = torch.device("cpu")
HEADS, CHANNEL, LONGEST = 2, 6, 9
DOCUMENTS = ("The cat sat on the mat and looked at the other cat.", "All of the dogs ran home in the rain.")
WEIGHTS = {
    "deleted, rows left short": lambda rest, total, taken: rest,
    "deleted, rows renormalised": lambda rest, total, taken: rest / total,
    "nothing deleted, the other weights scaled up": lambda rest, total, taken: rest / total + taken,
}
"""What becomes of the weights, from the rest of a row, its sum and what was taken."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A BERT of two layers with sharp random maps and MiniLM's words."""
    path = tmp_path_factory.mktemp("bert") / "sharp"
    shape = {"num_attention_heads": HEADS, "hidden_size": HEADS * CHANNEL, "intermediate_size": 24}
    return save_bert(path, noise=0.3, sharper=4, max_position_embeddings=32, **shape)


@pytest.fixture
def minilm(tiny, monkeypatch):
    """The tiny model in the place of MiniLM, and two documents of which nine tokens are read."""
    monkeypatch.setattr(checkpoints, "find", lambda name: tiny)
    monkeypatch.setattr(sink, "LONGEST", LONGEST)
    monkeypatch.setattr(sink, "load_documents", lambda: [SimpleNamespace(text=text) for text in DOCUMENTS])
    return tiny


def by_head(x, linear):
    return linear(x).unflatten(-1, (HEADS, CHANNEL)).transpose(-2, -3)


def attention_of(module, x):
    """Return the maps of one layer and what its keys bring, ``(batch, head, ...)``."""
    queries, keys, values = (by_head(x, linear) for linear in (module.query, module.key, module.value))
    return (queries @ keys.mT / CHANNEL**0.5).softmax(-1), values


def sentence(checkpoint, network, text, take=None, change=None):
    """Return the mean of the last rows, and what was taken of every row by layer."""
    ids = pretrained.tokenizer(checkpoint)(text, truncation=True, max_length=LONGEST, return_tensors="pt")
    shares = []

    def changed(module, given, keywords, output):
        maps, values = attention_of(module, given[0] if given else keywords["hidden_states"])
        taken = take(maps)
        rest = maps - taken
        shares.append(taken.sum(-1, keepdim=True))
        mixed = change(rest, rest.sum(-1, keepdim=True), taken) @ values
        return mixed.transpose(-2, -3).flatten(-2), *output[1:]

    layers = network.encoder.layer if take else []
    hooks = [layer.attention.self.register_forward_hook(changed, with_kwargs=True) for layer in layers]
    with torch.no_grad():
        rows = network(**ids).last_hidden_state[0].mean(0).numpy()
    for hook in hooks:
        hook.remove()
    return rows, shares


def turned(a, b):
    return 1 - a @ b / np.sqrt((a @ a) * (b @ b))


def first_key(maps, amount=1.0):
    return amount * maps * (torch.arange(maps.shape[-1]) == 0)


def at_random(shares, seed):
    """Take the shares, layer by layer, from cells that one generator draws."""
    generator, wanted = torch.Generator().manual_seed(seed), iter(shares)
    return lambda maps: sink.draw_as_much(maps[0], next(wanted)[0], generator)[None]


def test_the_sink_is_taken_in_every_way_from_every_document(minilm, monkeypatch):
    monkeypatch.setattr(sink, "choose_gate", lambda gate: lambda maps: maps < -1)
    monkeypatch.setattr(sink.gates, "GATES", ("one", "two"))
    result = sink.remove_cells(CPU)
    found = result.arrays
    assert found["sink"].shape == found["sink share"].shape == (2, len(sink.WAYS))
    assert found["effect"].shape == found["share"].shape == (2, 2, 2)
    assert min(result.tolerances[name] for name in found) > 0
    ways, network = list(sink.WAYS), pretrained.load(minilm, dtype=torch.float64)
    for document, text in enumerate(DOCUMENTS):
        own, _ = sentence(minilm, network, text)
        for name, change in WEIGHTS.items():
            k = ways.index(name)
            rows, shares = sentence(minilm, network, text, first_key, change)
            assert found["sink"][document, k] == pytest.approx(turned(rows, own), rel=1e-4)
            if "nothing" in name:
                assert found["sink share"][document, k] == 0
                continue
            assert found["sink share"][document, k] == pytest.approx(torch.stack(shares).mean().item(), rel=1e-5)
            rows, drawn = sentence(minilm, network, text, at_random(shares, document), change)
            assert found["sink"][document, k + 1] == pytest.approx(turned(rows, own), rel=1e-4)
            assert found["sink share"][document, k + 1] == pytest.approx(torch.stack(drawn).mean().item(), rel=1e-5)
    assert not found["share"].any()  # nothing is chosen


def test_cells_of_each_gate_are_taken_and_as_much_at_random(minilm, monkeypatch):
    """Each way is told by document, gate and place: effects in whole numbers, shares in tenths."""

    def measure_ways(states, layers, choose, names, seed):
        assert (states.shape, len(layers)) == ((3, LONGEST, HEADS * CHANNEL), 2)
        return [(100 * (seed + 1) + 10 * choose + k, choose / 10 + k / 100) for k, _ in enumerate(names)]

    monkeypatch.setattr(sink, "measure_ways", measure_ways)
    monkeypatch.setattr(sink, "choose_gate", lambda gate: gate)
    monkeypatch.setattr(sink, "choose_sink", -5)
    found = sink.remove_cells(CPU).arrays
    assert found["effect"].shape == (2, len(gates.GATES), 2)
    assert found["effect"][:, [0, 7, 8]].tolist() == [
        [[100, 101], [170, 171], [180, 181]],
        [[200, 201], [270, 271], [280, 281]],
    ]
    assert found["share"][1, 8].tolist() == pytest.approx([0.8, 0.81])
    assert found["sink"].tolist() == [[50, 51, 52, 53, 54], [150, 151, 152, 153, 154]]
    assert found["sink share"][0].tolist() == pytest.approx([-0.5, -0.49, -0.48, -0.47, -0.46])


def test_the_sink_is_turned_down_step_by_step_and_one_row_is_shown(minilm, monkeypatch):
    monkeypatch.setattr(sink, "LAYER", 1)
    monkeypatch.setattr(sink, "HEAD", 1)
    monkeypatch.setattr(sink, "AMOUNTS", [0, 0.3, 1])
    monkeypatch.setattr(sink, "SENTENCE", DOCUMENTS[1])
    result = sink.turn_sink(CPU)
    found, network = result.arrays, pretrained.load(minilm, dtype=torch.float64)
    due = np.zeros((2, 3, 3))
    for document, text in enumerate(DOCUMENTS):
        own, _ = sentence(minilm, network, text)
        for way, change in enumerate(WEIGHTS.values()):
            for step, amount in enumerate((0, 0.3, 1)):
                some = lambda maps, amount=amount: first_key(maps, amount)  # noqa: E731
                due[document, way, step] = turned(sentence(minilm, network, text, some, change)[0], own)
    np.testing.assert_allclose(found["effect"], (due[0] + due[1]) / 2, rtol=1e-4, atol=1e-9)
    ids = pretrained.tokenizer(minilm)(DOCUMENTS[1], truncation=True, max_length=LONGEST, return_tensors="pt")
    with torch.no_grad():
        states = network(**ids, output_hidden_states=True).hidden_states
        maps, values = attention_of(network.encoder.layer[1].attention.self, states[1])
        output = network.encoder.layer[1].attention.output.dense.weight[:, CHANNEL:]
        lengths = (values[0, 1] @ output.T).square().sum(1).sqrt()
    assert found["weights"] == pytest.approx(maps[0, 1, 4].numpy(), rel=1e-5)
    assert found["lengths"] == pytest.approx(lengths.numpy(), rel=1e-5)
    tokens = json.loads(result.values["tokens"].value)
    assert tokens == ["[CLS]", "all", "of", "the", "dogs", "ran", "home", "in", "the", "rain", ".", "[SEP]"]
    assert result.values["query"].value == "dogs"
    assert min(result.tolerances[name] for name in found) > 0
