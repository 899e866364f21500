"""The studies of the induction head and of patterns and messages on inputs whose answer is known by hand."""

import math
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import RUNGS
from analysis.plotting.ladder import Ladder
from book.studies.induction_head import prediction, trained, walkthrough
from book.studies.patterns_and_messages import forms, readings, spectra, tables
from tests.book.studies.known import double, plain, record

measure = import_module("book.studies.induction_head.measure")  # the package exports a function of that name


def test_spectra_are_tabulated_by_their_median_and_extreme_heads():
    """Three heads, of which one is far from the other two."""
    values, ranks = double([4, 1], [100, 5], [2, 1]).numpy(), np.array([30.0, 90.0, 20.0])
    names = [f"{control}{name}" for name in tables.MATRICES for control in ("", "control_")]
    of = {name: (factor * values, factor * ranks) for factor, name in enumerate(names, 1)}
    found = tables.spectra(
        SimpleNamespace(values={k: v for k, (v, _) in of.items()}, ranks={k: r for k, (_, r) in of.items()})
    )
    assert list(found.index[:2]) == ["W_P, GPT-2", "W_P, control"]
    for factor, row in enumerate(found.to_numpy(), 1):
        assert row.tolist() == pytest.approx([4 * factor, 0.05, 20 * factor, 30 * factor, 90 * factor])


def test_one_match_gets_e_to_the_sharpness_beside_the_other_keys():
    """With layer 1 as sharp as can be: one key of five has the score beta, the others 0."""
    exact = math.exp(2) / (math.exp(2) + 4)
    assert measure.closed_form(np.array([0.0, 2.0]), 5) == pytest.approx([1 / 5, exact])
    assert measure.attention_to_match(2.0, 5, torch.device("cpu"), first=100.0) == pytest.approx(exact, abs=1e-4)
    even = measure.attention_to_match(0.0, 5, torch.device("cpu"))
    assert even == pytest.approx(1 / 5)
    blurred = measure.attention_to_match(2.0, 5, torch.device("cpu"), first=0.0)
    assert blurred < exact - 0.1


def test_the_least_sharpness_of_layer_1_is_the_first_that_suffices():
    least, where = measure.least_first_sharpness(8, torch.device("cpu")), torch.device("cpu")
    second = math.log(9 * 7)  # nine tenths on one of eight: e^b / (e^b + 7)
    assert measure.attention_to_match(second, 8, where, first=least) > 0.89
    assert measure.attention_to_match(second, 8, where, first=least - 0.1) <= 0.89


def test_blocks_of_two_and_three_tokens_have_their_mean_logarithm():
    """Blocks of 2 and 3 different tokens: 4 and 3 repeated tokens in sequences of 6."""
    sequences = torch.tensor([[1, 2, 1, 2, 1, 2], [3, 4, 5, 3, 4, 5]])
    repeated = torch.tensor([[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]]).bool()
    found = trained.log_distinct(sequences, repeated)
    assert found == pytest.approx((4 * math.log(2) + 3 * math.log(3)) / 7)
    same = torch.tensor([[7, 7, 7, 7, 7, 7]])
    assert trained.log_distinct(same, repeated[:1]) == 0


def test_rows_look_one_step_back_early_or_late():
    scores = torch.zeros(6, 6).double()
    for row in (1, 2, 5):
        scores[row, row - 1] = 1
    scores[3, 3], scores[4, 0], scores[1, 3] = 1, 1, 9  # the last lies in the future of its row
    assert trained.one_back_early(scores, 4) == pytest.approx(2 / 3)
    assert trained.one_back_late(scores, 4) == pytest.approx(1 / 2)


def test_scores_become_the_attention_of_what_is_seen():
    found = trained.causal_softmax(torch.tensor([[0.0, 5.0], [math.log(3), 0.0]]))
    assert found.flatten().tolist() == pytest.approx([1, 0, 3 / 4, 1 / 4])


def test_heads_that_look_back_are_in_order_and_the_matcher_is_of_layer_1(monkeypatch):
    scores = SimpleNamespace(
        previous=double([0.1, 0.5, 0.2, 0.9], [1, 1, 1, 1]),
        prefix=double([9, 0, 0, 0], [0.1, 0.2, 0.8, 0.3]),
        copying=torch.zeros(2, 4),
    )
    monkeypatch.setattr(trained.attention_only, "score_heads", lambda *_: scores)
    found = trained.find_heads({}, {"trained": None}, None)
    assert (found.back, found.matcher) == ((1, 3), 2)


def test_losses_without_heads_say_which_heads_are_zero(monkeypatch):
    """The loss is the number of heads that are left, layer 1 counted ten times."""
    weights = double([1, 1, 1], [10, 10, 10])
    monkeypatch.setattr(trained, "split_loss", lambda _, __, ___, f: (None, float((f * weights).sum())))
    model = SimpleNamespace(config=SimpleNamespace(heads=3, layers=2))
    heads = SimpleNamespace(back=(0, 2), matcher=1)
    assert trained.ablate_heads(model, torch.zeros(1, 1), None, heads) == {
        **{f"without 0.{head}": 32.0 for head in range(3)},
        **{f"without 1.{head}": 23.0 for head in range(3)},
        "without 0.0 and 0.2": 31.0,
        "without the other two of layer 0": 32.0,
        "without layer 0": 30.0,
        "layer 1: only 1.1": 13.0,
        "without layer 1": 3.0,
    }


def test_training_runs_count_the_seeds_that_form_a_head(monkeypatch):
    def run(formed, repeated):
        return {"formed": formed, "new": 4.0, "repeated": repeated, "prefix": 0.5}

    ends = {"seed-0": run(700, 0.5), "seed-1": run(-1, 3.0), "seed-2": run(900, 0.25), "one-layer": run(-1, 2.5)}
    ends |= {"seed-3": run(800, 0.4), "seed-4": run(-1, 3.5)}
    arrays = {f"{name}/{key}": value for name, end in ends.items() for key, value in end.items()}
    traces = {"copying": [[[9.0, 9]], [[0.1, 0.6]]], "previous": [[[9.0, 9]], [[0.7, 0.2]]]}
    for name in ends:
        arrays |= {f"{name}/{key}": [0.0] for key in ("step",)}
        arrays |= {f"{name}/{key}": value for key, value in traces.items()}
    given = SimpleNamespace(arrays=arrays)
    table = record(**arrays)
    monkeypatch.setattr(trained, "TRACES", ("step", "previous", "copying"))
    monkeypatch.setattr(trained, "live_or_record", lambda *_, **__: (table, "source."))
    found = trained.read_training(None)
    assert given.arrays["seed-0/formed"] == 700
    assert (found.seeds, found.all_seeds) == (3, 5)
    assert (found.two_layer_loss, found.one_layer_loss) == (0.5, 2.5)
    assert (found.two_layer_low, found.two_layer_high) == (0.25, 3.5)
    assert (found.runs["seed-0"].copying, found.runs["seed-0"].looking_back) == (0.6, (0.7, 0.2))


def test_the_slides_head_predicts_what_followed():
    assert prediction.predict_last("! a b a c a").tolist() == pytest.approx([0, 0, 0.5, 0.5, 0, 0])
    drawn = prediction.draw_sequences()
    assert drawn.shape == (200, 12)
    assert (drawn[:, 0] == 0).all()
    assert (drawn[:, 1:] > 0).all()
    symbols, attention, matching = prediction.last_row("! a b c a")
    assert symbols == ("!", "a", "b", "c", "a")
    assert matching.tolist() == [False, False, True, False, False]
    assert attention.tolist() == pytest.approx([0, 0, 1, 0, 0], abs=1e-9)
    assert prediction.gap_to_uniform() < 1e-12


def test_one_step_back_is_a_share_of_the_rows_but_the_first():
    attention = double([1, 0, 0], [1, 0, 0], [1, 0, 0])  # row 2 looks two back
    assert walkthrough.one_step_back(SimpleNamespace(attention=attention)) == pytest.approx(0.5)


def test_the_nearest_key_is_the_one_at_the_smallest_angle_not_the_longest(monkeypatch):
    monkeypatch.setattr(readings, "SEEN", 1)
    keys = double([[100, 1], [1, 1], [0.1, 0]])
    rows = double([[0, 1], [0, 2], [3, 0]])
    assert readings.nearest_rows(rows, keys).tolist() == [[1, 2]]
    eye = torch.eye(2)
    layer = plain(2, causal=True, W_Q=eye, W_K=eye, b_Q=double(0, 1), b_K=double(1, 0))
    # keys (1, 1), (2, 0), (1, 0); queries of the last two rows (1, 1) and (0, 1)
    assert readings.nearest_to_queries(double([0, 1], [1, 0], [0, 0]), layer).tolist() == [[0, 0]]


def test_ranks_and_ratios_are_written_as_they_are():
    ones = np.ones((24, 3))
    values = {name: ones.copy() for name in ("pattern", "message", "augmented", "control_pattern")}
    values["pattern"][5, -1], values["message"][7, -1], values["augmented"][3, 0] = 0.25, 0.125, 1.5
    ranks = {"pattern": np.arange(24.0), "message": np.arange(24.0)[::-1], "control_pattern": np.full(24, 50.0)}
    found = spectra.phrase_ranks(values, ranks)
    assert (found["smallest"], found["grown"], found["message_head"]) == ("0.1250", "50%", "11 of layer 1")
    values["pattern"][5] = 4, 1, 0.25  # over the largest of the head
    assert spectra.phrase_ranks(values, ranks)["smallest"] == "0.0625"
    assert (found["rank_control"], found["rank_pattern"], found["rank_lowest"]) == ("50.0", "11.5", "0.0")
    ratio = np.full((2, 12), 0.5)
    ratio[0, :3], ratio[1, 0] = 2, 4
    found = spectra.phrase_ratios(ratio, np.arange(24.0))
    assert (found["ratio_largest"], found["ratio_median"], found["ratio_above"]) == ("4.0", "0.50", "4")
    assert (found["ratio_first"], found["narrow_rank"], found["narrow"]) == ("1", "6.0", "3")
    assert spectra.phrase_ratios(-np.arange(24.0).reshape(2, 12), np.arange(24.0))["linked"] == "-1.00"


def test_the_parts_of_patterns_are_compared_head_by_head(monkeypatch):
    """Two layers of twelve heads; the constant part of head 0 in layer 1 is twice the varying one, b_Q's is half."""
    size = np.full((2, 12), 4.0)
    constant, query_bias = size / 4, size / 8
    constant[1, 0], query_bias[1, 1], query_bias[0, 2] = 8, 12, 6
    names = [f"{prefix}{name}" for prefix in ("", "control_") for name in ("pattern", "message", "augmented")]
    values = {name: np.repeat(np.eye(1, 64), 24, 0).reshape(2, 12, 64) + 1e-9 for name in names}
    values["pattern"][0, 0, 1] = 1  # one head with two directions
    controls = {f"ladder_{name}_rank": np.full((len(RUNGS), 2, 2, 12), 30.0) for name in ("pattern", "message")}
    controls["ladder_message_rank"][1, 0, 1] = 0.5  # below the trained rank, which is 1
    given = values | controls | {"varying": size, "constant": constant, "query_bias": query_bias}
    table = record(**given, control_varying=size)
    monkeypatch.setattr(spectra.publish, "live_or_record", lambda *_: (table, "recorded"))
    found, source = spectra.measure_spectra(None)
    assert source == "recorded"
    assert (found.ratio_largest, found.ratio_median, found.ratio_above, found.ratio_first) == ("2.0", "0.25", "1", "1")
    assert (found.raw_largest, found.raw_above, found.raw_first) == ("3.0", "2", "1")
    assert (found.pattern_below, found.message_below, found.ladder_lowest) == ("2", "1", "0.5")
    np.testing.assert_allclose(found.ladder["pattern W_P"].trained, [1, 1], rtol=1e-3)


def test_layers_below_every_control_are_counted():
    low, high = np.array([[2.0, 2, 2], [1, 3, 3]]), np.array([[9.0, 9, 9], [9, 9, 2]])
    ladder = Ladder(np.array([0.9, 2.0, 1.0]), dict(zip(RUNGS, (low, high, high), strict=True)))
    assert spectra.count_below(ladder) == "2"


def test_merging_one_head_of_the_whole_width_saves_what_it_saves():
    """Per position: factored q, k, v, o of c m each and 2 n c; merged two of m m, and 2 n m, by head."""
    n, m, h, c = 1, 8, 2, 4
    found = forms.merged_ratio(n, m, h, c)
    x, layer = torch.randn(n, m).double(), plain(m, heads=h, W_Q=torch.ones(m, c), W_K=torch.ones(m, c))
    given = {"W_V": torch.ones(m, c), "W_O": torch.ones(c, m)}
    layer = plain(m, heads=h, W_Q=torch.ones(m, c), W_K=torch.ones(m, c), **given)
    counted = {form: forms.count(form, layer, x) for form in ("merged", "factored")}
    assert found == counted["merged"].formula / counted["factored"].formula
    assert all(each.counted == each.formula for each in counted.values())
    assert max(each.error for each in counted.values()) < 1e-12
