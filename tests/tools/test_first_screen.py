"""What README shows first: an animation whose words are true of its numbers, badges, and six lines that say why."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tools import first_screen

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ANIMATION = (first_screen.PLACE / "bias-taken-away.svg").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maps():
    """Return the maps of the animation by name, in their order."""
    return {name: of for name, _, of in first_screen.maps()}


def own(of: np.ndarray) -> float:
    """Return the mean weight of a position's own key."""
    return float(np.diagonal(of).mean())


def distance(of: np.ndarray) -> float:
    """Return how many rows back the head looks, on the mean."""
    place = np.arange(len(of))
    return float((of * (place[:, None] - place)).sum(-1).mean())


def test_the_words_of_the_animation_are_true(maps):
    trained, without_key, *falling = maps.values()
    assert own(trained) > 0.5, "As trained, the head looks at its own position."
    assert np.abs(trained - without_key).max() < 1e-5, "No weight has changed."
    distances = [distance(without_key), *map(distance, falling)]
    assert (np.diff(distances) > 0).all(), "the head looks further back"
    assert distances[-1] > 1.5 * distances[0]


def colours(drawing: str) -> list[dict[tuple[int, int], str]]:
    """Return the colour of each cell in each picture of an animation."""
    pictures = re.findall(r'<g id="(?:trained|no-key|query-\d+)">(.*?)</g>', drawing)
    return [
        {
            (int(x), int(y)): fill
            for fill, moves in re.findall(r'<path fill="(.*?)" d="(.*?)"/>', of)
            for x, y in re.findall(r"M(\d+) (\d+)h", moves)
        }
        for of in pictures
    ]


def test_the_animation_is_what_the_tool_draws():
    """Cells may be a level off where another machine rounds otherwise."""
    stored, drawn = colours(ANIMATION), colours(first_screen.animate())
    assert len(stored) == len(drawn) == 2 + len(first_screen.STEPS)
    for one, other in zip(stored, drawn, strict=True):
        assert len(one) == first_screen.COUNT * (first_screen.COUNT + 1) / 2
        assert one.keys() == other.keys()
        assert np.mean([one[cell] == other[cell] for cell in one]) > 0.98
    assert re.sub(r"<path.*?/>", "", ANIMATION) == re.sub(r"<path.*?/>", "", first_screen.animate())


def test_the_animation_is_small_asks_for_nothing_and_stands_still_where_that_is_wished():
    assert len(ANIMATION.encode()) < 300_000
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)|url\(|@import|<image", ANIMATION)
    assert re.findall(r'href="([^#][^"]*)"', ANIMATION) == []
    still = ANIMATION.split("@media (prefers-reduced-motion:reduce)")[1].split("</style>")[0]
    assert "#moving{display:none}" in still
    assert "#still{display:inline}" in still
    assert "animation:none" in still


def test_badges_say_what_the_repository_says():
    for name, drawing in first_screen.badges().items():
        assert (first_screen.PLACE / name).read_text(encoding="utf-8") == drawing, "run python -m tools.first_screen"
        assert f"(book/assets/{name})" in README
    assert not re.findall(r"!\[[^\]]*\]\(https?:", README), "a badge of another host"


def test_what_readme_prints_is_what_its_lines_print():
    code = README.split("## Why does this head look there?")[1].split("```python")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line and not line.startswith("from")]) <= 6
    shown = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, shown)
    assert f"It prints `{printed.getvalue().strip()}`" in README
    scores = shown["parts"].total()[0, 1]
    looks_at = scores.masked_fill(scores.new_ones(scores.shape).triu(1).bool(), -torch.inf).argmax(-1)
    assert looks_at[-1] == shown["key"] == 0
    assert len(looks_at) == 12
    assert (looks_at[1:-1] == 0).sum() == 6, "six of the ten words between the two"
