"""The search over readings: what the equations at their word contradict, and which readings print every table."""

from collections import Counter

import pytest
import torch

from analysis.transformer import induction
from book.lab import induction_readings as readings
from book.lab import induction_slides as slides
from book.lab.induction_readings import TABLES, Reading

PRINTED = slides.printed_tables()
TOKENS = slides.encode(slides.SEQUENCE)


@pytest.fixture(scope="module")
def found():
    """The readings under which every printed cell comes out, of those with the right scores; the page tries all."""
    some = [r for r in readings.every() if (r.gain, r.scores, r.shown) == (1, "y_i A y_j", "before the mask")]
    return [r for r in some if not any(count(readings.tables(TOKENS, 6, r)).values())]


@pytest.fixture(scope="module")
def simplest(found):
    return [r for r in found if len(r.departures()) == 4]


def computed(**choices):
    return readings.tables(TOKENS, 6, Reading(**choices))


def count(tables):
    return {name: int(cells.sum()) for name, cells in readings.differing(tables, PRINTED).items()}


@pytest.mark.parametrize(
    ("normaliser", "cells"),
    [
        ("all s", [0, 1, 1, 1, 2, 2]),  # as printed
        ("all s, then s <= i", [0, 0, 1, 1, 0, 3]),  # and normalised, as the tables are headed
        ("s <= i", [0, 0, 1, 1, 10, 12]),
    ],
)
def test_how_many_cells_each_place_of_the_mask_contradicts(normaliser, cells):
    assert list(count(computed(normaliser=normaliser)).values()) == cells


def test_a_mask_before_the_softmax_is_the_hand_built_head():
    first, second = induction.run(TOKENS, induction.build(6, 6))
    tables = computed(normaliser="s <= i")
    due = [table for step in (first, second) for table in (step.scores, step.attention, step.output)]
    for name, table in zip(TABLES, due, strict=True):
        assert (tables[name] - table).abs().max() <= 0.05 + 1e-12, name


def test_the_search_finds_ten_simplest_readings_of_three_kinds(found, simplest):
    assert found[0] in simplest
    kinds = Counter((r.attention, r.normaliser) for r in simplest)
    due = {("hard", "all s"): 2, ("null key", "all s"): 2, ("softmax", "s <= i"): 4}
    assert kinds == due | {("softmax", "all s, then s <= i"): 2}
    for reading in found:
        assert reading.attention != "softmax" or reading.normaliser in ("s <= i", "all s, then s <= i")
        assert reading.summed != "j <= i"


def test_hard_attention_and_a_null_key_leave_the_first_row_alone():
    for attention in ("hard", "null key"):
        differing = {"weights 1": 1, "weights 2": 1}
        found = count(computed(attention=attention, gain=1))
        assert {name: cells for name, cells in found.items() if cells} == differing
        shown = count(computed(attention=attention, gain=1, empty="itself, first row", summed="j < i"))
        assert sum(shown.values()) == 0


def test_hard_attention_is_equal_on_matches_and_empty_without_one():
    scores = torch.tensor([[-1.0, 0.0], [2.0, 3.0]], dtype=torch.float64)
    assert readings.weigh(scores, Reading(attention="hard")).tolist() == [[0, 0], [0.5, 0.5]]
    itself = readings.weigh(scores, Reading(attention="hard", empty="itself, first row"))
    assert itself.tolist() == [[1, 0], [0.5, 0.5]]


def test_one_changed_printed_cell_is_noticed_under_each_of_them(simplest):
    for name in TABLES:
        changed = dict(PRINTED, **{name: PRINTED[name].clone()})
        changed[name][3, 0] += 1
        for reading in simplest:
            cells = readings.differing(readings.tables(TOKENS, 6, reading), changed)
            assert [n for n in TABLES if cells[n].any()] == [name]
            assert cells[name].nonzero().tolist() == [[3, 0]]


def test_an_input_of_three_tokens_tells_the_simplest_apart(simplest):
    tokens, groups = readings.tell_apart(simplest, 6, 3)
    assert (tokens, sorted(len(g) for g in groups)) == ((0, 0, 1), [1, 1, 1, 1, 3, 3])
    assert len(readings.classes(TOKENS, 6, simplest)) == 1


@pytest.mark.parametrize(
    ("choices", "contradicted"),
    [
        ({"scores": "y_j A y_j"}, "scores 1"),
        ({"scores": "y_j A y_i"}, "scores 1"),
        ({"shown": "after the mask"}, "scores 1"),
        ({"normaliser": "all s"}, "weights 1"),
        ({"normaliser": "s < i"}, "weights 1"),
    ],
)
def test_what_rules_a_choice_out(choices, contradicted):
    base = {"normaliser": "s <= i", "summed": "j < i", "gain": 1, "rounding": "whole, halves to even"}
    assert sum(count(computed(**base)).values()) == 0
    assert count(computed(**base | choices))[contradicted] > 0


def test_weights_of_each_normaliser_by_hand():
    scores = torch.zeros(2, 2, dtype=torch.float64)
    half = [[1, 0], [0.5, 0.5]]
    due = {"s <= i": half, "all s": [[0.5, 0], [0.5, 0.5]], "s < i": [[0, 0], [1, 0]], "all s, then s <= i": half}
    for normaliser, rows in due.items():
        weights = readings.weigh(scores, Reading(normaliser=normaliser))
        torch.testing.assert_close(weights, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-8)
    itself = readings.weigh(scores, Reading(normaliser="s < i", empty="itself"))
    torch.testing.assert_close(itself, torch.tensor([[1.0, 0], [1, 0]], dtype=torch.float64))


def test_a_cell_that_is_not_a_number_differs():
    tables = computed()
    nothing = {"weights 1": torch.full((6, 6), float("nan"), dtype=torch.float64)}
    assert readings.differing(tables, nothing)["weights 1"].all()


def test_halves_go_up_or_to_the_even_number():
    halves = torch.tensor([[0.5, 1.5, 2.4]])
    up, even = (readings.round_table(halves, Reading(rounding=f"whole, halves {how}")) for how in ("up", "to even"))
    assert up.tolist() == [[1, 2, 2]]
    assert even.tolist() == [[0, 2, 2]]
