"""The induction head: the chapter's whole measurement, its trainings, and how sharp the head must be."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.transformer import induction
from book.publish.records import Value
from book.studies.induction_head import prediction, readings, tables, training, walkthrough
from book.studies.induction_head.readings import Reading
from tests.book.studies.known import double

measure = import_module("book.studies.induction_head.measure")  # the package exports a function of that name


def test_each_part_of_the_chapter_is_measured_where_it_is_asked_for(monkeypatch):
    inputs = SimpleNamespace(device="there")
    for name, answer in (
        ("choose_inputs", lambda device: {"cuda": inputs}[device]),
        ("measure_by_hand", lambda: "by hand"),
        ("search_readings", lambda: "readings"),
        ("measure_prediction", lambda: "prediction"),
        ("measure_sharpness", lambda device: ("sharpness", device)),
        ("read_training", lambda given: ("training", given)),
        ("measure_trained", lambda device: ("trained", device)),
    ):
        monkeypatch.setattr(measure, name, answer)
    assert vars(measure.measure("cuda")) == {
        "inputs": inputs,
        "by_hand": "by hand",
        "readings": "readings",
        "prediction": "prediction",
        "sharpness": ("sharpness", "there"),
        "training": ("training", inputs),
        "trained": ("trained", "there"),
    }


def test_points_of_the_figure_are_measured_beside_their_closed_form(monkeypatch):
    monkeypatch.setattr(measure, "attention_to_match", lambda beta, keys, device, first=None: beta / keys - device)
    monkeypatch.setattr(measure, "least_first_sharpness", lambda keys, device: (keys, device))
    found = measure.measure_sharpness(3)
    assert (found.separate_keys, found.separate_first) == (64, (64, 3))
    assert (found.betas[0], found.betas[-1], len(found.betas)) == (0, 12, 121)
    assert list(found.whole_head) == list(found.differences) == list(found.closed_form) == [8, 64, 512]
    for keys in (8, 64, 512):
        betas, points = found.whole_head[keys]
        assert betas.tolist() == list(range(13))
        np.testing.assert_allclose(points, np.arange(13) / keys - 3)
        form = np.exp(np.arange(13.0)) / (np.exp(np.arange(13.0)) + keys - 1)
        np.testing.assert_allclose(found.differences[keys], form - points)  # the points lie below the form
        np.testing.assert_allclose(found.closed_form[keys][::10], form, rtol=1e-5)


def test_the_first_layer_must_leave_the_match_089(monkeypatch):
    """The match gets 0.88 up to a sharpness of 4.2, then 0.89, and more than that from 4.4 on."""
    asked = []

    def attention(second, keys, device, first):
        asked.append((second, keys, device))
        return 0.88 if first < 4.25 else 0.89 if first < 4.35 else 0.8901

    monkeypatch.setattr(measure, "attention_to_match", attention)
    assert measure.least_first_sharpness(20, "there") == pytest.approx(4.4)
    (given,) = set(asked)
    assert given == (pytest.approx(np.log(9 * 19)), 20, "there")
    monkeypatch.setattr(measure, "attention_to_match", lambda *_, first: first / 10)
    assert measure.least_first_sharpness(20, "there") == pytest.approx(9.0)
    monkeypatch.setattr(measure, "attention_to_match", lambda *_, first: first / 12)  # 11.9 of 12 is 0.99
    assert measure.least_first_sharpness(20, "there") == pytest.approx(10.7)
    monkeypatch.setattr(measure, "attention_to_match", lambda *_, first: float(first > 11.85))
    assert measure.least_first_sharpness(20, "there") == pytest.approx(11.9)
    monkeypatch.setattr(measure, "attention_to_match", lambda *_, first: float(first > 11.95))
    with pytest.raises(StopIteration):  # from 12 on nothing is tried
        measure.least_first_sharpness(20, "there")


# ---- trainings


def test_a_head_has_formed_at_the_first_look_at_which_any_head_reaches_a_half():
    steps, low = np.array([0, 100, 250, 300]), np.zeros((2, 2))
    prefix = np.stack([low, low + 0.49, np.array([[0.1, 0.2], [0.5, 0.3]]), low + 0.9])
    assert training.formed_at(steps, prefix) == 250
    assert training.formed_at(steps[1:], prefix[1:] - 0.2) == 300
    assert training.formed_at(steps, prefix / 2) == -1
    assert training.formed_at(steps, prefix + 0.5) == 0


@pytest.fixture
def runs(monkeypatch):
    """Let every training return at once, with a trace that tells its seed and its number of layers."""
    asked = []

    def train(out, *, seed, device, probe, config, name):
        asked.append((out, seed, device, probe, config.layers, name))
        trace = {
            "step": np.array([0, 10, 20]),
            "new": np.array([9.0, 8, 4 + seed]),
            "repeated": np.array([9.0, 8, seed / 4]),
            "prefix": np.array([[[0.1, 0]], [[0.6, 0]], [[0.2, seed / 10 + config.layers]]]),
            "copying": np.array([0.5]),
        }
        return "model", SimpleNamespace(trace=trace)

    monkeypatch.setattr(training.attention_only, "train", train)
    monkeypatch.setattr(training, "make_probe", lambda sizes: f"probe of {sizes.layers} layers")
    return asked


def test_a_training_is_recorded_with_its_end_and_its_trace(runs, monkeypatch, tmp_path):
    monkeypatch.setenv("INDUCTION_RUNS", str(tmp_path))
    found = training.train_more_seeds(torch.device("cpu"))
    names = ("seed-3", "seed-4")
    assert runs == [
        (tmp_path / name, seed, "cpu", "probe of 2 layers", 2, name) for name, seed in zip(names, (3, 4), strict=True)
    ]
    assert found.values == {
        "seed-3/repeated": Value(0.75, tolerance=0.1, unit="nats"),
        "seed-3/new": Value(7.0, tolerance=0.1, unit="nats"),
        "seed-3/prefix": Value(2.3, tolerance=0.1),
        "seed-3/formed": Value(10, tolerance=100, unit="steps"),
        "seed-4/repeated": Value(1.0, tolerance=0.1, unit="nats"),
        "seed-4/new": Value(8.0, tolerance=0.1, unit="nats"),
        "seed-4/prefix": Value(2.4, tolerance=0.1),
        "seed-4/formed": Value(10, tolerance=100, unit="steps"),
    }
    assert found.arrays["seed-4/new"].tolist() == [9, 8, 8]
    wide = {"new": 5.0, "repeated": 5.0, "step": 1.0, "prefix": 1.0, "copying": 1.0}
    assert found.tolerances == {f"{name}/{key}": most for name in names for key, most in wide.items()}


def test_without_a_folder_of_its_own_a_training_leaves_nothing_behind(runs, monkeypatch):
    monkeypatch.delenv("INDUCTION_RUNS", raising=False)
    training.compute(torch.device("cpu"))
    assert [(seed, layers, name) for _, seed, _, _, layers, name in runs] == [
        *((seed, 2, f"seed-{seed}") for seed in range(3)),
        (0, 1, "one-layer"),
    ]
    assert len({out.parent for out, *_ in runs}) == 1
    assert not runs[0][0].parent.exists()


# ---- the head by hand, and readings


def test_a_layer_that_is_no_attention_is_as_far_from_it_as_its_passthrough(monkeypatch):
    """The gap is taken to the layer's own step, whose passthrough is made three times as large here."""
    head = induction.build(walkthrough.VOCAB, 6)
    x = induction.embed(walkthrough.TOKENS, head)
    assert walkthrough.gap_to_attention(x, head.first) < 1e-9
    own = induction.step

    def tripled(x, layer):
        found = own(x, layer)
        return SimpleNamespace(output=found.output + 2 * x @ layer.W.T)

    monkeypatch.setattr(walkthrough.induction, "step", tripled)
    assert walkthrough.gap_to_attention(x, head.first) == pytest.approx(2)
    assert walkthrough.gap_to_attention(3 * x, head.first) == pytest.approx(6)


def test_errors_of_a_head_for_other_tokens_are_told():
    """A head whose embedding is turned round: every row of the input differs, and the embedding is no identity."""
    head = induction.build(walkthrough.VOCAB, 6)
    first, _ = induction.run(walkthrough.TOKENS, head)
    turned = SimpleNamespace(output=first.output, attention=first.attention.flip(0))
    errors = walkthrough.output_errors(head, turned, induction.run(walkthrough.TOKENS, head)[1])
    assert errors["first weights"] == pytest.approx(1)
    moved = SimpleNamespace(output=2 * first.output, attention=first.attention)
    second = SimpleNamespace(output=torch.full((6, 12), 100.0).double(), attention=torch.eye(6).double())
    errors = walkthrough.output_errors(head, moved, second)
    assert errors["stored token"] == pytest.approx(1)
    assert errors["weights of unseen rows"] == pytest.approx(4 / 5)  # row 4 sees five keys and should see them alike
    assert errors["outputs of unseen rows"] == pytest.approx(100)  # e is nowhere in the sequence
    assert (errors["copied at a gain of 100"], errors["written stored tokens"]) == (0, 100)
    assert errors["output without a passthrough"] == pytest.approx(100)
    assert errors["written current tokens"] == pytest.approx(100)


def test_rows_are_counted_by_what_they_store_and_gather():
    head = induction.build(walkthrough.VOCAB, 6)
    first, _ = induction.run(walkthrough.TOKENS, head)
    own = SimpleNamespace(output=first.output.clone())
    own.output[3, 6:] = own.output[3, :6]  # row 3 stores itself
    assert walkthrough.count_rows_stored_otherwise(head, own) == 4
    own.output[0, 6:] = 0
    own.output[1:, 6:] = own.output[1:, :6]
    assert walkthrough.count_rows_stored_otherwise(head, own) == 0  # row 0 is not looked at
    none = SimpleNamespace(output=first.output.clone())
    none.output[1:, 6:] = 0
    one = SimpleNamespace(attention=torch.eye(6).double())
    assert walkthrough.count_rows_gathering(none, one) == 1
    none.output[2:, 6] = double(1, -1, 0.5, -0.5)
    assert walkthrough.count_rows_gathering(none, one) == 5


def test_a_similar_word_is_nine_tenths_alike(monkeypatch):
    asked = []
    own = prediction.predict_last
    monkeypatch.setattr(
        prediction, "predict_last", lambda text, **given: asked.append((text, given)) or own(text, **given)
    )
    prediction.measure_prediction()
    texts = ["! a b a c a", "! a c d b a", "! a c d b", "! a b c d b e a b"]
    assert [text for text, _ in asked] == texts
    assert asked[1][1] == {"offset": 2}
    alike = torch.eye(6)
    alike[1, 2] = alike[2, 1] = 0.9
    torch.testing.assert_close(asked[2][1]["similarity"], alike)


def test_a_case_shows_what_is_copied_once(monkeypatch):
    """The last a of ! a b c a looks at b: 1 beside four keys with a score of 0, and the gain changes no weight."""
    built = []
    own = induction.build
    monkeypatch.setattr(
        prediction.induction, "build", lambda *given, **named: built.append((given, named)) or own(*given, **named)
    )
    symbols, weights, matches = prediction.last_row("! a b c a")
    assert built == [((6, 5), {"gain": 1.0})]
    assert symbols == ("!", "a", "b", "c", "a")
    np.testing.assert_allclose(weights, [0, 0, 1, 0, 0], atol=1e-12)
    assert matches.tolist() == [False, False, True, False, False]


def test_the_long_sequence_is_of_one_token():
    step = walkthrough.run_long()
    assert step.attention.shape == (300, 300)
    assert step.attention.diagonal(-1).min() > 0.999


def test_written_rows_are_tabulated_by_reading():
    tokens = torch.tensor([0, 1, 0, 1])
    table = tables.outputs([Reading(gain=1, rounding="whole, halves to even"), Reading()], tokens)
    assert list(table.index) == ["reading 1", "reading 2"]
    assert list(table.columns) == ["row 1, a", "row 2, !", "row 3, a"]
    # the a of row 1 saw nothing like it: half of ! and half of a; the second ! copies what is ! or follows !
    assert table.loc["reading 2"].tolist() == ["50 50 0", "50 50 0", "100 0 0"]
    assert table.loc["reading 1", "row 3, a"] == "1 0 0"


def test_readings_that_print_all_tables_are_searched_for():
    """With tables that a reading of gain 1 prints, every reading that is found prints them too."""
    tokens, own = torch.tensor([0, 1, 0]), Reading(gain=1, summed="j < i")
    printed = readings.tables(tokens, 2, own)
    few = [Reading(), own, Reading(gain=1), Reading(gain=1, summed="j <= i, i > 0"), Reading(summed="j < i")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "every", lambda: few)
        assert readings.search(tokens, 2, printed) == [own]
        one = {"output 2": printed["output 2"]}
        same = [each for each in few if torch.equal(readings.tables(tokens, 2, each)["output 2"], one["output 2"])]
        assert readings.search(tokens, 2, one) == same


# ---- errors that are 0 for the head by hand


def test_the_input_and_its_embedding_are_compared_cell_by_cell(monkeypatch):
    """Twice the input is 1 away from the printed one; of the two layers the one that is farther off counts."""
    head = induction.build(walkthrough.VOCAB, 6)
    first, _ = induction.run(walkthrough.TOKENS, head)
    own = induction.embed
    monkeypatch.setattr(walkthrough.induction, "embed", lambda tokens, head: 2 * own(tokens, head))
    for gaps in ((0.25, 0.5), (0.5, 0.25)):
        by_layer = dict(zip((id(head.first), id(head.second)), gaps, strict=True))
        monkeypatch.setattr(walkthrough, "gap_to_attention", lambda x, layer, by_layer=by_layer: by_layer[id(layer)])
        assert walkthrough.model_errors(head, first) == {"embedding": 1, "input": 1, "attention": 0.5}


def test_uniform_attention_is_tried_at_every_sharpness_and_in_every_row_but_the_first(monkeypatch):
    built = []

    def build(vocab, length, beta=100.0):
        built.append((vocab, length, beta))
        return SimpleNamespace(second=beta)

    place = 0

    def step(stored, beta):
        rows = torch.arange(6.0).double()[:, None]
        uniform = torch.ones(6, 6).double().tril() / (rows + 1)
        return SimpleNamespace(
            attention=uniform + {0.5: 0, 3.0: 1, 100.0: 0}[beta] * torch.where(rows == place, 0.25, 0)
        )

    monkeypatch.setattr(prediction.induction, "build", build)
    monkeypatch.setattr(prediction.induction, "run", lambda tokens, head: (SimpleNamespace(output=tokens), None))
    monkeypatch.setattr(prediction.induction, "step", step)
    for place in range(6):
        assert prediction.gap_to_uniform() == pytest.approx(0.25 if place else 0, abs=1e-12)
    assert set(built) == {(6, 6, beta) for beta in (0.5, 3.0, 100.0)}


def test_random_sequences_have_every_symbol_but_the_first_one_again():
    drawn = prediction.draw_sequences()
    generator = torch.Generator().manual_seed(0)
    for row in drawn.tolist():
        assert row == [0, *torch.randint(1, 6, (12,), generator=generator).tolist()[1:]]
    assert set(drawn[:, 1:].flatten().tolist()) == {1, 2, 3, 4, 5}


# ---- limits of a reading


def test_a_row_is_empty_if_its_weights_sum_to_less_than_a_billionth():
    """Weights over all keys, those of the future left out: of row 0 two, or a little less than one, billionth."""
    for share, due in ((2e-9, 2e-9), (1.05e-9, 1.05e-9), (0.95e-9, 1.0)):
        scores = double([np.log(share), 0, -99], [0, 0, -99], [0, 0, 0])
        found = readings.weigh(scores, Reading(normaliser="all s", empty="itself"))
        assert found[0].tolist() == pytest.approx([due, 0, 0])


def test_weights_up_to_one_half_are_dropped():
    scores = double([0, -99, -99], [0, 0, -99], [np.log(0.52), np.log(0.48), -99])
    found = readings.weigh(scores, Reading(weak="dropped"))
    assert found.flatten().tolist() == pytest.approx([1, 0, 0, 0, 0, 0, 0.52, 0, 0])


def test_a_masked_row_is_divided_by_its_sum_and_a_billionth():
    """Half of a row, and a billionth of one, are left of what was summed over all keys."""
    for share in (0.5, 1e-9):
        scores = double([np.log(share / (1 - share)), 0], [0, 0])
        found = readings.weigh(scores, Reading(normaliser="all s, then s <= i"))
        assert found[0, 0].item() == pytest.approx(share / (share + 1e-9), rel=1e-6)
        assert found[0, 1] == 0


def test_a_row_that_sees_nothing_gets_nothing_or_itself():
    scores = double([1, 2], [3, 4])
    for empty, due in (("nothing", 0), ("itself", 1), ("itself, first row", 1)):
        found = readings.weigh(scores, Reading(normaliser="s < i", empty=empty))
        assert found.tolist() == [[due, 0], [1, 0]]
    none = double([-1, -1], [-1, -1])
    found = readings.weigh(none, Reading(attention="hard", empty="itself, first row"))
    assert found.tolist() == [[1, 0], [0, 0]]
    assert readings.weigh(none, Reading(attention="hard", empty="itself")).tolist() == [[1, 0], [0, 1]]


def test_a_cell_differs_from_a_billionth_on():
    printed = {"scores 1": double([1, 1], [1, 1])}
    computed = {"scores 1": double([1 + 1.05e-9, 1 - 1.05e-9], [1 + 0.95e-9, 1 - 0.95e-9])}
    assert readings.differing(computed, printed)["scores 1"].tolist() == [[True, True], [False, False]]


def test_matches_have_a_score_above_nothing_and_the_null_key_has_50():
    scores = double([0, 9, 9], [0.5, 0, 9], [1, -1, 2])
    assert readings.weigh(scores, Reading(attention="hard")).tolist() == [[0, 0, 0], [1, 0, 0], [0.5, 0, 0.5]]
    scores = double([50, 99], [50 + np.log(2), 50])
    found = readings.weigh(scores, Reading(attention="null key"))
    assert found.flatten().tolist() == pytest.approx([1 / 2, 0, 2 / 4, 1 / 4])


def test_of_sequences_that_split_readings_alike_the_first_is_kept(monkeypatch):
    """Of three readings two are told apart by any sequence that ends in a 1, and all three by one of four tokens."""
    asked, few = [], [Reading(), Reading(gain=1), Reading(weak="dropped")]

    def classes(tokens, vocab, given):
        asked.append(tuple(tokens.tolist()))
        groups = 3 if len(tokens) == 4 else 2 if tokens[-1] == 1 else 1
        return [list(given)] * groups

    monkeypatch.setattr(readings, "classes", classes)
    assert readings.tell_apart(few, 2, 1)[0] == (0,)
    assert readings.tell_apart(few, 2, 3)[0] == (0, 1)
    asked.clear()
    best, groups = readings.tell_apart(few, 2, 9)
    assert (best, len(groups)) == ((0, 0, 0, 0), 3)
    assert max(map(len, asked)) == 4  # no longer ones are tried


def test_recomputed_tables_have_four_decimals_and_their_columns_names():
    """The third row of layer 2 has seen nothing like itself: thirds of a weight, and of a gain of 100."""
    steps = induction.run(walkthrough.TOKENS, induction.build(walkthrough.VOCAB, 6))
    tables = walkthrough.compare_tables(walkthrough.printed_tables(), steps)
    weights, output = tables[4], tables[5]
    assert weights.computed[2].tolist() == [0.3333, 0.3333, 0.3333, 0, 0, 0]
    assert output.computed[2, :3].tolist() == [33.3333, 33.3333, 33.3333]
    assert weights.printed[3].tolist() == [0, 0, 1, 0, 0, 0]
    assert (weights.title, weights.columns) == ("weights 2", ["!", "a", "b", "a", "c", "b"])
    assert output.columns == [f"{half}_{k}" for half in "EP" for k in range(6)]
    assert {tuple(table.rows) for table in tables} == {("!", "a", "b", "a", "c", "b")}
