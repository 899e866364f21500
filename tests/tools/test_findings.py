"""The figures of README's findings: their words are true, they are what was measured, and the tool draws them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tools import findings
from tools.first_screen import PLACE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMES = ("finding-late-words.svg", "finding-sink.svg", "finding-two-vectors.svg")
STORED = {name: (PLACE / name).read_text(encoding="utf-8") for name in NAMES}


@pytest.fixture(scope="module")
def drawn():
    return findings.draw()


def recorded(page: str) -> dict:
    return json.loads((ROOT / "book" / "recorded" / f"{page}.json").read_text(encoding="utf-8"))


def words(drawing: str) -> list[str]:
    """Return what a drawing says, line by line."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def colours(drawing: str) -> dict[str, str]:
    """Return the colour of each cell by where it begins."""
    return {
        cell: fill
        for fill, moves in re.findall(r'<path [^>]*fill="(.*?)" d="(.*?)"/>', drawing)
        for cell in re.findall(r"M([\d.]+ [\d.]+)h", moves)
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_what_the_tool_draws(name, drawn):
    """Cells may be a level off where another machine rounds otherwise."""
    stored, again = colours(STORED[name]), colours(drawn[name])
    assert stored.keys() == again.keys(), "run python -m tools.first_screen"
    assert not stored or np.mean([stored[cell] == again[cell] for cell in stored]) > 0.97
    plain = [re.sub(r"<path.*?/>", "", of) for of in (STORED[name], drawn[name])]
    assert plain[0] == plain[1], "run python -m tools.first_screen"


def test_eleven_of_twelve_heads_prefer_the_late_half():
    preferred = findings.preferences()
    late = (findings.rises(preferred) > 0).sum()
    assert late == 11
    assert (
        words(STORED["finding-late-words.svg"])[0] == f"In a long text {late} of {len(preferred)} heads of GPT-2&#x27;s"
    )
    cells = colours(STORED["finding-late-words.svg"])
    assert len(cells) == 12 * findings.BLOCKS
    for row, rise in enumerate(findings.rises(preferred)):
        left, right = (cells[f"{72 + 12 * column} {72 + 14 * row}"] for column in (0, findings.BLOCKS - 1))
        green = [int(of[3:5], 16) - max(int(of[1:3], 16), int(of[5:], 16)) for of in (left, right)]
        assert (green[1] > green[0]) == (rise > 0), f"head {row} is drawn the other way"


def test_the_bars_are_the_numbers_of_the_chapter_and_say_what_the_title_says():
    drawing = STORED["finding-sink.svg"]
    lines, numbers = words(drawing), recorded("evidence/sink")["numbers"]
    under = {line: float(lines[i + 1]) for i, line in enumerate(lines[:-1]) if re.fullmatch(r"0\.\d+", lines[i + 1])}
    named = {
        "deleted": "deleted",
        "as much deleted at random": "at-random",
        "handed to the other words": "renormalised",
    }
    due = [float(numbers[f"gates-sink-{number}"]) for number in named.values()]
    shown = [under[line] for line in named]
    assert shown == pytest.approx(due, abs=6e-4)
    bars = [float(width) for width in re.findall(r'<rect x="16"[^>]*? width="([\d.]+)"', drawing)]
    assert np.divide(bars, bars[-1]) == pytest.approx(np.divide(due, due[-1]), abs=5e-3)
    assert 5 * shown[0] < shown[1], "hardly changes: less than by as much at random"
    assert 50 * shown[0] < shown[2]


def test_two_vectors_do_what_the_head_does_and_without_them_it_does_not():
    shares = [float(line[:-1]) / 100 for line in words(STORED["finding-two-vectors.svg"]) if line.endswith("%")]
    trained, alone, without = shares
    lines = recorded("rotary-bias")["cells"][2]["outputs"][0]["text"].splitlines()
    story = [float(line.split(":")[1].split()[findings.HEAD].rstrip("%")) / 100 for line in lines]
    assert [trained, without] == [story[0], story[2]]
    assert abs(alone - trained) < 0.05
    assert without < trained / 3
    for name, of in findings.previous_token_maps().items():
        assert np.allclose(of.sum(-1), 1, atol=1e-5), name
    two = findings.previous_token_maps()["these two alone"]
    assert max(range(5), key=lambda back: np.diagonal(two, -back).mean()) == 1, "look one word back"


def test_readme_shows_each_finding_with_its_figure():
    section = README.split("Three of the things that it found:")[1].split("\n## ")[0]
    for point, name in zip(section.split("\n* ")[1:], NAMES, strict=True):
        assert len(re.findall(rf"!\[[^\]]{{30,}}\]\(book/assets/{name}\)", point)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_small_asks_for_nothing_and_reads_on_a_phone(name):
    drawing = STORED[name]
    assert len(drawing.encode()) < 50_000
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)|url\(|@import|<image|href", drawing)
    width = int(re.search(r'viewBox="0 0 (\d+) ', drawing)[1])
    sizes = [int(size) for size in re.findall(r'font-size="(\d+)"', drawing)]
    assert min(sizes) * 340 / width > 9.5, "smaller than 9.5 pixels on a phone"
    assert re.search(rf'<rect width="{width}" height="\d+" rx="8" fill="#fff"/>', drawing), "has no paper of its own"
    assert re.search(r'role="img".*<title id="title">.+</title><desc id="desc">.+</desc>', drawing)
