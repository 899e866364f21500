"""The induction head: the chapter's whole measurement, its trainings, and how sharp the head must be."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.transformer import induction
from book.publish.records import Value
from book.studies.induction_head import readings, tables, training, walkthrough
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
