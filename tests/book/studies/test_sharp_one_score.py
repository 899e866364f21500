"""The whole score: the measurement of the chapter, and the survey of a model."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import Norm
from book.lab.dna.simulate import invent_backbones
from book.studies.one_score_four_parts import parts, shares
from tests.book.studies.known import double, plain

measure = import_module("book.studies.one_score_four_parts.measure")  # the package may export a function of that name


# ---- the chapter


def test_each_part_of_the_chapter_is_handed_its_own_inputs(monkeypatch):
    asked = []
    inputs = SimpleNamespace(texts="own texts", device="there")

    def choose(model, **named):
        asked.append((model, named))
        return inputs

    for module, name, answer in (
        (measure, "choose_inputs", choose),
        (measure, "live_or_record", lambda name, given: (name, f"sentence of {name}")),
        (measure, "labelled", lambda model: {"minilm": "minilm", "mine": model}),
        (measure.checkpoints, "find", lambda name: f"found {name}"),
        (measure.parts, "survey", lambda found, **named: (found, named)),
        (measure.parts, "random_tokens", lambda: "tokens"),
        (measure.parts, "measure_distances", lambda *given: ("distances", *given)),
        (measure.parts, "measure_atlas", lambda *given: ("atlas", *given)),
        (measure.shares, "measure_one_text", lambda *given: ("one text", *given)),
        (measure.shares, "other_splits", lambda *given: ("splits", *given)),
        (measure, "measure_mini_seeds", lambda given: ("seeds", given)),
        (measure, "measure_exactness", lambda *given: ("exact", *given)),
        (measure, "measure_nearest", lambda *given: ("nearest", *given)),
        (measure, "measure_causes", lambda *given: ("causes", *given)),
        (measure, "measure_rungs", lambda given: ("rungs", given)),
        (measure, "measure_lengths", lambda given: ("lengths", given)),
        (measure, "measure_other_chapters", lambda: "others"),
        (measure, "measure_shares", lambda *given: SimpleNamespace(heads="heads", given=given)),
    ):
        monkeypatch.setattr(module, name, answer)
    found = measure.measure("models/mine", "folder", "cuda")
    assert asked == [
        ("models/mine", {"own": "gpt2-mini", "texts": "folder", "device": "cuda", "families": ("gpt2", "bert")})
    ]
    options = {"source": "own texts", "device": "there"}
    surveys = {"minilm": ("found minilm", options), "mine": ("found models/mine", options)}
    controls = {name: (given, {"control_seed": 0, **options}) for name, (given, _) in surveys.items()}
    gpt2 = "one-score-four-parts-gpt2"
    distances = ("distances", gpt2, surveys, controls)
    assert found.inputs is inputs
    assert (found.models, found.sources) == (("minilm", "models/mine"), (f"sentence of {gpt2}",))
    assert found.exactness == ("exact", surveys, controls)
    assert (found.tokens, found.atlas, found.distances) == ("tokens", ("atlas", "tokens", gpt2, surveys), distances)
    assert found.nearest == ("nearest", distances, surveys["minilm"], gpt2)
    assert found.shares.given == (gpt2, surveys, controls, ("seeds", inputs))
    one_text = ("one text", "minilm", surveys["minilm"], inputs)
    assert (found.one_text, found.splits) == (one_text, ("splits", one_text))
    assert found.causes == ("causes", "heads", inputs)
    assert (found.rungs, found.lengths, found.mini_seeds) == (("rungs", inputs), ("lengths", inputs), ("seeds", inputs))
    assert found.other_chapters == "others"


# ---- the survey of a model


@pytest.fixture
def surveyed(monkeypatch):
    """Survey a model of two layers and two heads on texts of 2 and 3 tokens, every step of it a number to recognise."""
    texts = [torch.tensor([1, 2]), torch.tensor([1, 2, 3])]
    seen = {"error": [], "loaded": None, "inputs": None}

    def model(ids, output_hidden_states, output_attentions):
        assert output_hidden_states
        assert output_attentions
        n = ids.shape[1]
        maps = [torch.full((1, 2, n, n), 10.0 * layer + n).double() for layer in range(2)]
        return SimpleNamespace(hidden_states=[n * torch.ones(1, n, 2).double()] * 3, attentions=maps)

    def load(checkpoint, **named):
        seen["loaded"] = (checkpoint, named)
        return model

    def inputs(checkpoint, source):
        seen["inputs"] = (checkpoint, source)
        return texts

    def attention_inputs(given, states):
        assert given is model
        return [states[0] + layer for layer in range(2)]

    def identity_error(x, layer, attention):
        seen["error"].append((x[0, 0].item(), layer, attention[0, 0, 0].item()))
        return {"layer 0": 0.25, "layer 1": 0.5}[layer]

    def split_layer(xs, layer, causal):
        assert causal == "causal"
        size = {"layer 0": 1.0, "layer 1": 2.0}[layer]
        rows = [x.sum().item() for x in xs]
        return (*(np.array([k, size, *rows]) for k in range(4)), size / 8)

    weights = SimpleNamespace(plain_layers=lambda: ["layer 0", "layer 1"], causal="causal")
    for module, name, answer in (
        (parts.pretrained, "load", load),
        (parts, "load", lambda given: {model: weights}[given]),
        (parts, "inputs", inputs),
        (parts.extraction, "attention_inputs", attention_inputs),
        (parts, "identity_error", identity_error),
        (parts, "distances", lambda maps, ids, causal: maps[..., 0, 0] + len(ids) / 10),
        (parts, "first_layer", lambda given, ids, layer, causal: torch.full((2, 6), float(len(ids)))),
        (parts, "split_layer", split_layer),
    ):
        monkeypatch.setattr(module, name, answer)
    return parts.survey("checkpoint", control_seed=7, source="folder"), seen


def test_a_survey_keeps_its_largest_errors(surveyed):
    found, seen = surveyed
    assert seen["loaded"] == ("checkpoint", {"control_seed": 7, "dtype": torch.float64, "device": "cpu"})
    assert seen["inputs"] == ("checkpoint", "folder")
    assert seen["error"] == [(2, "layer 0", 2), (3, "layer 1", 12)]  # of the first text alone
    assert (found.error, found.gap) == (0.5, 0.25)
    assert found.causal == "causal"


def test_a_survey_is_a_mean_over_texts_and_keeps_the_maps_of_the_first(surveyed):
    found, _ = surveyed
    for k, table in enumerate((found.divergence, found.parts, found.from_zero, found.by_text)):
        assert table.tolist() == [[k, 1, 2 * 2 * 2, 3 * 2 * 3], [k, 2, 2 * 2 * 3, 3 * 2 * 4]]
    # two rows of 2 and three of 3, and one more in the next layer
    np.testing.assert_allclose(found.origins, [[(2 * 2 + 3 * 3) / 5] * 2, [(2 * 3 + 3 * 4) / 5] * 2])
    np.testing.assert_allclose(found.first, np.full((2, 6), 2.5))
    np.testing.assert_allclose(found.distance, [[2.75] * 2, [12.75] * 2], rtol=1e-6)
    assert found.maps.tolist() == [[[[2] * 2] * 2] * 2, [[[12] * 2] * 2] * 2]
    assert found.maps.dtype == np.float32


class Tokenizer:
    """One token a letter, after a 0."""

    def __call__(self, text, truncation=False, max_length=None):
        ids = [0, *(ord(letter) for letter in text)]
        return {"input_ids": ids[:max_length] if truncation else [*ids, -1, -1]}


def test_a_classifier_reads_omicrons_first_gene_without_its_padding(tmp_path, monkeypatch):
    (tmp_path / "report.json").write_text("{}")
    checkpoint = SimpleNamespace(folder=tmp_path)
    monkeypatch.setattr(parts.pretrained, "tokenizer", lambda _: None)
    folders = []
    monkeypatch.setattr("book.lab.dna.kmers.load_tokenizer", lambda folder: folders.append(folder) or Tokenizer())
    monkeypatch.setattr("book.lab.dna.kmers.words", lambda bases: bases)
    monkeypatch.setattr("book.lab.dna.kmers.kmers", lambda bases: list(bases[:50]))
    (ids,) = parts.inputs(checkpoint)
    gene = [each for each in invent_backbones(0) if each.label == "Omicron"][-1].aligned
    assert folders == [tmp_path]
    assert ids.tolist() == [0, *(ord(base) for base in gene if base != "-")][:51]


def test_texts_are_cut_to_64_tokens_or_to_fewer_positions(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(parts.pretrained, "tokenizer", lambda _: Tokenizer())
    monkeypatch.setattr(
        parts.texts, "passages", lambda count, source: asked.append((count, source)) or ["a" * 99, "", "bc", "d"]
    )
    for positions, longest in ((512, 64), (20, 20)):
        config = SimpleNamespace(max_position_embeddings=positions)
        monkeypatch.setattr(parts, "load", lambda _, config=config: SimpleNamespace(config=config))
        found = parts.inputs(SimpleNamespace(folder=tmp_path), "folder")
        first = [0, *[97] * (longest - 1)]
        assert [ids.tolist() for ids in found] == [first, [0, 98, 99], [0, 100]]  # the 0 alone is no text
    assert asked == [(8, "folder")] * 2


def test_rows_of_a_long_text_are_spread_evenly():
    assert parts._rows(torch.zeros(65)).tolist() == list(range(1, 65))
    assert parts._rows(torch.zeros(3)).tolist() == [1, 2]
    rows = parts._rows(torch.zeros(66)).tolist()
    assert (len(rows), rows[0], rows[-1]) == (64, 1, 65)
    assert parts._rows(torch.zeros(1000)).tolist() == [round(1 + k * 998 / 63) for k in range(64)]


def test_the_product_with_a_border_is_a_modules_attention_with_and_without_a_mask():
    x = double([1, 0], [0, 2], [1, 1])
    layer = plain(2, W_Q=torch.eye(2), W_K=torch.eye(2), b_Q=double(1, 0))
    scores = (x + double(1, 0)) @ x.mT / 2**0.5
    whole = scores.softmax(-1)[None]
    assert parts.identity_error(x, layer, whole) == pytest.approx(0, abs=1e-15)
    causal = scores.masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf).softmax(-1)[None]
    assert parts.identity_error(x, layer, causal) == pytest.approx(0, abs=1e-15)
    off = whole.clone()
    off[0, 1, 0] -= 0.25
    off[0, 1, 2] += 0.125
    assert parts.identity_error(x, layer, off) == pytest.approx(0.25)


def test_prototypes_prefer_the_first_the_last_and_the_commonest_token(monkeypatch):
    built = {}
    for name in ("uniform", "constant_pattern", "previous_token", "matched_token", "position_bias", "position_match"):
        monkeypatch.setattr(
            parts.constructed_heads,
            name,
            lambda *given, name=name: built.setdefault(name, []).append(given) or plain(1),
        )
    monkeypatch.setattr(
        parts.constructed_heads, "position_both", lambda *given: built.setdefault("both", []).append(given) or plain(1)
    )
    monkeypatch.setattr(
        parts.constructed_heads, "attention_map", lambda layer, tokens, causal: torch.ones(len(tokens), len(tokens))
    )
    tokens = torch.tensor([30, 7, 7, 90, 7, 50, 8, 9, 11, 50])  # numbered 4, 0, 0, 6, 0, 5, 1, 2, 3, 5
    found = parts.members(tokens, causal=False)
    assert list(found) == list(parts.FAMILIES)
    assert built["constant_pattern"] == [(7, 10, 4), (7, 10, 5), (7, 10, 0)]
    assert built["position_bias"] == [(7, 10, 1.0), (7, 10, 0.1)]
    assert (built["position_match"], built["both"]) == ([(7, 10, 8)], [(7, 10, 0.1, 8)])
    built.clear()
    parts.members(tokens, causal=True)
    assert built["constant_pattern"] == [(7, 10, 4)]
    built.clear()
    parts.members(tokens[:5], causal=True)  # shorter than every period
    assert built["position_match"] == [(3, 5, 8)]
    built.clear()
    parts.members(torch.arange(16), causal=True)
    assert built["position_match"] == [(16, 16, 8), (16, 16, 16)]


def nats(*scores: float) -> float:
    """Return how far the weights of some scores are from even ones."""
    odds = np.exp(scores) / np.exp(scores).sum()
    return float(sum(odds * np.log(len(odds) * odds)))


def test_a_layer_is_split_over_the_keys_that_are_asked_for(monkeypatch):
    """Scores are 3 at the last key of each text and 0 before it, for all queries: all of it is semi-bias."""
    xs = [double([1, 0], [1, 0], [1, 1]), double([3, 0], [3, 1])]
    layer = plain(2, W_K=torch.eye(2), b_Q=double(0, 3 * 2**0.5))
    due = {True: [nats(0, 0, 3) / 2, nats(0, 3)], False: [nats(0, 3) / 2, 0]}
    for first, of_texts in due.items():
        whole, found, zero, by_text, gap = parts.split_layer(xs, layer, True, first=first)
        np.testing.assert_allclose(by_text[:, 0, 2], of_texts, atol=1e-6)
        np.testing.assert_allclose([whole[0], found[0, 2], zero[0, 1]], [sum(of_texts) / 2] * 3, atol=1e-6)
        assert (by_text.shape, found.shape, zero.shape) == ((2, 1, 5), (1, 5), (1, 4))
        assert gap < 1e-6
    split, gaps = parts.attribution.attribute_divergence, iter([0.25, 0.5, 0.75, 0.125])

    def with_gap(*given):
        found = split(*given)
        return SimpleNamespace(divergence=found.divergence, parts=found.parts, gap=next(gaps))

    monkeypatch.setattr(parts.attribution, "attribute_divergence", with_gap)
    assert [parts.split_layer(xs, layer, True)[-1] for _ in range(2)] == [0.5, 0.75]


def test_counted_from_nothing_the_common_part_is_content():
    """Without a bias the mean input alone has a share, which is the queries' mean on the keys."""
    x = double([1, 2], [0, 3], [5, 1], [1, 1])
    whole, found, zero, by_text, _ = parts.split_layer([x], plain(2, W_Q=torch.eye(2), W_K=torch.eye(2)), False)
    assert abs(found[0, 1]) > 0.1
    np.testing.assert_allclose(zero[0], [found[0, 0] + found[0, 1], 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.sum(-1), whole, atol=1e-6)
    np.testing.assert_allclose(by_text[0], found)


def test_six_terms_stand_in_their_order_and_those_of_keys_alone_hold_for_every_query(monkeypatch):
    """Two queries of three positions; a term is a number times the key's place, so shares differ in size alone."""
    names = ("ee", "ep", "pe", "pp")
    ramp = torch.arange(3.0).double()
    terms = SimpleNamespace(
        **{name: (k + 1) * ramp.expand(1, 3, 3) for k, name in enumerate(names)}, e=5 * ramp[None], p=6 * ramp[None]
    )
    monkeypatch.setattr(parts, "six_terms", lambda e, p, layer, norm: terms)
    found = parts.split_six(torch.zeros(3, 2), None, None, Norm(torch.ones(2), torch.zeros(2), 0.0), False)
    odds = (21 * ramp).softmax(-1)
    divergence = (odds * (3 * odds).log()).nan_to_num().sum().item()
    np.testing.assert_allclose(found, [[divergence * k / 21 for k in range(1, 7)]], rtol=1e-6)


def test_other_splits_give_all_to_the_only_part_there_is():
    """Three positions; scores are 0, 0 and 3 for every query, by a query bias alone."""
    x, layer = double([1, 0], [1, 0], [1, 1]), plain(2, W_K=torch.eye(2), b_Q=double(0, 3 * 2**0.5))
    for causal, due in ((True, nats(0, 0, 3) / 2), (False, nats(0, 0, 3))):
        found = parts.compare_splits(x, layer, double(0, 0), causal)
        assert set(found) == {
            *("path", "in order", "reverse order", "mean of orders", "drop one"),
            *("path, content cut", "mean of orders, content cut"),
        }
        for name, table in found.items():
            np.testing.assert_allclose(table, [[0], [0], [due]], atol=1e-6, err_msg=name)


def test_the_order_of_splits_is_from_content_on_or_from_the_semi_bias_on():
    """One query and two keys: content 2 at the second key, common part 1 and semi-bias -4 there."""
    scores = {"content": 2.0, "common": 1.0, "semi_bias": -4.0}
    terms = SimpleNamespace(
        stack=lambda *names: torch.stack([double([[0, scores[name]]]).expand(1, 1, 2) for name in names])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "score_terms", lambda x, layer, origin, queries: terms)
        found = parts.compare_splits(torch.zeros(2, 1).double(), None, None, False)
    to, none, all_of = (lambda score: nats(0, score)), 0.0, nats(0, -1)
    assert found["in order"][:, 0].tolist() == pytest.approx([to(2) - none, to(3) - to(2), all_of - to(3)])
    assert found["reverse order"][:, 0].tolist() == pytest.approx([all_of - to(-3), to(-3) - to(-4), to(-4) - none])
    assert found["drop one"][:, 0].tolist() == pytest.approx([all_of - to(-3), all_of - to(-2), all_of - to(3)])


def test_the_formulas_read_48_tokens_of_twelve_kinds():
    drawn = torch.randint(12, (48,), generator=torch.Generator().manual_seed(0))
    assert parts.random_tokens().tolist() == drawn.tolist()


def test_the_last_of_three_texts_is_split_in_every_layer_about_the_origin_of_that_layer(monkeypatch):
    """Three layers and two heads; the semi-bias is largest in the first head of the last layer."""
    texts = [torch.tensor([k, k]) for k in range(3)]
    loaded = []

    def model(ids, output_hidden_states):
        assert (ids.tolist(), output_hidden_states) == ([[2, 2]], True)
        return SimpleNamespace(hidden_states=[torch.full((1, 2, 1), float(k)) for k in range(4)])

    class Terms:
        def __init__(self, *given):
            self.given = given

        def stack(self, *names):
            assert names == ("content", "common", "semi_bias")
            x, layer, origin = self.given
            value = 100 * x[0, 0].item() + 10 * layer + origin.item()
            return torch.full((3, 2, 2, 2), value) + torch.tensor([0.0, 0.5])[:, None, None]

    def compare_splits(x, layer, origin, causal):
        assert not causal
        value = x[0, 0].item() + layer + origin.item()
        return {"a": np.array([[value, value + 1]] * 3), "b": np.array([[value, value + 2]] * 3)}

    monkeypatch.setattr(shares.checkpoints, "find", lambda name: f"found {name}")
    monkeypatch.setattr(shares.pretrained, "load", lambda *given, **named: loaded.append((given, named)) or model)
    monkeypatch.setattr(shares.parts, "inputs", lambda found, given: {("found minilm", "own"): texts}[found, given])
    monkeypatch.setattr(shares, "load", lambda given: SimpleNamespace(plain_layers=lambda: [0, 1, 2]))
    monkeypatch.setattr(shares, "score_terms", Terms)
    monkeypatch.setattr(shares.parts, "compare_splits", compare_splits)
    survey = SimpleNamespace(parts=np.zeros((3, 2, 4)), origins=np.array([[0.25], [0.5], [0.75]]))
    survey.parts[2, 0, 2], survey.parts[1, 1, 0], survey.parts[0, 1, 3] = 0.1, 9, 9
    found = shares.measure_one_text("minilm", survey, SimpleNamespace(device="cpu", texts="own"))
    assert loaded == [(("found minilm",), {"dtype": torch.float64, "device": "cpu"})]
    assert (found.layer, found.head) == (2, 0)
    assert found.parts.unique().tolist() == [220.75]
    means = np.array([[0.25] * 3, [2.5] * 3, [4.75] * 3])
    np.testing.assert_allclose(found.splits["a"], means + 0.5)
    np.testing.assert_allclose(found.splits["b"], means + 1)
