"""The weighted mean and the similarity of rows: what the studies measure, on inputs whose answer is known by hand."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.lab.mathematics.stretching import row_norms
from book.studies.bert_similarity import asymmetry, cone, controls, networks
from book.studies.bert_similarity.asymmetry import (
    COMMON,
    CONTENT,
    EQUAL,
    KINDS,
    LESS_COMMON,
    POSITIVE,
    SYMMETRIC,
    TRAINED,
)
from book.studies.bert_similarity.controls import PERMUTED, SHARP
from book.studies.shared.equality import draw, random_layer
from book.studies.weighted_mean import dial, experiments, identities
from tests.book.studies.known import Known, double, plain, record

weighted = import_module("book.studies.weighted_mean.measure")  # the package exports a function of that name
similarity = import_module("book.studies.bert_similarity.measure")
EYE = torch.eye(2).double()


# ---- the weighted mean


def test_layers_are_uniform_where_their_scores_do_not_hang_on_the_key():
    layer = random_layer(3, 12, 4)
    cases = identities.measure_cases(layer, draw(9, 12))
    assert {name for name, case in cases.items() if case.uniform} == {
        "all of W_Q, W_K, b_Q zero",
        "W_K zero, any biases",
        "W_Q and b_Q zero, b_K huge",
        "queries and keys orthogonal",
        "equal rows in W_K, one-hot input",
        "equal rows in W_K, LayerNorm of unit gain",
        "rows of W_K over gain, LayerNorm",
    }
    for name, case in cases.items():
        assert (case.content + case.constant < 1e-9) == case.uniform, name
    assert torch.equal(cases["W_Q and b_Q zero, b_K huge"].layer.b_K, 100 * layer.b_K)
    assert cases["W_Q zero, b_Q not"].content == 0
    assert cases["equal rows in W_Q, LayerNorm, bias"].content < 1e-9  # all queries are one, of the norm's bias


def test_folded_forms_are_held_to_random_layers_one_wide_head_and_the_record(monkeypatch):
    def gaps(family, layer, x):
        by_form = dict.fromkeys(identities.REWRITINGS, 0.25 if family == "bert" else 0.125)
        return by_form | {"heads": layer.heads, "width": x.shape[-1]}

    table = record(**{form: np.array([0.0, 0.5]) for form in identities.REWRITINGS}, heads=[0], width=[0], other=[9.0])
    monkeypatch.setattr(identities, "gaps", gaps)
    monkeypatch.setattr(identities.publish, "live_or_record", lambda name, _: (table, name))
    found, source = identities.measure_folding(random_layer(3, 12, 4), SimpleNamespace(device="cpu"))
    assert source == "patterns-and-messages-equality-gpt2"
    assert (found.random["gpt2"]["heads"], found.random["bert"]["width"]) == (3, 12)
    assert (found.one_head["gpt2"]["heads"], found.one_head["bert"]["width"]) == (1, 8)
    assert set(found.gpt2) == {*identities.REWRITINGS, "heads", "width"}
    assert found.rewriting_error() == 0.5
    table.arrays |= {form: np.array([0.0, 0.2]) for form in identities.REWRITINGS}
    assert (
        identities.measure_folding(random_layer(3, 12, 4), SimpleNamespace(device="cpu"))[0].rewriting_error() == 0.25
    )


class OfPositions(Known):
    """A record in which four positions were read, beside the curves on positions."""

    def __getitem__(self, name):
        return {"positions": 4}[name]


def test_the_dial_at_one_is_the_model_as_it_is(monkeypatch):
    gpt2 = {
        "dials": np.array([0.0, 1, 2]),
        "positions": np.array([[1.0, 1], [0.5, 0.9], [0.1, 0.2]]),
        "stand_ins": np.array([[1.0, 1], [0.6, 0.4], [0.1, 0.2]]),
        "stand_ins_self": np.array([0.1, 0.3]),
        "control": np.array([[1.0, 1], [0.95, 0.98], [0.9, 0.9]]),
    }
    spectra = record(control_varying=np.array([[0.01, 0.02], [9, 9]]))
    names = {"weighted-mean-gpt2": OfPositions(arrays=gpt2), "patterns-and-messages-spectra-gpt2": spectra}

    def texts(models, dials, inputs, seed):
        return {name: (seed is None) * 0.5 + np.arange(18.0).reshape(3, 3, 2) / 100 + 0.1 for name in models}

    def read(name, _, **__):
        return names[name], name

    monkeypatch.setattr(dial, "entropies_on_text", texts)
    monkeypatch.setattr(dial.publish, "live_or_record", read)
    monkeypatch.setattr(dial, "previous_token_share", lambda _: "99 %")
    ladder = {
        name: name for name in dial.Dial.__dataclass_fields__ if name[:6] in ("ladder", "seeds", "seeds_", "spread")
    }
    monkeypatch.setattr(dial, "measure_ladder", lambda _: ladder)
    found, source = dial.measure_dial(("a", "b"), None)
    assert (source, found.models, found.half, found.previous) == ("weighted-mean-gpt2", "a and b", "0.031", "99 %")
    assert found.rows["gpt2 layer 0, positions"].tolist() == [0.5, 0.9]
    assert found.rows["gpt2 layer 0, stand-ins"].tolist() == [0.6, 0.4]
    assert found.rows["a layer 0, text"].tolist() == pytest.approx([0.66, 0.67])
    assert found.rows["b layer 2, text"].tolist() == pytest.approx([0.7, 0.71])
    assert found.controls["b layer 2, text"].tolist() == pytest.approx([0.2, 0.21])
    assert found.controls["gpt2 layer 0, stand-ins"].tolist() == [0.95, 0.98]
    assert (found.control, found.sharpest, found.flattest) == ("0.160", "0.400", "0.90")
    assert (found.swing, found.swing_head, found.swing_self) == ("0.50", "1", "30%")
    panels = [found.panels[f"gpt2, {name}"][1].tolist() for name in ("positions", "stand-ins")]
    assert panels == [[0.5, 0.9], [0.6, 0.4]]
    assert found.panels["a, text"][:, 1].tolist() == pytest.approx([0.61, 0.67, 0.73])
    assert found.panel_controls["b, text"][0].tolist() == pytest.approx([0.1, 0.11])
    assert found.panel_controls["gpt2, positions"][2].tolist() == [0.9, 0.9]
    assert found.key_counts.tolist() == [2, 3, 4]
    assert found.control_varying.tolist() == [0.01, 0.02]


def test_positions_are_given_to_the_first_layer_and_to_its_controls(monkeypatch):
    """The first layer attends to all alike, which is the full entropy; the second prefers rows like its own."""
    layers = [plain(2, causal=True), plain(2, causal=True, W_Q=EYE, W_K=EYE)]
    places = torch.arange(12).double().reshape(6, 2).sin() * 5
    model = SimpleNamespace(positions=places, norm=lambda _: None, layers=layers)
    monkeypatch.setattr(experiments.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(experiments, "load", lambda name, dtype: model)
    monkeypatch.setattr(experiments, "apply_norm", lambda x, norm: x)
    monkeypatch.setattr(experiments, "random_attention_layer", lambda model, number, seed, dtype: model.layers[number])
    monkeypatch.setattr(experiments, "make_controls", lambda trained, draw: [trained, draw(3), layers[1]])
    monkeypatch.setattr(experiments, "measure_controls", lambda networks, measure: [measure(each) for each in networks])
    found, (same, drawn, second) = experiments.of_gpt2(torch.device("cpu"))
    for shares in (found, same, drawn):
        assert shares.tolist() == [[pytest.approx(1)], [pytest.approx(1)]]
    assert second.max() < 0.9


def test_entropies_of_networks_are_at_a_dial_of_one(monkeypatch):
    monkeypatch.setattr(experiments.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(experiments.pretrained, "load", lambda name, control_seed=None, **_: (name, control_seed))
    monkeypatch.setattr(experiments, "find_run", lambda seed, _: f"run {seed}")
    monkeypatch.setattr(experiments, "make_controls", lambda trained, draw: [trained, draw(3)])
    monkeypatch.setattr(experiments, "measure_controls", lambda networks, measure: [measure(each) for each in networks])

    def shares(checkpoint, passages, device, network=None):
        assert passages == experiments.PASSAGES
        return [torch.tensor([len(str(network or checkpoint))]), None]

    monkeypatch.setattr(experiments, "entropy_shares", shares)
    trained, of_controls = experiments.of_model("m", torch.device("cpu"))
    assert (trained.tolist(), [each.tolist() for each in of_controls]) == ([11], [[11], [8]])
    arrays = experiments.measure_seeds(torch.device("cpu")).arrays
    assert arrays["shares"].tolist() == [[len(f"run {seed}")] for seed in experiments.SEEDS]


def test_modules_without_an_output_projection_are_counted(monkeypatch):
    counts = {"modules": 90, "files": 50, "own": 80, "beside": 7, "none": 1, "without": "A and B", "transformers": "5"}
    monkeypatch.setattr(weighted.publish, "live_or_record", lambda *_, **__: (counts, ""))
    found = weighted.measure_survey(None)
    assert (found.none, found.beside, found.without) == ("one", "7", "A and B")
    assert found.counts == counts
    counts["none"] = 3
    assert weighted.measure_survey(None).none == "3"


# ---- the similarity of rows


def test_the_library_is_held_to_our_formulas(monkeypatch):
    states = double([[1, 0], [0, 1], [1, 1]], [[2, 0], [0, 2], [2, 2]], [[3, 0], [0, 3], [3, 3]])
    layers = [plain(2, W_Q=EYE), plain(2, W_Q=EYE)]
    trained = SimpleNamespace(attention=layers, layers=["one", "two"], states=[states])
    maps = torch.full((1, 1, 3, 3), 1 / 3).double()
    other = maps.clone()
    other[0, 0, 1] = double(0.5, 0.25, 0.26)
    of_layer = lambda query: SimpleNamespace(attention=SimpleNamespace(self=SimpleNamespace(query=query)))  # noqa: E731
    network = lambda tokens, output_attentions: SimpleNamespace(attentions=[maps, other])  # noqa: E731
    network = Network(network, [None, of_layer(lambda x: x + double(-4, 1) + 0.5 * x)])
    monkeypatch.setattr(networks, "encode", lambda x, of: [x, x * 2 + double(0, 0.125), x * 3 - 0.25])
    monkeypatch.setattr(networks.extraction, "accepts", lambda _, length: length <= 7)
    monkeypatch.setattr(networks.extraction, "count_parameters", lambda *sizes: sizes)
    subjects = SimpleNamespace(trained=trained, network=network, tokens=torch.zeros(1, 3))
    found = networks.measure_architecture(subjects, 1)
    assert (found.base, found.large) == ((12, 12, 768), (24, 16, 1024))
    assert (found.layers, found.width, found.channel, found.tokens, found.states) == (2, 2, 2, 3, (3, 3, 2))
    assert (found.limit, found.accepts_limit, found.accepts_more) == (7, True, False)
    assert found.order_gap == 0.25
    assert found.attention_gap == pytest.approx(1 / 6)
    assert found.row_sum_error == pytest.approx(0.01)
    assert found.shift_error < 1e-12
    assert found.added_to_queries == 4  # -4, +1, and half of up to 2
    assert found.added_unevenly == pytest.approx(2 / 3)  # 1, 0, 1 about 2/3


class Network:
    """A network that can be called and has layers."""

    def __init__(self, call, layers):
        self.call, self.encoder = call, SimpleNamespace(layer=layers)
        self.config = SimpleNamespace(max_position_embeddings=7)

    def __call__(self, *args, **settings):
        return self.call(*args, **settings)


def test_order_is_measured_with_positions_without_them_and_under_a_mask(monkeypatch):
    table = double([1, 2], [3, -4])
    monkeypatch.setattr(cone.extraction, "order_sensitivity", lambda _, tokens, permutation: table.abs().sum().item())
    embeddings = SimpleNamespace(position_embeddings=SimpleNamespace(weight=table))
    x = double([1, 0], [0, 2], [4, 0], [0, 8])
    layer = plain(2, W_V=EYE, W_O=EYE)
    control = SimpleNamespace(states=[[x]], attention=[layer])
    network, tokens = SimpleNamespace(embeddings=embeddings), torch.zeros(1, 4)
    found = cone.measure_order(SimpleNamespace(network=network, tokens=tokens, control=control))
    assert (found.with_positions, found.without_positions) == (10, 0)
    assert table.tolist() == [[1, 2], [3, -4]]
    order = torch.randperm(4, generator=torch.Generator().manual_seed(0)).numpy()
    assert order.tolist() != [0, 1, 2, 3]
    means = lambda rows: np.cumsum(rows, 0) / np.arange(1, 5)[:, None]  # noqa: E731
    one, other = means(x.numpy())[order], means(x.numpy()[order])
    assert found.causal == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(one))


def test_forms_of_scores_have_the_spread_of_the_content(monkeypatch):
    content = double([[1, 3], [2, 6]])
    given = {TRAINED: 2 * content, CONTENT: content, SYMMETRIC: double([[0, 8], [0, 8]]), POSITIVE: content + 1}
    monkeypatch.setattr(asymmetry.symmetry, "score_variants", lambda x, weights: dict(given))
    found = asymmetry.forms_of_scores(None, None)
    assert set(found) == {*KINDS, *(kind + EQUAL for kind in KINDS)}
    assert found[COMMON][0].tolist() == [[1.5, 4.5], [1.5, 4.5]]
    assert found[LESS_COMMON][0].tolist() == [[-0.5, -1.5], [0.5, 1.5]]
    assert found[TRAINED + EQUAL][0].tolist() == pytest.approx(content[0].numpy())
    assert found[SYMMETRIC + EQUAL][0, 0].tolist() == pytest.approx([0, 8 * 2.5**0.5 / 4])  # 1, 1, 2, 2 against 4s
    assert found[COMMON + EQUAL][0, 0, 0].item() == pytest.approx(1.5 * 2.5**0.5 / 1.5)


def test_asymmetry_is_a_mean_over_texts_and_layers(monkeypatch):
    table = np.zeros((3, 2, 4))  # text, layer, number
    table[..., 0], table[..., 1] = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [[0.2, 0.4], [0.4, 0.6], [0.6, 0.8]]
    table[..., 2], table[..., 3] = [[1, 2], [3, 4], [5, 6]], [[0, 0.5], [0.5, 0], [0.25, 0.25]]
    given = {"trained": {CONTENT: table, SYMMETRIC: 2 * table}, "control": {CONTENT: table / 2}}
    monkeypatch.setattr(asymmetry, "measure_forms", lambda which, forms: given[which.name])
    subjects = SimpleNamespace(
        trained=SimpleNamespace(name="trained", states=[1, 2, 3]), control=SimpleNamespace(name="control")
    )
    found = asymmetry.measure_asymmetry(subjects)
    assert found.scores[CONTENT].tolist() == pytest.approx([0.3, 0.4])
    assert found.attention[SYMMETRIC].tolist() == pytest.approx([0.8, 1.2])
    assert found.attention["control"].tolist() == pytest.approx([0.2, 0.3])
    assert (found.spread[CONTENT], found.texts) == (3.5, 3)
    assert found.negative == {"trained": 0.25, "control": 0.125}
    value, low, high = found.over_texts[CONTENT]
    half = 4.302653 * 0.2 / 3**0.5  # of three texts with 0.3, 0.5 and 0.7
    assert (value, low, high) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-6)
    assert found.mean_attention[CONTENT] == pytest.approx(0.5)
    assert found.mean_scores["control"] == pytest.approx(0.175)


def test_the_classifiers_singular_values_are_of_all_its_heads(monkeypatch):
    layers = [
        plain(2, heads=2, W_Q=k * EYE, W_K=torch.diag(double(5 * k, 1)), W_V=0.5 * EYE, W_O=9 * EYE) for k in (2, 3)
    ]
    layers[1].W_V[1] *= 3
    monkeypatch.setattr(controls.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(controls, "load", lambda _: SimpleNamespace(plain_layers=lambda: layers))
    table = record(growth=np.array([[1.0, 7], [3, 2]]))
    monkeypatch.setattr(controls, "live_or_record", lambda name, *_, **__: (table, name))
    found = controls.measure_classifier(None)
    assert found.largest.tolist() == pytest.approx(np.array([[2, 2, 3, 3], [10, 10, 15, 15], [0.5, 0.5, 0.5, 1.5]]))
    assert found.growth == 7


def test_the_ladder_is_told_in_means():
    def one(documents, sharp, permuted, random=0.0):
        rung = lambda value: np.array([[value - 0.01, value + 0.01]])  # noqa: E731
        others = {"random": rung(random), SHARP: rung(sharp), PERMUTED: rung(permuted)}
        return SimpleNamespace(documents=np.array([documents - 0.02, documents + 0.02]), controls=others)

    rungs = {
        "sigma above 1, Q": one(0, 0.9, 0.1),
        "sigma above 1, K": one(0, 0.8, 0.95),
        "amplified jointly, Q": one(0, 0.3, 0),
        "amplified jointly, K": one(0, 0.4, 0),
        "rows amplified, Q": one(0.1, 0.02, 0.03),
        "rows amplified, K": one(0.05, 0.01, 0.02, 0.07),
        "cone, Q": one(0.5, 0.6, 0.1),
        "cone, K": one(0.6, 0.3, 0.2),
        "antisymmetric share of M": one(0.45, 0.5, 0.51),
        "asymmetry of attention": one(0.31, 0.11, 0),
        "symmetric form": one(0.21, 0.12, 0),
        "negative scores with itself": one(0.2, 0.5, 0.4),
        "moved without b_Q": one(0.25, 0, 0.15),
    }
    assert vars(controls.phrase_rungs(rungs)) == {
        "over_sharp": "80 %",
        "joint_sharp": "30 %",
        "amplified_trained": "10.0 %",
        "amplified_most": "7.0 %",
        "cone_trained": "0.60",
        "cone_sharp": "0.60",
        "cone_permuted": "0.20",
        "share_trained": "0.45",
        "share_sharp": "0.50",
        "share_permuted": "0.51",
        "attention_trained": "0.31",
        "attention_sharp": "0.11",
        "attention_symmetric_trained": "0.21",
        "attention_symmetric_sharp": "0.12",
        "negative_documents": "20 %",
        "negative_sharp": "50 %",
        "negative_permuted": "40 %",
        "moved_trained": "25 %",
        "moved_permuted": "15 %",
    }


def test_rows_are_as_long_as_the_first_head_makes_them():
    weights = plain(2, heads=2, W_Q=2 * EYE, W_K=EYE / 2, W_V=EYE, b_V=double(0, 1))
    weights.W_Q[1] *= 9
    x = double([3, 4], [0, -1])
    assert row_norms(x, weights, 0).tolist() == pytest.approx(np.array([[5, 1], [10, 2], [2.5, 0.5], [34**0.5, 0]]))
    assert row_norms(x, weights, 1)[1].tolist() == pytest.approx([90, 18])


def test_the_drawn_head_is_head_3_of_the_first_layer_or_the_last_there_is():
    layers = lambda heads: SimpleNamespace(layers=[0] * 7, attention=[SimpleNamespace(heads=heads)])  # noqa: E731
    assert networks.choose_head(layers(12)) == networks.DrawnHead(0, 3)
    assert networks.choose_head(layers(2)) == networks.DrawnHead(0, 1)


def test_the_text_says_what_was_measured():
    stretching = SimpleNamespace(
        largest={"trained": [None, None, np.array([0.5, 1, 1.5, 2])], "control": np.array([0.25, 0.75])},
        alone={"trained": [SimpleNamespace(value=value) for value in (0.001, 0.02, 0.3)]},
        over={"trained": [0.1, 0.2, 0.3]},
        joint={"trained": [0.4, 0.5, 0.6]},
        furthest=[9, 9, 1.125],
        growth={"trained": [None, None, torch.zeros(1200, 2)]},
        amplified_V=1234,
    )
    cone = SimpleNamespace(
        best=[0.1, 0.2, 0.3], half=[0.4, 0.5, 0.6], middle={"trained": [1, 2, 3], "isotropic": [4, 5, 6]}
    )
    terms = SimpleNamespace(without_b_Q=[SimpleNamespace(value=value) for value in (0.2, 0.1, 0.4)])
    form = SimpleNamespace(
        antisymmetric={"trained": np.array([0.3, 0.5, 0.2, 0.475]), "control": np.array([0.48, 0.47, 0.49])}, channel=64
    )
    kinds = (
        TRAINED,
        CONTENT,
        SYMMETRIC,
        TRAINED + EQUAL,
        SYMMETRIC + EQUAL,
        POSITIVE + EQUAL,
        LESS_COMMON + EQUAL,
        COMMON,
    )
    attention = {kind: np.array([0, 0.02 * k]) for k, kind in enumerate(kinds, 1)}
    of_kinds = SimpleNamespace(
        attention=attention,
        mean_attention={kind: values.mean() for kind, values in attention.items()},
        negative={"trained": 0.125, "control": 0.5},
    )
    found = vars(similarity.write_prose(stretching, cone, terms, form, of_kinds))
    assert [found[f"{name}_K"] for name in ("over", "grown", "joint", "best", "half", "middle", "chance")] == [
        "20 %",
        "2.0 %",
        "50 %",
        "0.20",
        "0.50",
        "2.00",
        "5.00",
    ]
    assert (found["furthest_V"], found["pairs_V"], found["amplified_V"]) == ("1.12", "2,400", "1,234")
    assert (found["heads_V"], found["top_control"]) == ("2 of 4", "0.75")
    assert (found["drop_low"], found["drop_high"], found["channel"]) == ("10 %", "40 %", "64")
    assert (found["symmetric"], found["share"], found["share_control"]) == ("50 %", "0.30", "0.48")
    skew = ("trained", "content", "symmetric_raw", "trained_equal", "symmetric", "positive", "less_common", "common")
    assert [found[f"skew_{name}"] for name in skew] == [f"{k / 100:.2f}" for k in range(1, 9)]
    assert (found["skew_last_content"], found["skew_last_symmetric"]) == ("0.04", "0.10")
    assert (found["negative_trained"], found["negative_control"]) == ("12 %", "50 %")


def test_a_model_and_its_control_read_the_same_texts_and_the_first_is_shown(monkeypatch):
    monkeypatch.setattr(networks.texts_at_hand, "passages", lambda count, source: [f"{source} one", f"{source} two"])
    monkeypatch.setattr(networks.extraction, "observe", lambda *given: given)
    found = networks.observe_models(SimpleNamespace(model="minilm", texts="number", device="cpu"))
    (network, tokenizer, texts, longest), (control, *same) = found.trained, found.control
    assert tokenizer.decode(found.tokens[0]) == "[CLS] number one [SEP]"
    assert (texts, longest) == (["number one", "number two"], networks.LONGEST)
    assert same == [tokenizer, texts, longest]
    assert network is found.network
    ours, drawn = (each.state_dict()["encoder.layer.0.attention.self.query.weight"] for each in (network, control))
    assert not torch.equal(ours, drawn)
