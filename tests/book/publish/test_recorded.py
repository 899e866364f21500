"""The records of chapters: what is written, and which differences pass."""

import json
from pathlib import Path

import pytest

from book.publish import execution, recorded

ROOT = Path(__file__).parents[3]
CELL = {"source": "print(1)", "outputs": [{"output_type": "stream", "name": "stdout", "text": "mass 0.41\n"}]}


@pytest.mark.parametrize(
    ("text", "target", "settled"),
    [
        ("mass 0.4813, rank 3", "mass 0.4812, rank 3", "mass 0.4812, rank 3"),
        ("mass 0.4814", "mass 0.4812", "mass 0.4812"),  # less than a thousandth
        ("mass 0.4819", "mass 0.4812", "mass 0.4819"),
        ("gap 1.2e-07, off by 0.3 %", "gap 1.1e-07, off by 0.2 %", "gap 1.1e-07, off by 0.2 %"),
        ("gap 1.4e-07", "gap 1.1e-07", "gap 1.4e-07"),
        ("39 % of 512, 17%", "40 % of 512, 16%", "40 % of 512, 16%"),  # a per cent is rounded
        ("38 %", "40 %", "38 %"),
        ("rank 4", "rank 3", "rank 4"),  # a count is not
        ("39 % of 511", "40 % of 512", "40 % of 511"),
        ("True 0.5", "False 0.5", "True 0.5"),
        ("0.5 0.5", "0.5", "0.5 0.5"),
        ("-0.1", "0.1", "-0.1"),
    ],
)
def test_a_printed_number_may_differ_in_its_last_digit_or_by_a_thousandth(text, target, settled):
    assert recorded.settle(text, target) == settled


@pytest.mark.parametrize(
    ("text", "target", "tags", "settled"),
    [
        ("residual 4.8e-07, loss 2.1", "residual 3.9e-07, loss 2.1", [], "residual 3.9e-07, loss 2.1"),  # float32
        ("residual 4.8e-07, loss 2.1", "residual 3.9e-07, loss 2.1", ["float64"], "residual 4.8e-07, loss 2.1"),
        ("residual 4.8e-07, 9 heads", "residual 3.9e-07, 9 heads", [], "residual 4.8e-07, 9 heads"),  # of no scale
        ("-1.1e-19, loss 2.1", "0.0e+00, loss 2.1", [], "0.0e+00, loss 2.1"),  # noise where there was none
        ("3.1e-16, loss 2.1", "9.9e-15, loss 2.1", ["float64"], "9.9e-15, loss 2.1"),
        ("loss 2.12", "loss 2.10", [], "loss 2.12"),
        ("12 of 36", "11 of 36", ["counts-over-a-threshold"], "11 of 36"),
        ("12 of 36", "11 of 36", [], "12 of 36"),
        ("13 of 36", "11 of 36", ["counts-over-a-threshold"], "13 of 36"),
        ("1013 rows", "1000 rows", ["counts-over-a-threshold"], "1000 rows"),
    ],
)
def test_rounding_for_the_dtype_and_the_scale_of_a_cell_is_no_difference(text, target, tags, settled):
    assert recorded.settle(text, target, tags, recorded.largest([target])) == settled


@pytest.mark.parametrize(
    ("found", "target", "specs", "expected"),
    [
        (0.3617, 0.361, {".3f"}, True),  # within one unit of the last digit shown
        (0.366, 0.361, {".3f"}, False),
        (0.366, 0.361, {".2f"}, True),
        (0.366, 0.361, {".2f", ".3f"}, False),  # the page shows three digits somewhere
        (0.381, 0.361, {".1%"}, False),
        (0.362, 0.361, {".1%"}, True),
        (0.366, 0.361, {""}, False),  # without a format three digits are shown
        (1231.0, 1230.0, {",.0f"}, True),
        (0.0, 0.361, {""}, False),
        (0.001, 0.0, {".1f"}, False),
        (12, 11, {""}, False),
        (11.0, 11, {""}, False),
        (12, 11, {".0%"}, False),
        ("0.5 nats", "0.6 nats", {""}, True),
        ("0.5 nats", "0.5 bits", {""}, False),
        ("3 of 4", "2 of 4", {""}, False),
        ("nan", "nan", {""}, True),
    ],
)
def test_a_glued_value_is_held_to_the_digits_that_the_page_shows(found, target, specs, expected):
    assert recorded.same(found, target, specs) is expected


def test_differences_are_named_with_what_was_recorded_and_found():
    shown = {"sb-one": {".2f"}, "sb-two": {""}}
    found = {"sb-one": 0.5, "sb-two": 7, "sb-three": 1}
    assert recorded.differences(found, {"sb-one": 0.53, "sb-two": 8}, shown) == [
        "sb-one: recorded 0.53, found 0.5",
        "sb-two: recorded 8, found 7",
        "sb-three: not recorded, found 1",
    ]


def test_a_record_has_a_line_for_each_number_and_output_and_keeps_what_agrees(tmp_path):
    path, shown = tmp_path / "tiny.json", {"b": {".2f"}, "a": {""}}
    recorded.write(path, {"b": 0.123, "a": 7}, [CELL], shown)
    lines = path.read_text().splitlines()
    assert lines[:4] == ['{"numbers": {', '"a": 7,', '"b": 0.123', "},"]
    assert len(lines) == 8
    assert json.loads(path.read_text()) == recorded.read(path) == {"numbers": {"a": 7, "b": 0.123}, "cells": [CELL]}
    other = {**CELL, "outputs": [{**CELL["outputs"][0], "text": "mass 0.42\n"}]}
    recorded.write(path, {"b": 0.124, "a": 8}, [other], shown)
    assert recorded.read(path) == {"numbers": {"a": 8, "b": 0.123}, "cells": [CELL]}
    other["outputs"][0]["text"] = "mass 0.52\n"
    recorded.write(path, {"a": 8}, [other], shown)
    assert recorded.read(path) == {"numbers": {"a": 8}, "cells": [other]}


@pytest.mark.parametrize("path", sorted(execution.RECORDED.rglob("*.json")), ids=lambda path: path.stem)
def test_each_number_of_a_record_is_shown_by_its_page_and_none_is_noise(path):
    record = recorded.read(path)
    page = execution.pages()[execution.page_name(path, execution.RECORDED)]
    assert set(record["numbers"]) == set(recorded.shown(page))
    assert not recorded.noise(json.dumps([cell["outputs"] for cell in record["cells"]]))


def test_a_page_of_evidence_shows_what_its_stories_borrow(tmp_path):
    (tmp_path / "evidence").mkdir()
    page = tmp_path / "evidence" / "gates.md"
    page.write_text("It is {glue:text}`g-a:.1f`.")
    (tmp_path / "story.md").write_text("It is {number}`gates/g-a:.2f` of {number}`gates/g-b`, {number}`rank/r-c`.")
    assert recorded.shown(page) == {"g-a": {".1f", ".2f"}, "g-b": {""}}
