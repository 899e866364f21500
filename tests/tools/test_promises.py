"""What benchmarks promise: a tenth from the worst of many times, in the right direction, and never nothing."""

import json

import pytest

from tests.benchmarks.machine import FLOAT, READ, SIDE, Race, race, take_turns
from tests.benchmarks.promises import Promise, Promises


def promises(tmp_path, **entries):
    lines = []
    file = tmp_path / "promises.json"
    file.write_text(json.dumps({name: {"worst": w, "typical": t, "times": 20} for name, (w, t) in entries.items()}))
    return Promises(file=file, say=lines.append), lines


def test_a_promise_lies_a_tenth_beyond_the_worst():
    fast, cheap = Promise("at least", 20.0, 30.0, 20), Promise("at most", 1.0, 0.5, 20)
    assert (fast.limit, cheap.limit) == (18.0, 1.1)
    assert (fast.holds(18.0), fast.holds(17.9)) == (True, False)
    assert (cheap.holds(1.1), cheap.holds(1.2)) == (True, False)


def test_a_ratio_is_held_to_its_promise_and_printed_beside_it(tmp_path):
    held, lines = promises(tmp_path, fast=(20.0, 30.0), cheap=(1.0, 0.5))
    held.at_least("fast", 19.0)
    held.at_most("cheap", 0.7)
    assert "fast: 19; promised at least 18, typical 30 of 20" in lines[0]
    with pytest.raises(AssertionError, match=r"fast: 17, but promised at least 18, typical 30"):
        held.at_least("fast", 17.0)
    with pytest.raises(AssertionError, match=r"cheap: 1.2, but promised at most 1.1"):
        held.at_most("cheap", 1.2)


def test_a_promise_of_nothing_is_refused(tmp_path):
    held, _ = promises(tmp_path, slow=(1.05, 2.0))
    with pytest.raises(AssertionError, match="promises nothing"):
        held.at_least("slow", 3.0)
    held.at_most("slow", 1.1)
    with pytest.raises(AssertionError, match="nothing is promised of 'new'"):
        held.at_least("new", 3.0)


def test_what_was_measured_often_enough_is_entered(tmp_path):
    file = tmp_path / "promises.json"
    file.write_text('{"kept": {"worst": 2.0, "typical": 3.0, "times": 20}}')
    collected = Promises(file=file, collecting=True, say=lambda line: None)
    for ratio in (5.0, 3.0049, 4.0, 100.0):
        collected.at_least("fast", ratio)
        collected.at_most("cheap", ratio)
        collected.at_least("slow", 1.0)
    collected.at_least("rare", 5.0)
    lines = collected.write(4)
    assert collected.read() == {
        "cheap": {"worst": 100.0, "typical": 4.5, "times": 4},
        "fast": {"worst": 3.0, "typical": 4.5, "times": 4},
        "kept": {"worst": 2.0, "typical": 3.0, "times": 20},
        "slow": {"worst": 1.0, "typical": 1.0, "times": 4},
    }
    assert lines[0] == "fast: worst 3; promised at least 2.7, typical 4.5 of 4"
    assert "slow: worst 1; promised at least 0.9, typical 1 of 4: THIS PROMISES NOTHING" in lines
    assert "rare: found 1 of 4 times, not entered" in lines


def test_ratios_are_medians_over_rounds():
    found = Race({"slow": [2.0, 8.0, 90.0], "fast": [1.0, 2.0, 3.0], "read": [1.0, 0.5, 1.0], "multiply": [1.0, 1, 4]})
    assert found.ratio("slow", "fast") == 4
    assert found.least("slow") == 2
    assert found.over_limit("fast", bytes_read=READ * FLOAT) == 3
    assert found.over_limit("fast", bytes_read=READ * FLOAT, multiply_adds=SIDE**3) == 1


def test_what_is_compared_takes_turns():
    order = []
    found = take_turns({"a": lambda: order.append("a") or 1.0, "b": lambda: order.append("b") or 2.0}, rounds=3)
    assert "".join(order) == "ababab"
    assert found == Race({"a": [1.0] * 3, "b": [2.0] * 3})


def test_a_call_that_works_longer_takes_longer():
    found = race({"short": lambda: sum(range(10**4)), "long": lambda: sum(range(10**6))}, rounds=3)
    assert found.ratio("long", "short") > 10
