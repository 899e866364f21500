"""The study of the whole score: shares of handmade tables, gates of formulas, and maps that are made small."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.transformer import constructed_heads
from book.studies import one_score_four_parts as study
from book.studies.one_score_four_parts import parts, shares
from book.studies.one_score_four_parts.measure import MODELS, bound, labelled, measure_positions
from book.studies.one_score_four_parts.shares import FirstLayer, HeadShares, OneText, TextShares

HEADS = HeadShares(
    np.array([2.0, 2.0, 4.0]), np.array([[2.0, 1, -1], [0.5, 0, 1.5], [2.0, 1.5, 0.5]]), np.array([0.01, 0.02, 0.03])
)
LAYER = FirstLayer(np.array([1.0, 3.0]), np.array([[1.0, 0.2, -0.3, 0, 0.1, 0], [1.0, 0.3, 0.6, 1.0, 0, 0.1]]))


@pytest.fixture
def head():
    tokens = parts.random_tokens()
    return constructed_heads.previous_token(study.VOCABULARY, len(tokens)), tokens


def test_gates_of_a_formula_are_all_that_must_be_there_and_no_other(head):
    layer, tokens = head
    read = [
        study.gate_shares(constructed_heads.attention_map(layer, tokens, causal=causal), causal=causal)
        for causal in (False, True)
    ]
    assert study.findings.gates_are(read, [{"backward"}] * 2)
    assert not study.findings.gates_are(read, [{"backward"}, {"backward", "open"}])
    assert not study.findings.gates_are([read[0], {**read[1], "forward": 0.11}], [{"backward"}] * 2)
    assert not study.findings.gates_are([{}, read[1]], [{"backward"}] * 2)


def test_gates_come_with_the_largest_first_and_without_the_small():
    tokens = parts.random_tokens()
    layer = constructed_heads.matched_token(study.VOCABULARY, len(tokens))
    read = study.gate_shares(constructed_heads.attention_map(layer, tokens, causal=False), causal=False)
    assert list(read) == ["residual", "open"]
    assert 0.1 < read["open"] < read["residual"]


def test_a_long_map_is_made_small_in_blocks_and_a_short_one_is_cut():
    rows = torch.rand(12, 12, dtype=torch.float64).softmax(-1).numpy()
    small = parts.coarse_map(rows, most=4)
    np.testing.assert_allclose(small[1, 2], rows[3:6, 6:9].sum(1).mean(), atol=1e-4)
    np.testing.assert_allclose(small.sum(1), 1, atol=1e-3)
    np.testing.assert_allclose(parts.coarse_map(rows, most=7), rows[:7, :7], atol=1e-4)
    assert parts.coarse_map(rows, most=20).shape == (12, 12)


def test_shares_are_of_all_heads_and_heads_are_counted():
    texts = TextShares(np.array([[0.5, 0.3, 0.2]] * 3), np.array([1.0, 2.0, 1.5]))
    numbers = shares.model_numbers(HEADS, texts, LAYER)
    assert numbers["heads"] == 3
    assert (numbers["content"], numbers["common"], numbers["semi"]) == ("56 %", "31 %", "12 %")
    assert (numbers["divergence"], numbers["control"]) == ("2.67", "0.020")
    assert numbers["semi_majority"] == 1  # of the second head
    assert numbers["content_minority"] == 1
    assert numbers["content_interval"] == "50 to 50 %"
    assert numbers["content_minority_interval"] == "0.3 to 2.7"
    assert (numbers["ee"], numbers["pp"]) == ("50 %", "25 %")


def test_no_interval_of_two_texts():
    assert shares.interval_text(np.array([1.0, 2.0]), ".0f", " %") == "too few texts to tell"


def test_texts_are_shared_out_one_by_one():
    by_text = np.zeros((2, 3, 1, 5))  # (layer, text, head, part)
    by_text[:, 0, 0, :3] = [3, 1, 0]
    by_text[:, 1, 0, :3] = [1, 2, 1]
    by_text[0, 2, 0, :3], by_text[1, 2, 0, :3] = [2, 0, 0], [0, 1, 1]
    by_text[..., 3:] = 9  # row constants are no part of it
    texts = shares.measure_texts(SimpleNamespace(by_text=by_text))
    np.testing.assert_allclose(texts.shares, [[0.75, 0.25, 0], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    np.testing.assert_array_equal(texts.content_minority, [0, 2, 1])


def test_layers_add_up():
    parts = np.arange(2 * 2 * 5, dtype=float).reshape(2, 2, 5)
    layers = shares.measure_layers(SimpleNamespace(parts=parts))
    np.testing.assert_allclose(layers.sum(1), 1)
    np.testing.assert_allclose(layers[0], [5 / 21, 7 / 21, 9 / 21])


def test_minilms_layers_after_the_first_are_told_apart():
    survey = SimpleNamespace(from_zero=np.array([[3.0, 1.0], [3.0, 1.0]]), divergence=np.array([4.0, 4.0]))
    numbers = shares.minilm_numbers(survey, np.array([[0.9, 0, 0.1], [0.2, 0.8, 0], [0.4, 0.6, 0]]))
    assert numbers == {"content_0": "90 %", "content_low": "20 %", "content_high": "40 %", "zero": "75 %"}


def test_mixed_terms_are_those_of_token_against_position():
    np.testing.assert_allclose(LAYER.mixed, [-0.1, 0.3])
    np.testing.assert_allclose(LAYER.shares[:4], [0.5, 0.125, 0.075, 0.25])
    other = FirstLayer(LAYER.divergence, LAYER.terms * 0.5)
    mixed = shares.mixed_terms({"one": LAYER, "another": other})
    assert (mixed.mixed, mixed.mixed_low, mixed.mixed_high) == ("20 %", "-10 %", "30 %")


def test_other_splits_are_shares_of_the_path():
    splits = {
        "path": np.array([[2.0, 1, 1], [1.0, 2, 3]]),
        "in order": np.array([[3.0, 1, 0], [3.0, 1, 2]]),
        "reverse order": np.array([[1.0, 1, 2], [0.0, 3, 3]]),
        "drop one": np.array([[1.0, 1, 0], [1.0, 1, 1]]),
    }
    other = shares.other_splits(OneText(0, 0, torch.zeros(3, 1, 1), splits))
    assert (other.path_one, other.drop_sum) == ("30 %", "50 %")
    assert (other.first, other.first_1, other.last, other.last_1) == ("60 %", "50 %", "10 %", "0 %")
    assert (other.semi_first, other.semi_last) == ("50 %", "20 %")


def test_positions_name_the_heads_and_what_works_against_them():
    parts = np.array([[0.5, 0, -0.1], [0.0, 0.5, 1.5], [1.5, 0, -0.5]])
    positions = measure_positions(HeadShares(np.array([0.4, 2.0, 1.0]), parts, np.zeros(3)))
    assert (positions.far_heads, positions.early, positions.against) == ("1, 2", "75 %", "2")


def test_a_bound_that_is_not_kept_is_not_told():
    assert bound(1e-13) == "1e-12"
    assert bound(3e-9) == "3e-09"


def test_a_folder_that_is_named_as_one_of_the_books_models_does_not_hide_it():
    assert labelled("/elsewhere/minilm") == {name: name for name in (*MODELS, "/elsewhere/minilm")}
    assert labelled("/elsewhere/my-bert")["my-bert"] == "/elsewhere/my-bert"
