"""What one layer of BERT mixes, from layers whose MLP is linear or a ReLU, so that the answers are known by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.transformer.encoder import random_layers, run_layer
from book.lab.documents import KINDS
from book.studies.bert_stream import controls, layer, minilm, networks
from tests.book.studies.known import double, no_norm, plain

SWAP = double([0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0])
"""The two blocks of a row of four change places."""
FAR = 100.0
"""So far from 0, GELU is the identity or 0."""


def mlp(W_in=None, b_in=0.0, W_out=None, b_out=0.0, size=4) -> MlpWeights:
    """Return an MLP of square matrices, the identity where none is given."""
    size = size if W_in is None else len(W_in)
    eye, one = torch.eye(size).double(), torch.ones(size).double()
    W_in, W_out = (eye if W is None else W for W in (W_in, W_out))
    return MlpWeights(W_in, b_in * one, W_out, b_out if torch.is_tensor(b_out) else b_out * one)


def encoder_layer(weights: MlpWeights, attention=None) -> EncoderLayer:
    model = weights.W_in.shape[0]
    return EncoderLayer(attention or plain(model, 2), no_norm(model), weights, no_norm(model))


@pytest.fixture
def in_order(monkeypatch):
    """Let what is drawn at random come in its order."""
    monkeypatch.setattr(torch, "randperm", lambda n, generator=None: torch.arange(n))


def test_maps_that_swap_blocks_are_off_the_diagonal(in_order):
    """One row 1, -1, 1, -1: there LayerNorm moves both blocks alike, for its Jacobian is I less two means."""
    row = double([1, -1, 1, -1])
    heads = SWAP.reshape(2, 2, 4)
    swapping = encoder_layer(mlp(b_in=FAR, W_out=2 * SWAP, b_out=-2 * FAR))
    swapping = replace(swapping, attention=replace(plain(4, 2, W_Q=torch.zeros(4, 2)), W_O=heads))
    # what the heads write is constant, and so far below 0 that the MLP would be silent: the row comes from x
    read = {"x": row + 2 * FAR, "heads": 0 * row - 2 * FAR, "first": row}
    found = minilm._couple(read, swapping, torch.Generator())
    apart, crossed, mixed = [[0.5, 0], [0, 0.5]], [[0, 0.5], [0.5, 0]], [[0.25, 0.25], [0.25, 0.25]]
    due = {"skip": apart, "LN": mixed, "W_O": crossed, "W_O and LN": mixed, "MLP": crossed}
    due["MLP and skip"] = [[0.1, 0.4], [0.4, 0.1]]  # the MLP is linear here and writes twice the other block
    for name, coupling in due.items():
        np.testing.assert_allclose(found[minilm.COUPLINGS.index(name)], coupling, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found.sum((1, 2)), 1)
    np.testing.assert_allclose(found[-1], mixed, atol=1e-6)


def test_an_mlp_that_cuts_at_zero_is_a_sum_and_not_a_product(in_order, monkeypatch):
    """Rows of 100 and of -100 by turns, of which the MLP keeps the first: its product misses as much as it keeps."""
    signs = torch.tensor([1.0, -1, -1, 1] * 6).double()[:, None] * double([1, 1, 1, -1])
    x = FAR * signs
    y = x.clamp(min=0) @ SWAP
    monkeypatch.setattr(minilm.block_mixing, "interaction", lambda function, a, b, heads, pair: (b - a) / 4)
    found = minilm._measure_mlp({"first": x, "mlp_output": y}, encoder_layer(mlp(W_out=SWAP)), torch.Generator())
    assert found["product_error"] == pytest.approx(1)
    assert found["linear"] == pytest.approx(1)
    assert found["relu_error"] == pytest.approx(0, abs=1e-9)
    assert found["additive_linear"] == pytest.approx(1, abs=0.3)
    assert found["additive"] == pytest.approx(1, abs=0.3)
    assert found["least_singular"] == pytest.approx(0, abs=1e-6)  # the last coordinate of the first row is cut


def test_interactions_are_over_the_effect_of_one_block(in_order, monkeypatch):
    """Block 0 goes from 100 to 300, which moves the row by 200; the interaction has the length 50."""
    x = torch.cat([torch.full((3, 2), FAR), torch.full((3, 2), 3 * FAR)]).double()
    monkeypatch.setattr(minilm.block_mixing, "interaction", lambda *_: torch.full((3, 1), 50.0))
    monkeypatch.setattr(minilm.block_mixing, "additive_share", lambda function, rows, heads, generator: len(rows))
    monkeypatch.setattr(minilm, "fit_ridge", lambda x, y, new, ridge: new / 2)
    layer_of_two = encoder_layer(mlp(size=2))
    found = minilm._measure_mlp({"first": x, "mlp_output": x}, layer_of_two, torch.Generator())
    assert found["interaction"] == pytest.approx(0.25)
    # half of 100, 300 and 300 is predicted: squares of 50, 150 and 150 beside those of 400/3, 200/3 and 200/3
    assert found["linear"] == pytest.approx(1 - 57 / 32)
    assert (found["additive"], found["least_singular"]) == (6, pytest.approx(1))
    monkeypatch.setattr(controls, "SAMPLES", 6)
    monkeypatch.setattr(controls, "additive_share", lambda function, rows, heads, generator: len(rows))
    monkeypatch.setattr(controls, "interaction", lambda *_: torch.full((3, 1), 50.0))
    passed = SimpleNamespace(x=x, first=x, heads=x)
    monkeypatch.setattr(controls, "fit_ridge", lambda x, y, new, ridge: new + 0)
    monkeypatch.setattr(controls, "block_coupling", lambda function, at, heads: double([3, 1], [0, 4]))
    monkeypatch.setattr(controls, "explained", lambda predicted, y: (predicted - y).abs().max() + len(y) / 4)
    assert controls._pool([passed], layer_of_two) == pytest.approx([6, 0.75, 0.25, 0.125, 0.125])


def test_blocks_are_coupled_by_the_two_halves_of_the_layer(in_order, monkeypatch):
    """What goes from the heads to the first LayerNorm's output, and from there to the second's, is the layer's own."""
    generator = torch.Generator().manual_seed(3)
    (drawn,) = random_layers(1, 2, 8, generator=generator)
    drawn.attention.b_O[:] = torch.randn(8, generator=generator, dtype=torch.float64)
    passed = run_layer(torch.randn(40, 8, generator=generator, dtype=torch.float64), drawn)
    coupled = []

    def block_coupling(function, at, heads):
        coupled.append(torch.stack([at[0], function(at[0])]))
        return torch.eye(heads).double()

    monkeypatch.setattr(controls, "block_coupling", block_coupling)
    monkeypatch.setattr(controls, "SAMPLES", 40)
    monkeypatch.setattr(controls, "POINTS", 3)
    assert controls._pool([passed], drawn)[-2:] == [0, 0]
    assert len(coupled) == 6
    for k in range(3):
        torch.testing.assert_close(coupled[2 * k], torch.stack([passed.heads[k], passed.first[k]]))
        torch.testing.assert_close(coupled[2 * k + 1], torch.stack([passed.first[k], passed.second[k]]))


def test_pairs_of_rows_are_as_many_as_half_of_the_samples(in_order, monkeypatch):
    asked = []

    def interaction(function, a, b, heads, pair):
        asked.append((a[:, 0].tolist(), b[:, 0].tolist()))
        return torch.ones(len(a), 2)

    x = torch.arange(1.0, 12).double()[:, None].expand(11, 2) * FAR
    monkeypatch.setattr(controls, "SAMPLES", 6)
    monkeypatch.setattr(controls, "interaction", interaction)
    monkeypatch.setattr(controls, "block_coupling", lambda function, at, heads: torch.eye(2).double())
    controls._pool([SimpleNamespace(x=x, first=x, heads=x)], encoder_layer(mlp(size=2)))
    assert asked == [([FAR, 2 * FAR, 3 * FAR], [4 * FAR, 5 * FAR, 6 * FAR])] * controls.PAIRS


def test_patterns_are_read_on_the_first_tokens_of_the_first_texts(monkeypatch):
    monkeypatch.setattr(minilm, "READ_TEXTS", 2)
    monkeypatch.setattr(minilm, "READ_TOKENS", 3)
    states = [torch.arange(2.0 * n).reshape(2, n, 1) + 100 * n for n in (5, 2, 4)]  # two layers
    monkeypatch.setattr(minilm.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(minilm.pretrained, "tokenizer", lambda checkpoint: None)
    monkeypatch.setattr(minilm.pretrained, "load", lambda checkpoint, control_seed, device: control_seed)
    monkeypatch.setattr(minilm.extraction, "hidden_states", lambda model, tokenizer, passages: states)
    monkeypatch.setattr(minilm, "load", lambda model: SimpleNamespace(encoder_layers=lambda: ["first", "second"]))
    measure_layer = lambda read, layer, seed: {"sum": np.array([float(x.sum()) + seed for x in read])}  # noqa: E731
    monkeypatch.setattr(minilm, "measure_layer", measure_layer)
    monkeypatch.setattr(minilm, "_read", lambda model, short: [model, *(text.tolist() for text in short)])
    found = minilm.survey("a", ["1", "2", "3"])
    due = [[[[500], [501], [502]], [[505], [506], [507]]], [[[200], [201]], [[202], [203]]]]
    assert found["residual"] == [None, *due]
    assert found["control_residual"] == [0, *due]
    for prefix in ("", "control_"):
        sums = [[float(text[level].sum()) + level for text in states] for level in (0, 1)]
        assert found[f"{prefix}sum"].tolist() == sums


def test_the_maps_whose_coupling_is_measured_lead_from_station_to_station(in_order, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    (drawn,) = random_layers(1, 2, 8, generator=generator)
    for bias in (drawn.attention.b_O, drawn.norm_attention.bias, drawn.norm_mlp.bias):
        bias[:] = torch.randn(8, generator=generator, dtype=torch.float64)
    passed = run_layer(torch.randn(6, 8, generator=generator, dtype=torch.float64), drawn)
    found = []

    def block_coupling(function, at, heads):
        found.append((at[0], function(at[0])))
        return torch.eye(heads).double() * len(found)

    monkeypatch.setattr(minilm.block_mixing, "block_coupling", block_coupling)
    monkeypatch.setattr(minilm, "POINTS", 2)
    rows = {"x": passed.x, "heads": passed.heads, "first": passed.first}
    assert minilm._couple(rows, drawn, torch.Generator())[:, 0, 0].tolist() == pytest.approx([0.5] * 7)
    for k in range(2):
        x, y, z = passed.x[k], passed.heads[k], passed.first[k]
        added = passed.mlp_output[k]
        norm = drawn.norm_attention
        centred = (x + y) - (x + y).mean()
        due = {
            "skip": (y, x + y),
            "LN": (y, centred / (centred.square().mean() + norm.eps).sqrt() * norm.gain + norm.bias),
            "W_O": (y, passed.before_first[k]),
            "W_O and LN": (y, z),
            "MLP": (z, added),
            "MLP and skip": (z, z + added),
            "MLP, skip and LN": (z, passed.second[k]),
        }
        for name, pair in due.items():
            read, written = found[7 * k + minilm.COUPLINGS.index(name)]
            torch.testing.assert_close(torch.stack([read, written]), torch.stack(pair))


def test_every_third_text_is_held_out_and_another_chooses_the_ridge(in_order, monkeypatch):
    """Eleven texts of one row, which is the number of the text; predictions are nearest to 0.1."""
    texts = torch.arange(11.0).double()[:, None].expand(11, 2)
    asked = []

    def fit_ridge(x, y, new, ridge):
        asked.append((x[:, 0].tolist(), new[:, 0].tolist(), ridge))
        return torch.full((len(new), y.shape[1]), ridge).double()

    def explained(predicted, y):
        return -(predicted.mean() - 0.1).square() + len(y)

    monkeypatch.setattr(minilm, "fit_ridge", fit_ridge)
    monkeypatch.setattr(minilm, "explained", explained)
    stations = ("x", "heads", "attention_output", "first", "mlp_output", "second")
    passed = [SimpleNamespace(x=texts[i : i + 1]) for i in range(11)]
    found = minilm._read_back(passed, dict.fromkeys(stations, texts), 2, torch.Generator())
    assert found.tolist() == [[4, 4]] * len(minilm.READ_BACK)
    (trained, chosen, _), (kept, held_out, best) = asked[0], asked[len(minilm.RIDGES)]
    assert (trained, chosen) == ([2, 4, 5, 7, 8], [1, 10])
    assert (kept, held_out, best) == ([1, 2, 4, 5, 7, 8, 10], [0, 3, 6, 9], 0.1)


def rows(degrees: float) -> torch.Tensor:
    """Return two rows whose cosine is that of the angle."""
    angle = np.deg2rad(degrees)
    return double([1, 0], [np.cos(angle), np.sin(angle)])


def test_cosines_are_of_the_stations_in_their_order():
    passed = SimpleNamespace(x=rows(0), first=rows(60), mlp_output=rows(90), second=rows(120))
    np.testing.assert_allclose(minilm._align([passed]), [[1, 0.5, 0, -0.5]], atol=1e-12)
    passed.before_first, passed.before_second = double([1, 2], [2, 9]), double([1, 2], [9, 2])  # plain: equal, opposite
    passed.first = double([3, 1], [0, 5])
    found = controls._cosines(passed, encoder_layer(mlp(size=2)))
    assert found == pytest.approx([1, 0.1**0.5, -1, -0.5, 1, -1])


def test_the_ladder_reads_every_third_document_back(monkeypatch):
    texts = [
        SimpleNamespace(**dict.fromkeys(("x", "heads", "first", "second"), torch.full((1, 2), float(i))))
        for i in range(5)
    ]
    asked = []

    def fit_ridge(x, y, new, ridge):
        asked.append((x[:, 0].tolist(), new[:, 0].tolist(), x.shape[1], ridge))
        return new[:, :2]

    monkeypatch.setattr(controls, "fit_ridge", fit_ridge)
    monkeypatch.setattr(controls, "explained", lambda predicted, y: predicted.sum() * len(y))
    assert controls._read_back(texts) == [12] * 4  # texts 0 and 3, of two coordinates: 6 for two rows
    assert asked[0] == ([1, 2, 4], [0, 3], 2, controls.RIDGE)
    assert [width for *_, width, _ in asked] == [2, 2, 4, 2]
    assert [len(kind) for kind in controls._by_kind(range(3 * len(KINDS)))] == [3] * len(KINDS)
    assert list(controls._by_kind(range(3 * len(KINDS)))[1]) == [3, 4, 5]
    monkeypatch.setattr(controls, "composition_scores", lambda W_O, W_Q: double([1, 2], [3, 8]))
    assert controls._peak(*[encoder_layer(mlp())] * 2) == 4  # torch takes the lower of the two in the middle


def test_a_network_is_measured_document_by_document_and_layer_by_layer(monkeypatch):
    """Eight documents of the numbers 0 to 7, two of a kind, in two layers; the first layer follows on the last."""

    class Numbered(int):
        def to(self, dtype):
            return self

    documents = [SimpleNamespace(text=float(k)) for k in range(8)]
    monkeypatch.setattr(controls, "load_documents", lambda each=None: documents[: None if each is None else 4 * each])
    monkeypatch.setattr(
        controls.extraction, "hidden_states", lambda network, tokenizer, texts, longest: [[t, t + 100] for t in texts]
    )
    monkeypatch.setattr(
        controls, "load", lambda network: SimpleNamespace(encoder_layers=lambda: [Numbered(1), Numbered(2)])
    )
    monkeypatch.setattr(controls, "run_layer", lambda x, layer: x * layer)
    monkeypatch.setattr(controls, "_cosines", lambda passed, layer: [passed, layer])
    monkeypatch.setattr(controls, "_pool", lambda group, layer: [sum(group), len(group)])
    monkeypatch.setattr(controls, "_peak", lambda before, layer: 10 * before + layer)
    monkeypatch.setattr(controls, "_read_back", lambda of_texts: [max(of_texts)])
    found = controls.measure_network(None, None, by_kind=True)
    assert found["cosine"].shape == (8, 2, 2)
    assert found["cosine"][3].tolist() == [[3, 1], [206, 2]]
    assert found["pooled"][0].tolist() == [[28, 8, 21], [2 * 828, 8, 12]]
    assert found["pooled"][1:, 0, :2].tolist() == [[1, 2], [5, 2], [9, 2], [13, 2]]
    assert found["read"].tolist() == [[[7], [214]]]
    few = controls.measure_network(None, None, each=1)
    assert few["cosine"].shape == (4, 2, 2)
    assert few["pooled"].tolist() == [[[6, 4, 21], [2 * 406, 4, 12]]]
    assert few["read"].tolist() == found["read"].tolist(), "what can be read back is read on all documents"


def test_what_gates_leave_over_is_read_text_by_text(monkeypatch):
    class Reading:
        def __init__(self, maps):
            self.maps = maps

        def score(self, gate):
            return self.maps.amax((-2, -1)) if gate == "residual" else self.maps.amin((-2, -1))

    monkeypatch.setattr(minilm, "load", lambda model: SimpleNamespace(encoder_layers=lambda: [1, 2]))
    monkeypatch.setattr(minilm, "run_layer", lambda x, of: SimpleNamespace(attention=of * double([[0, x], [0, 1]])))
    monkeypatch.setattr(minilm.gates, "read_gates", Reading)
    found = minilm._read(None, [[3.0, 5.0, 9.0], [4.0, -6.0, 9.0]])
    assert found.tolist() == [[[[3], [10]], [[4], [2]]], [[[0], [0]], [[0], [-12]]]]


def test_the_ridge_is_in_units_of_the_mean_squared_column():
    """Columns of squared lengths 2 and 6: a ridge of 1/2 adds 2 to each, and slopes shrink by 2/4 and 6/8."""
    x = double([1, 0], [-1, 0], [0, 3**0.5], [0, -(3**0.5)])
    y = double([1], [-1], [3], [-3]) + 5
    found = minilm.fit_ridge(x, y, double([1, 0], [0, 3**0.5], [0, 0]), 0.5)
    assert found.flatten().tolist() == pytest.approx([5 + 2 / 4, 5 + 3 * 6 / 8, 5])
    assert minilm.explained(double([0], [1]), double([0], [2])).item() == 0.5


def test_one_map_for_all_heads_is_held_to_the_heads_own(monkeypatch):
    """The first head looks at itself, the second at the other token."""
    attention = torch.stack([torch.eye(2), torch.eye(2).flip(0)]).double()
    values = double([[1], [2]], [[3], [5]])
    heads = double([1, 5], [2, 3])
    stations = SimpleNamespace(attention=attention, values=values, heads=heads, attention_output=2 * heads, x=None)
    outputs = {"heads": heads + 0.25, "attention_output": 2 * heads - 0.5}
    monkeypatch.setattr(layer, "_outputs_of_modules", lambda *_: outputs)
    model = SimpleNamespace(encoder=SimpleNamespace(layer=[None, None]))
    network = SimpleNamespace(stations=[None, [stations, None]], model=model)
    found = layer.measure_heads(SimpleNamespace(level=1), network)
    assert found.errors == {"heads": 0.25, "attention_output": 0.5}
    assert (found.without_output, found.one_map) == (0.5, pytest.approx((8 / 39) ** 0.5))


def test_outputs_are_those_of_the_models_own_modules():
    class Attention(nn.Module):
        def forward(self, x):
            return (2 * x, "maps")

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.output = nn.Module(), nn.Module()
            self.attention.self, self.attention.output = Attention(), nn.Module()
            self.attention.output.dense, self.output.dense = nn.Linear(2, 2), nn.Linear(2, 2)
            nn.init.eye_(self.attention.output.dense.weight)
            nn.init.ones_(self.attention.output.dense.bias)

        def forward(self, x):
            return self.attention.output.dense(self.attention.self(x)[0])

    module = Layer()
    found = layer._outputs_of_modules(module, double([1, 2], [3, 4]))
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "heads": [[2, 4], [6, 8]],
        "attention_output": [[3, 5], [7, 9]],
    }
    assert not module.attention.self._forward_hooks


def test_a_layernorm_of_two_coordinates_writes_two_rows(monkeypatch):
    """Plain rows are -1, 1 or 1, -1; with gain 2, 4 and bias 3, -1 they are 1, 3 and 5, -5."""
    norm = replace(no_norm(2), gain=double(2, 4), bias=double(3, -1))
    read = double([1, 3], [0, 8], [2, 3], [4, 1])
    monkeypatch.setattr(layer, "_mean_change", len)
    monkeypatch.setattr(layer, "_compare_jacobian", lambda row, norm: row.tolist())
    subject = SimpleNamespace(before_first=read, layer=SimpleNamespace(norm_attention=norm), width=3)
    given = {"trained": SimpleNamespace(stations=[1, 2]), "control": SimpleNamespace(stations=[1])}
    found = layer.measure_normalisation(subject, given)
    assert max(found.formula_error, found.doubled_error, found.largest_row_sum, found.other_rows) < 1e-9
    assert found.length_error == pytest.approx(1)  # the squared length is 2
    assert (found.negative, found.negative_written) == (0.5, 1 / 8)
    assert found.written_sums == pytest.approx((0, 4))
    assert (found.change, found.jacobian_error, found.third_singular) == ({"trained": 2, "control": 1}, 1, 3)
    subject.before_first = read[:3]  # all rows are -1, 1: so are their sums, and LN(x) + LN(y) is twice that
    assert layer.measure_normalisation(subject, given).additivity_error == pytest.approx(1)
    monkeypatch.setattr(layer, "normalise", lambda rows: -rows)  # what is not made plain sums to -4, -8, -5
    assert layer.measure_normalisation(subject, given).largest_row_sum == 8


def subject_of(weights: MlpWeights, x: torch.Tensor, **more) -> SimpleNamespace:
    return SimpleNamespace(first=x, heads=2, layer=encoder_layer(weights), **more)


def test_relu_turns_the_sentence_by_as_much_as_its_mean_row(monkeypatch):
    """A text of which the mean row stays, and one that ReLU turns by 60 degrees."""
    turned = {0: double([1, 0], [3, 0]), 1: double([2, 0], [0, 12**0.5])}  # the mean is 1, 3 ** 0.5

    def encode(x, layers, activation=None):
        return [None, double([2, 0], [0, 0]) if activation is None else turned[int(x)]]

    monkeypatch.setattr(layer, "encode", encode)
    network = SimpleNamespace(layers=[], states=[torch.tensor([0]), torch.tensor([1])])
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).double()
    weights = mlp(W_in=x[:4] + SWAP, b_in=0.5, W_out=x[1:])
    found = layer.measure_perceptron(subject_of(weights, x), {"trained": network})
    assert max(found.mask_error, found.blocks_error) < 1e-12
    assert found.relu_cosine == {"trained": pytest.approx(0.75)}


def test_a_bias_arrives_where_the_mask_lets_it_through(monkeypatch):
    """b_1 = 1 arrives whole where the unit is far above 0, not at all far below; b_2 is 1 in both layers."""
    weights = mlp(b_in=1.0, b_out=double(0, 1), size=2)
    seen = subject_of(weights, double([FAR, FAR], [-FAR, FAR]))

    def encode(x, layers):
        return [x, x + sum(each.mlp.b_out for each in layers)]

    monkeypatch.setattr(layer, "encode", encode)
    monkeypatch.setattr(
        layer, "fold_layer", lambda each: replace(each, mlp=replace(each.mlp, b_out=each.mlp.b_out + 0.25))
    )
    states = [[double([2, 0], [2, 0])], [double([0, 1], [0, 3])]]
    found = layer.measure_biases(seen, SimpleNamespace(layers=[seen.layer] * 2, states=states))
    assert found.variation == pytest.approx((1 / 6) ** 0.5)  # of 1, 1 and 0, 1 the first coordinate varies by a half
    assert found.zeroed_cosine == pytest.approx((0.5**0.5 + 1) / 2)  # (2, 2) with (2, 0), and (0, 4) with (0, 2)
    assert found.fold_error == 0.5


def test_blocks_in_another_order_change_the_output_unless_the_matrix_follows(monkeypatch):
    monkeypatch.setattr(torch, "randperm", lambda n, generator=None: torch.arange(n).flip(0))
    x = double([FAR, 3 * FAR])
    found = layer.measure_order(subject_of(mlp(size=2), x))
    assert (found.renumbered_error, found.inverse_error) == (0, pytest.approx(0, abs=1e-9))
    assert found.permuted_change == pytest.approx(8**0.5 / 10**0.5)  # 200 twice, over 100 and 300
    found = layer.measure_order(subject_of(mlp(W_in=double([2, 0], [0, 1])), double([FAR, FAR])))
    assert (found.renumbered_error, found.permuted_change) == (0, 0)


def test_a_score_is_multiplied_out_into_blocks_and_two_constants():
    """Two blocks of one coordinate: x_0 (1, 2) and x_1 (3, 4) through W_in = 2 I; constants b_1 W_2 and b_2."""
    weights = mlp(W_in=2 * torch.eye(2).double(), b_in=0.5, W_out=double([1, 2], [3, 4]), b_out=double(7, 9), size=2)
    x = double([1, 1], [0, 5])
    after = plain(2, W_Q=double([1], [2]), W_K=double([3], [-1]), b_Q=double(1), b_K=double(2))
    found = layer.measure_expansion(subject_of(weights, x, after=after))
    assert found.parts[:, 0].tolist() == [[2, 4], [6, 8], [2, 3], [7, 9]]
    assert found.parts[:, 1].tolist() == [[0, 0], [30, 40], [2, 3], [7, 9]]
    assert max(found.sum_error, found.context_error) < 1e-12
    # five parts on either side; a term is constant along a row if its key part is: b_1, b_2 and b_K
    assert (found.terms, found.vanishing) == (25, 15)
    assert [tuple(part.shape) for part in layer.first_head(after)] == [(2, 1), (2, 1), (1,), (1,)]


def test_a_rows_attention_moves_when_the_last_bias_is_taken_out(monkeypatch):
    """Scores ln 3 and ln 2, of which b_2 makes the second: 3/5 and 2/5, and without it 3/4 and 1/4."""
    terms = torch.zeros(6, 6, 1, 2).double()
    terms[0, 0, 0, 0], terms[1, 3, 0, 1] = 2 * np.log(3), 2 * np.log(2)
    monkeypatch.setattr(layer, "expand_score", lambda parts, *weights: terms)
    monkeypatch.setattr(layer, "_parts_of_output", lambda stations, subject: double([[1, 2]], [[3, 4]]))
    after = SimpleNamespace(W_Q=[0], W_K=[0], b_Q=[0], b_K=[0], channel=4)
    network = SimpleNamespace(stations=[[SimpleNamespace(second=double([4, 6.5]))]])
    found = layer.measure_real_rows(SimpleNamespace(level=0, after=after), network)
    assert (found.sum_error, found.moved) == (0.5, pytest.approx(0.15))
    assert found.vanishing.sum() == 34  # all but two of 36 are zeros


def test_the_parts_of_a_real_row_add_up_to_it():
    (drawn,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(0))
    weights = replace(drawn.mlp, b_out=double(1, 3, 1, 3), b_in=drawn.mlp.b_in + 1)
    drawn = replace(drawn, mlp=weights, norm_mlp=replace(no_norm(4), gain=double(1, 2, 1, 1), bias=double(5, 0, 0, 1)))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).double()
    stations = run_layer(x, drawn)
    parts = layer._parts_of_output(stations, SimpleNamespace(layer=drawn))
    torch.testing.assert_close(parts.sum(0), stations.second)
    size = stations.before_second.std(1, unbiased=False)
    torch.testing.assert_close(parts[3], double([-1, 2, -1, 1]) / size[:, None])
    assert parts[4].tolist() == [[5, 0, 0, 1]] * 3
    assert parts.shape[0] == 5


def test_the_longest_update_is_over_the_shortest_and_the_peak_over_the_median():
    found = layer.Composition({"trained": double([[1, 2], [3, 8]])}, np.array([2.0, 5, 4]))
    assert (found.length_ratio, found.peak("trained")) == (2.5, 4)


def test_the_layer_that_is_looked_at_is_the_one_before_the_middle(monkeypatch):
    """Six layers: it is the third. Two texts of one and two rows."""
    monkeypatch.setattr(networks.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(networks.pretrained, "load", lambda *_, **given: given["control_seed"])
    monkeypatch.setattr(networks.pretrained, "tokenizer", lambda checkpoint: None)
    monkeypatch.setattr(networks.texts, "passages", lambda **_: [])
    layers = [encoder_layer(mlp(b_in=float(k))) for k in range(6)]

    def run(model, tokenizer, passages):
        texts = [[SimpleNamespace(before_first=double([k, i]), first=double([i, k])) for i in (1, 2)] for k in range(6)]
        return networks.Network(model, layers if model is None else layers[::-1], [], texts)

    monkeypatch.setattr(networks, "_run", run)
    subject, both = networks.run_networks(SimpleNamespace(model="one", texts=None, device="cpu"))
    assert (subject.level, subject.depth, subject.heads, subject.width) == (2, 6, 2, 4)
    assert subject.layer is layers[2]
    assert subject.after is layers[3].attention
    assert subject.before_first.tolist() == [[2, 1], [2, 2]]
    assert subject.first.tolist() == [[1, 2], [2, 2]]
    assert list(both) == ["trained", "control"]
