"""Exercises that check themselves: tried with the package, the solution passes and each wrong answer gets its hint."""

import re

import pytest

from book._ext import live, live_check
from tests.book.pages.book_pages import ROOT

PAGES = [live.checks(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "book").rglob("*.md"))]
BLOCKS = {name: block for blocks in PAGES for name, block in blocks.items()}
CAUSAL = """
import torch

def causal_weights(scores):
    for i in range(len(scores)):
        {}
    return scores.softmax(-1)
"""


def judged(code, block):
    """Judge an answer as a reader types it."""
    space = {}
    exec(code, space)
    return live_check.judge(space, block)


def test_there_are_twenty_and_each_asks_for_a_function_of_its_own():
    assert len(BLOCKS) == sum(map(len, PAGES)) >= 20


@pytest.mark.parametrize("name", BLOCKS)
def test_the_solution_passes_and_five_wrong_answers_get_their_hints(name):
    start = BLOCKS[name].split("\n---\n")[0]
    assert judged(f"{start}\n{live_check.solution(BLOCKS[name])}", BLOCKS[name])[0]
    assert judged(start, BLOCKS[name]) == (False, live_check.BEGINNING)
    hints = live_check.functions(BLOCKS[name])[2]["hints"]
    assert len(hints) >= 4
    for wrong, hint in hints.items():
        assert live_check.judge({name: wrong}, BLOCKS[name]) == (False, hint)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("scores[i, i + 1 :] = -torch.inf", "Right"),
        ("scores[i, i + 1 :] = 0", "hides nothing"),
        ("scores[i, i:] = -torch.inf", "leave the diagonal"),
        ("scores[i, :i] = -torch.inf", "hides earlier words"),
        ("pass", "before you changed it"),
        ("return scores[0]", r"shape \(3,\); right is the shape \(3, 3\)"),
        ("scores[i, i + 1 :] = -1", r"causal_weights\(\[\[0, 0, 0\], "),
        ("return None", "is there a return"),
    ],
)
def test_an_answer_written_in_another_way_gets_the_hint_of_what_it_returns(line, said):
    assert re.search(said, judged(CAUSAL.format(line), BLOCKS["causal_weights"])[1])


def test_a_missing_function_is_asked_for():
    assert judged("x = 1", BLOCKS["score"]) == (False, "Where is the function score?")
