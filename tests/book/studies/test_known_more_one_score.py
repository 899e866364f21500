"""What the study of the whole score says of effects, formulas and records, on inputs whose answer is known by hand."""

import math
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import RUNGS
from book.studies.one_score_four_parts import causes, experiments, parts, shares
from book.studies.one_score_four_parts.causes import WAYS
from book.studies.one_score_four_parts.parts import GPT2, Distances
from book.studies.one_score_four_parts.shares import HeadShares
from tests.book.studies.known import Known, double, plain, record

measure = import_module("book.studies.one_score_four_parts.measure")
FAMILIES = list(parts.FAMILIES)


def heads(content=(2.0, 1, 4, 3), semi=(1.0, 2, 3, 4), divergence=(4.0, 1, 40, 30)) -> HeadShares:
    """Two layers of two heads."""
    table = np.zeros((4, 3))
    table[:, 0], table[:, 2] = content, semi
    return HeadShares(np.array(divergence), table, np.zeros(4))


def test_effects_go_with_parts_by_rank_and_at_equal_depth():
    found = causes.correlate(np.array([[-1.0, 2], [3, -4]]), heads(), 0)
    assert found.nats.value == pytest.approx(0.6)  # 1 - 6 (1 + 1 + 1 + 1) / 60
    # shares of 1/2, 1, 1/10, 1/10: ranks 2, 3, and twice 1/2
    assert found.share.value == pytest.approx(-4 / math.sqrt(5 * 4.5) + 0.5 / math.sqrt(5 * 4.5))
    assert found.at_equal_depth == pytest.approx(-1)  # in each layer the other way round
    assert found.with_depth == pytest.approx(2 / math.sqrt(5))


def test_causes_are_minilms_and_count_heads_with_at_least_half(monkeypatch):
    table = np.zeros((4, 2, 2))
    table[WAYS.index("mean query")] = [[-1, 2], [3, -4]]
    table[WAYS.index("no query bias")] = [[1, 2], [3, 4]]
    table[WAYS.index("constant map")] = [[1, 0.5], [6, 6]]
    table[WAYS.index("uniform")] = [[2, 4], [6.5, 9]]
    mini = np.zeros((4, 2, 2))
    mini[WAYS.index("mean query")], mini[WAYS.index("no query bias")] = [[4, 3], [2, 1]], [[4, 3], [1, 2]]
    monkeypatch.setattr(
        causes, "live_or_record", lambda name, _, recompute: (record(**{"minilm": table, "gpt2-mini": mini}), name)
    )
    of_mini = heads(content=(1.0, 2, 3, 4), semi=(1.0, 2, 3, 4))
    found = causes.measure_causes({"minilm": heads(semi=(1.0, 2, 4, 3)), "gpt2-mini": of_mini}, None)
    assert (found.cause_content, found.cause_content_depth) == (0.6, -1)
    assert found.cause_content_share == round(-3.5 / math.sqrt(22.5), 2)
    assert (found.cause_semi, found.cause_semi_depth) == (0.8, 0)
    error = 1.959964 * math.sqrt(1 + 0.6**2 / 2)  # of four pairs
    ends = [round(math.tanh(math.atanh(0.6) + sign * error), 2) for sign in (-1, 1)]
    assert [found.cause_content_low, found.cause_content_high] == ends
    assert found.cause_semi_low == round(math.tanh(math.atanh(0.8) - 1.959964 * math.sqrt(1.32)), 2)
    assert found.cause_semi_high == round(math.tanh(math.atanh(0.8) + 1.959964 * math.sqrt(1.32)), 2)
    assert (found.cause_mini_content, found.cause_mini_semi) == (-1, pytest.approx(-0.8))
    assert (found.constant_heads, found.papa_heads) == (2, 3)  # 1 of 2 and 2 of 4 are halves; 3 of 6.5, 4 of 9 less
    assert (found.query_median, found.papa_median, found.uniform_median) == (2.5, 3.5, 5.25)


def test_seeds_of_the_small_model_are_ranges(monkeypatch):
    divergence = np.array([[[4.0, 4], [1, 1]], [[2, 2], [1, 5]]])
    by_head = np.zeros((2, 2, 2, 4))
    by_head[..., 3] = 9
    by_head[0, ..., :3] = [[[3, 1, 0], [1, 0, 3]], [[0, 0, 1], [0.5, 0, 0.5]]]
    by_head[1, ..., :3] = [[[1, 0.5, 0.5], [0, 2, 0]], [[0, 0, 1], [4, 1, 0]]]
    first = np.zeros((2, 2, 6))
    first[0, :, parts.SIX.index("p")], first[1, :, parts.SIX.index("p")] = [1, 2], [1.5, 0.5]
    effects = np.zeros((2, 4, 2, 2))
    effects[0, WAYS.index("mean query")], effects[0, WAYS.index("no query bias")] = [[4, 3], [1, 2]], [[1, 4], [3, 2]]
    effects[1, WAYS.index("mean query")], effects[1, WAYS.index("no query bias")] = [[3, 1], [2, 4]], [[4, 1], [2, 3]]
    table = record(divergence=divergence, parts=by_head, first=first, effects=effects)
    monkeypatch.setattr(causes, "live_or_record", lambda name, _, recompute: (table, name))
    found = causes.measure_mini_seeds(None)
    assert (found.count, found.heads) == (2, 4)
    assert (found.content, found.common, found.semi) == ("45 to 50 %", "10 to 35 %", "15 to 45 %")
    # ties are neither: of seed 0 two heads with more semi-bias and as many with less content, of seed 1 one and two
    assert (found.semi_majority, found.content_minority) == ("1 to 2", "2 to 2")
    assert found.p == "38 % to 50 %"
    assert found.causes["mean query"] == pytest.approx((math.sqrt(0.9), 1))  # two of seed 1's contents tie
    assert (found.cause_content, found.cause_semi) == ("0.95 to 1.00", "0.21 to 1.00")
    assert found.parts[:, 0].tolist() == [3, 1, 0, 0.5, 1, 0, 0, 4]


def test_rungs_are_ranges_of_seeds(monkeypatch):
    controls = np.zeros((3, 2, 2, 4))  # rung, seed, layer, measure
    controls[..., 0] = 2
    controls[0, :, :, 1] = [[1, 0], [2, 1]]
    controls[1, :, :, 1] = [[1, 1.5], [1, 0.5]]
    controls[2, :, :, 1] = [[0.5, 0.5], [0.5, 1.5]]
    trained = np.array([[4.0, 1, 9, 9], [2, 2, 9, 9]])
    monkeypatch.setattr(
        causes, "live_or_record", lambda name, _, recompute: (record(trained=trained, controls=controls), name)
    )
    found = causes.measure_rungs(None)
    assert (found.rung_trained, found.rung_trained_last) == ("50 %", "100 %")
    assert (found.rung_random, found.rung_scaled) == ("25 to 75 %", "38 to 62 %")
    assert (found.rung_permuted, found.rung_scaled_last) == ("25 to 50 %", "50 %")
    assert found.panels["divergence"].trained.tolist() == [4, 2]
    assert found.panels["content's share"].trained.tolist() == [0.25, 1]
    assert np.array(found.panels["content's share"].controls[RUNGS[1]]).tolist() == [[0.5, 0.75], [0.5, 0.25]]


def test_shares_by_length_are_means_of_the_texts(monkeypatch):
    by_layer = np.zeros((2, 2, 2, 3))  # length, text, layer, part
    by_layer[0, 0], by_layer[0, 1] = [[1, 0, 1], [1, 0, 1]], [[1, 0, 0], [3, 4, 0]]
    by_layer[1, 0], by_layer[1, 1] = [[3, 0, 1], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]]
    others = np.zeros((6, 2, 2, 3))
    others[..., 0], others[..., 2] = 3, 1
    others[-1] = [1, 0, 9]
    others[shares.LENGTHS.index(shares.TOKENS), :, 1] = [1, 3, 0]
    table = record(**{"lengths": np.array([16, 400]), "parts": by_layer, "parts of the others": others})
    monkeypatch.setattr(shares, "live_or_record", lambda name, _, recompute: (table, name))
    found = shares.measure_lengths(None)
    assert (found.passages, found.fewest, found.most) == (2, 16, 400)
    assert found.shares[0].tolist() == [[0.5, 0, 0.5], [0.5, 0.5, 0]]
    assert (found.fewest_content, found.most_content) == ("50 %", "88 %")
    assert (found.fewest_others, found.usual_others, found.most_others) == ("75 %", "50 %", "10 %")
    assert (found.others_above_half, found.others_lowest, found.others_least) == (1, 1, "25 %")


def distances(of_heads) -> np.ndarray:
    """Return a table (head, family) of ones with some entries."""
    table = np.ones((*of_heads.shape[:-1], len(FAMILIES)))
    table[..., : of_heads.shape[-1]] = of_heads
    return table


NEAR = np.array([[[0.9, 0.5, 0.12], [0.9, 0.4, 0.8]], [[0.8, 0.6, 0.3], [0.7, 0.45, 0.25]]])
MAPS = np.arange(16.0).reshape(2, 2, 2, 2)
MINILM = parts.Survey(
    1e-14, 1e-13, None, None, None, None, None, None, distance=distances(NEAR), maps=MAPS, causal=False
)
CONTROL = parts.Survey(
    3e-12, 1e-14, None, None, None, None, None, None, distance=distances(1 - NEAR / 2), maps=MAPS, causal=False
)
RECORD = record(
    distance=distances(np.array([[0.3, 0.21], [0.4, 0.11], [0.2, 0.5]])),
    control_distance=distances(np.array([[0.8, 0.71], [0.7, 0.9]])),
    maps=np.stack([np.full((2, 2), k) for k in range(len(FAMILIES))]),
    divergence=np.array([1.0, 0.5, 2]),
    parts=np.array([[1, 0, 0, 0, 9.0], [0, 0.5, -0.2, 0, 9], [1, 0, 1.5, 0, 9]]),
    control_divergence=np.array([0.125]),
)


def test_the_nearest_head_of_each_family_is_named():
    found = parts.measure_distances(RECORD, {"minilm": MINILM}, {"minilm": CONTROL})
    assert found[GPT2].of("constant") == (0.11, 0.71)
    assert found["minilm"].of("previous") == (0.12, 0.6)
    assert MINILM.nearest("constant") == (0, 1, 0.4)
    found["other"] = Distances(np.full(len(FAMILIES), 0.05), np.ones(len(FAMILIES)))
    found[GPT2].trained[FAMILIES.index("matched")] = 0.01
    found[GPT2].trained[FAMILIES.index("both")], found[GPT2].control[FAMILIES.index("both")] = 0.25, 0.5
    named = measure.measure_nearest(found, MINILM, RECORD)
    assert (named.prev_minilm, named.prev_control, named.prev_head) == ("12 %", "60 %", "0.0")
    assert named.matched == "0.05"  # GPT-2's positions read no tokens
    assert (named.const_gpt2, named.const_gpt2_control, named.const_gpt2_head) == ("0.11", "0.71", "0.1")
    assert (named.both_gpt2, named.both_control) == ("0.25", "0.50")


def test_the_atlas_shows_the_nearest_heads():
    found = parts.measure_atlas(parts.random_tokens(), RECORD, {"minilm": MINILM})
    assert found.rows == list(parts.FAMILIES.values())
    assert found.labels[GPT2][:2] == ["head 0.2: 0.20", "head 0.1: 0.11"]
    assert found.labels["minilm"][:3] == ["head 1.1: 0.70", "head 0.1: 0.40", "head 0.0: 0.12"]
    assert found.columns["minilm"][0].tolist() == MAPS[1, 1].tolist()
    assert [drawn[0, 0] for drawn in found.columns[GPT2]] == list(range(len(FAMILIES)))
    previous = FAMILIES.index("previous")
    assert found.columns["no mask"][0][0, -1] == pytest.approx(1 / 48, abs=1e-4)
    assert found.columns["causal"][0][0].tolist() == [1, *[0] * 47]
    assert found.columns["causal"][previous][5, 4] > 0.9


def test_errors_are_the_largest_of_model_and_control():
    found = measure.measure_exactness(
        {"a": MINILM, "b": CONTROL, "c": MINILM}, {"a": CONTROL, "b": MINILM, "c": MINILM}
    )
    assert found.errors == {"a": 3e-12, "b": 3e-12, "c": 1e-14}
    assert found.gaps == {"a": 1e-13, "b": 1e-13, "c": 1e-13}
    assert (found.error, found.gap) == ("3e-12", "1e-12")


def test_other_chapters_records_are_read(monkeypatch):
    bias = {"columns_own": 0.51, "columns_none": 0.4, "columns_random": 0.3}
    seeds = {"exchanged_deletions_0": 0.5, "exchanged_deletions_1": 0.6, "exchanged_deletions_2": 0.85}
    records = {"bert-gates-query-bias": bias, "variant-seeds": seeds}
    monkeypatch.setattr(measure.experiments, "load", records.get)
    assert vars(measure.measure_other_chapters()) == {
        "columns_own": "51 %",
        "columns_none": "40 %",
        "columns_random": "30 %",
        "follow": "65 %",
    }


def survey(by_part, divergence) -> SimpleNamespace:
    return SimpleNamespace(parts=np.array(by_part), divergence=np.array(divergence))


def test_heads_are_drawn_model_by_model():
    own = survey([[[1.0, 2, 3, 9]]], [[6.0]])
    control = survey([[[0.1, 0.2, 0.3, 9]]], [[0.5]])
    found = measure.measure_heads(RECORD, {"minilm": own}, {"minilm": control})
    assert list(found) == [GPT2, "minilm"]
    assert found[GPT2].parts.tolist() == [[1, 0, 0], [0, 0.5, -0.2], [1, 0, 1.5]]
    assert (found[GPT2].divergence.tolist(), found[GPT2].control.tolist()) == ([1, 0.5, 2], [0.125])
    assert (found["minilm"].control.tolist(), found["minilm"].parts.tolist()) == ([0.5], [[1, 2, 3]])
    drawn = measure.panels(found, {"minilm": control}, SimpleNamespace(count=5, parts="all seeds"))
    assert list(drawn) == [f"{GPT2}, layer 0", "minilm", "gpt2-mini, seeds 0 to 4", "control of minilm"]
    assert drawn["gpt2-mini, seeds 0 to 4"] == "all seeds"
    assert drawn["control of minilm"].tolist() == [[0.1, 0.2, 0.3]]
    named = measure.measure_positions(found[GPT2])
    assert (named.far_heads, named.early, named.against) == ("0, 2", "75 %", "1")


def test_shares_are_those_of_the_models_beside_their_controls(monkeypatch):
    for name in ("measure_texts", "measure_layers", "mixed_terms"):
        monkeypatch.setattr(measure.shares, name, lambda one, name=name: name)
    for name in ("model_numbers", "minilm_numbers"):
        monkeypatch.setattr(measure.shares, name, lambda *_: {})
    for name in ("MiniLMNumbers", "GPT2MiniNumbers", "VariantNumbers"):
        monkeypatch.setattr(measure, name, dict)

    def models(factor):
        return {
            name: SimpleNamespace(
                parts=factor * np.array([[[k, 2.0, 3, 9]]]), divergence=np.array([[factor * k]]), first=None
            )
            for k, name in enumerate(measure.MODELS, 1)
        }

    found = measure.measure_shares(RECORD, models(1), models(10), SimpleNamespace(count=5, parts="all seeds"))
    drawn = {title: values for title, values in found.panels.items() if title != "gpt2-mini, seeds 0 to 4"}
    assert {title: values.tolist() for title, values in drawn.items()} == {
        f"{GPT2}, layer 0": found.heads[GPT2].parts.tolist(),
        "minilm": [[2, 2, 3]],
        "variant-bert-mini": [[3, 2, 3]],
        "control of minilm": [[20, 20, 30]],
    }
    assert (found.heads["minilm"].divergence.tolist(), found.heads["minilm"].control.tolist()) == ([2], [20])
    assert found.first_layers["variant-bert-mini"].divergence.tolist() == [3]


EYE = torch.eye(2).double()


def test_one_text_is_split_in_the_head_with_most_semi_bias(monkeypatch):
    """Layer 1 alone has a query bias: the semi-bias is the second coordinate."""
    layers = [plain(2, 2), plain(2, 2, W_Q=EYE, W_K=EYE, b_Q=double(0, 2**0.5))]
    states = [double([1, 0], [0, 1], [0, 3])[None], double([1, 1], [0, 3], [0, 2])[None], None]
    model = lambda ids, output_hidden_states: SimpleNamespace(hidden_states=states)  # noqa: E731
    monkeypatch.setattr(shares.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(shares.pretrained, "load", lambda *_, **__: model)
    monkeypatch.setattr(shares.parts, "inputs", lambda *_: [None, torch.tensor([5, 6, 7])])
    monkeypatch.setattr(shares, "load", lambda _: SimpleNamespace(plain_layers=lambda: layers))
    by_head = lambda x, layer, origin, causal: {"path": np.array([[1.0, 3], [0, 2]]) * x[0, 1].item() + 1}  # noqa: E731
    monkeypatch.setattr(shares.parts, "compare_splits", by_head)
    semi = np.zeros((2, 2, 3))
    semi[1, 0, 2], semi[0, 1, 0] = 1, 9
    given = SimpleNamespace(parts=semi, origins=np.array([[0.0, 0], [0, 1]]))
    found = shares.measure_one_text("minilm", given, SimpleNamespace(device="cpu", texts=None))
    assert (found.layer, found.head) == (1, 0)
    content, common, semi_bias = found.parts
    # the queries about (0, 1) are (1, 0), (0, 2) and (0, 1); scores are over the root of 2
    root = 2**0.5
    assert (content * root).flatten().tolist() == pytest.approx([1, 0, 0, 2, 6, 4, 1, 3, 2])
    assert (common * root)[0].tolist() == pytest.approx([1, 3, 2])
    assert semi_bias.flatten()[:3].tolist() == pytest.approx([1, 3, 2])
    assert found.splits["path"].tolist() == [[1, 1], [3, 2]]


# ---- what a head loses


def test_each_copy_has_one_head_changed_in_one_way():
    one = torch.ones(9, 2, 2, 1).double()
    query, key = one * double([0], [2]), one * double([0], [math.log(3)])
    bias, constant = double([0.5], [1.0]), double([[1, 0], [1, 0]], [[0, 1], [0, 1]])
    change = experiments.Change(1, double([1], [0.5]), bias, constant)
    value = torch.eye(2).double().expand(9, 2, 2, 2)
    plain_map = [[1 / 2, 1 / 2], [1 / 10, 9 / 10]]
    found = change(1, query, key, value, scale=1.0)
    for copy in range(9):
        way, head = divmod(copy, 2)
        for other in range(2):
            if copy == 8 or other != head:
                assert found[copy, other].flatten().tolist() == pytest.approx(np.ravel(plain_map)), (copy, other)
    rows = lambda *odds: [[1 / (1 + odd), odd / (1 + odd)] for odd in odds]  # noqa: E731
    due = {
        (0, 0): rows(3, 3),
        (0, 1): rows(3**0.5, 3**0.5),
        (1, 0): rows(3**-0.5, 3**1.5),
        (1, 1): rows(1 / 3, 3),
        (2, 0): [[1, 0], [1, 0]],
        (2, 1): [[0, 1], [0, 1]],
        (3, 0): rows(1, 1),
        (3, 1): rows(1, 1),
    }
    for (way, head), expected in due.items():
        np.testing.assert_allclose(found[2 * way + head, head], expected, err_msg=f"{way} {head}")
    again = change(0, query, key, value, scale=1.0)
    np.testing.assert_allclose(again, torch.tensor(plain_map).double().expand(9, 2, 2, 2))
    causal = experiments.weights(query, key, 0.5, causal=True)[0, 0]
    np.testing.assert_allclose(causal, [[1, 0], [1 / 4, 3 / 4]])


def test_effects_are_against_the_copy_that_is_left(monkeypatch):
    monkeypatch.setattr(experiments.attention_hooks, "with_attention", lambda *_: nullcontext())
    change = SimpleNamespace(query=torch.zeros(1, 1))
    states = double(*[[[1, 0], [1, 0]]] * 2, [[0, 1], [0, 3]], [[1, 1], [0, 0]], [[2, 0], [0, 0]])
    model = lambda copies: SimpleNamespace(last_hidden_state=states[: len(copies)])  # noqa: E731
    found = experiments.effects(model, torch.tensor([3, 4]), change)
    assert found.flatten().tolist() == pytest.approx([0, 0, 1, 1 - 2**-0.5])
    odds = torch.zeros(5, 3, 2).double()
    odds[0, 0, 1] = odds[4, 1, 0] = math.log(3)  # tokens 0, 1, 0: the first copy is right once, the last as well
    odds[1, 2, 1] = 99  # nothing follows the last token
    odds[2, 0, 0] = math.log(3)  # wrong
    found = experiments.effects(lambda _: SimpleNamespace(logits=odds), torch.tensor([0, 1, 0]), change)
    none, right, wrong = math.log(2), math.log(4 / 3), math.log(4)
    left = (none + right) / 2
    assert found.flatten().tolist() == pytest.approx([0, none - left, (wrong + none) / 2 - left, none - left], abs=1e-9)


def test_queries_and_maps_are_means_over_texts_and_positions(monkeypatch):
    @contextmanager
    def with_attention(model, seen):
        model.seen = seen
        yield

    class Model:
        def __call__(self, texts):
            query = double([[[1], [3]], [[2], [4]]], [[[5], [7]], [[0], [0]]])  # text, head, position, channel
            key = torch.zeros_like(query)
            key[1, 0, 1] = math.log(3) / 5
            self.seen(1, 0 * query, key, key, scale=1.0)
            self.seen(0, query, key, key, scale=1.0)

    monkeypatch.setattr(experiments.attention_hooks, "with_attention", with_attention)
    queries, maps = experiments.observe(Model(), torch.zeros(2, 2))
    assert queries[0].tolist() == [[4], [1.5]]
    assert queries[1].tolist() == [[0], [0]]
    assert maps[0][0, 0].tolist() == pytest.approx([(1 / 2 + 1 / 4) / 2, (1 / 2 + 3 / 4) / 2])
    assert maps[1][1].flatten().tolist() == [0.5] * 4


def test_effects_of_a_model_are_means_over_its_texts(monkeypatch):
    layers = [SimpleNamespace(b_Q=1.0), SimpleNamespace(b_Q=2.0)]
    monkeypatch.setattr(experiments, "load", lambda _: SimpleNamespace(causal=False, layers=layers))
    monkeypatch.setattr(experiments.pretrained, "load", lambda *_, **settings: settings["task"])
    monkeypatch.setattr(experiments, "inputs", lambda _: [torch.arange(5), torch.arange(3) + 10])
    monkeypatch.setattr(experiments, "observe", lambda model, texts: (["q0", "q1"], ["m0", "m1"]))

    def effects(model, text, change):
        assert (model, change.query, change.constant) == ("base", f"q{change.layer}", f"m{change.layer}")
        assert len(text) == 3
        return torch.full((4, 2), float(text[-1])) + change.bias

    monkeypatch.setattr(experiments, "effects", effects)
    found = experiments.measure(None, torch.device("cpu"))
    assert found.shape == (4, 2, 2)
    assert found[0].tolist() == [[8, 8], [9, 9]]  # of 2 and 12 the mean 7, and the bias


def test_nats_are_means_over_heads(monkeypatch):
    found = (np.array([1.0, 3]), np.array([[1.0, 0, 0.5, 9], [2, 1, 0, 9]]), None, None, 0.0)
    monkeypatch.setattr(experiments, "split_layer", lambda xs, weights, causal: [xs[0] * part for part in found[:2]])
    monkeypatch.setattr(experiments, "load", lambda _: SimpleNamespace(plain_layers=lambda: [None, None]))
    monkeypatch.setattr(experiments.extraction, "attention_inputs", lambda _, states: [1.0, 2.0])
    network = lambda ids, output_hidden_states: SimpleNamespace(hidden_states=[ids])  # noqa: E731
    nats = experiments.nats(network, [torch.zeros(2)])
    assert nats.tolist() == [[2, 1.5, 0.5, 0.25], [4, 3, 1, 0.5]]


def test_seeds_are_stacked_by_what_is_measured(monkeypatch):
    monkeypatch.setattr(experiments, "find_run", lambda seed, _: seed)
    monkeypatch.setattr(experiments.checkpoints, "find", int)
    monkeypatch.setattr(experiments, "measure", lambda checkpoint, _: np.array([checkpoint + 0.5]))
    monkeypatch.setattr(
        experiments.parts,
        "survey",
        lambda checkpoint, device: Known(divergence=np.array([checkpoint]), parts=np.array([2]), first=np.array([3])),
    )
    arrays = experiments.measure_seeds(torch.device("cpu")).arrays
    assert arrays["divergence"].tolist() == [[seed] for seed in experiments.SEEDS]
    assert arrays["effects"].tolist() == [[seed + 0.5] for seed in experiments.SEEDS]
    assert (arrays["parts"][0].tolist(), arrays["first"][0].tolist()) == ([2], [3])
