"""What README shows first: drawings that say what is computed here, badges, and six lines that say why."""

import contextlib
import io
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis import (
    apply_norm,
    attend,
    compute_scores,
    distance_kernel,
    find,
    load,
    mask_future,
    passages,
    project,
    semi_bias,
)
from analysis.models import pretrained

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "book" / "assets"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = ("finding-late-words.svg", "finding-sink.svg", "finding-two-vectors.svg")
DRAWN = {name: (PLACE / name).read_text(encoding="utf-8") for name in (*FINDINGS, "bias-taken-away.svg")}
ANIMATION = DRAWN["bias-taken-away.svg"]


def recorded(page: str) -> dict:
    return json.loads((ROOT / "book" / "recorded" / f"{page}.json").read_text(encoding="utf-8"))


def words(drawing: str) -> list[str]:
    """Return what a drawing says, line by line."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def cells(drawing: str) -> dict[tuple[float, float], tuple[int, int, int]]:
    """Return the colour of each cell by where it begins."""
    return {
        (float(x), float(y)): tuple(int(fill[i : i + 2], 16) for i in (1, 3, 5))
        for fill, moves in re.findall(r'<path [^>]*?fill="(.*?)" d="(.*?)"/>', drawing)
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)h", moves)
    }


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    """Return the maps of the animation: as trained, without b_K, and while b_Q goes as well."""
    model = load("gpt2-first-layer")
    layer = model.layers[0]
    x = apply_norm(model.positions[::44][:24], layer.norm("input"))
    left = [(1, 1), (1, 0), *((1 - step / 12, 0) for step in range(1, 13))]
    with torch.no_grad():
        changed = [replace(layer, b_Q=query * layer.b_Q, b_K=key * layer.b_K) for query, key in left]
        return [attend(x, of).attention[9].double().numpy() for of in changed]


def test_the_words_of_the_animation_are_true(pictures):
    trained, without_key, *falling = pictures
    back = np.subtract.outer(np.arange(24), np.arange(24))
    assert np.diagonal(trained).mean() > 0.5, "As trained, the head looks at its own position."
    assert np.abs(trained - without_key).max() < 1e-5, "No weight has changed."
    distances = [(of * back).sum(-1).mean() for of in (without_key, *falling)]
    assert (np.diff(distances) > 0).all(), "the head looks further back"
    assert distances[-1] > 1.5 * distances[0]


def test_the_pictures_of_the_animation_are_these_maps(pictures):
    """The more weight, the brighter."""
    drawn = re.findall(r'<g id="(?:trained|no-key|query-\d+)">(.*?)</g>', ANIMATION)
    for of, picture in zip(pictures, map(cells, drawn), strict=True):
        assert len(picture) == 24 * 25 / 2
        weights = [of[int(y - 44) // 11, int(x - 16) // 11] for x, y in picture]
        order = np.argsort(weights)
        bright = np.dot(list(picture.values()), (0.3, 0.6, 0.1))[order]
        assert (np.diff(bright) > -2).all()
        assert np.corrcoef(bright, np.sqrt(weights)[order])[0, 1] > 0.98


def test_the_animation_stands_still_where_that_is_wished():
    still = ANIMATION.split("@media (prefers-reduced-motion:reduce)")[1].split("</style>")[0]
    assert all(rule in still for rule in ("#moving{display:none}", "#still{display:inline}", "animation:none"))


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_small_and_asks_for_nothing(name):
    assert len(DRAWN[name].encode()) < (300_000 if name == "bias-taken-away.svg" else 50_000)
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)|url\(|@import|<image", DRAWN[name])
    assert re.findall(r'href="([^#][^"]*)"', DRAWN[name]) == []


def test_eleven_of_twelve_heads_prefer_the_late_half():
    model, drawing = load("gpt2-first-layer"), DRAWN["finding-late-words.svg"]
    layer = model.layers[0]
    preferred = semi_bias(apply_norm(model.positions, layer.norm("input")), layer).detach().numpy()
    rises = preferred[:, 512:].mean(-1) - preferred[:, :512].mean(-1)
    assert (rises > 0).sum() == 11
    assert words(drawing)[0] == "In a long text 11 of 12 heads of GPT-2&#x27;s"
    colours = cells(drawing)
    assert len(colours) == 12 * 32
    for row, rise in enumerate(rises):
        (red, green, blue), (red_late, green_late, blue_late) = (colours[72 + 12 * c, 72 + 14 * row] for c in (0, 31))
        greener = green_late - max(red_late, blue_late) > green - max(red, blue)
        assert greener == (rise > 0), f"head {row} is drawn the other way"


def test_the_bars_are_the_numbers_of_the_chapter_and_say_what_the_title_says():
    lines, numbers = words(DRAWN["finding-sink.svg"]), recorded("evidence/sink")["numbers"]
    named = {"deleted": "deleted", "as much deleted at random": "at-random"}
    named |= {"handed to the other words": "renormalised"}
    due = [float(numbers[f"gates-sink-{name}"]) for name in named.values()]
    shown = [float(lines[lines.index(line) + 1]) for line in named]
    assert shown == pytest.approx(due, abs=6e-4)
    bars = [float(width) for width in re.findall(r'<rect x="16"[^>]*? width="([\d.]+)"', DRAWN["finding-sink.svg"])]
    assert np.divide(bars, bars[-1]) == pytest.approx(np.divide(due, due[-1]), abs=5e-3)
    assert 5 * shown[0] < shown[1], "hardly changes: less than by as much at random"
    assert 50 * shown[0] < shown[2]


def previous_token_maps() -> list[np.ndarray]:
    """Return three mean maps of head 5 in layer 1 of neox-mini: as trained, of two vectors alone, and without them."""
    files, model, place = find("neox-mini"), load("neox-mini"), torch.arange(96)
    texts = pretrained.tokenizer(files)(passages(), truncation=True, max_length=96).input_ids
    ids, layer = torch.tensor([text for text in texts if len(text) == 96]), model.layers[1]
    with torch.no_grad():
        streams = pretrained.load(files)(ids, output_hidden_states=True).hidden_states
        x = apply_norm(streams[1], model.norm("attention", 1))
        query, key = project(x, layer.W_Q, layer.b_Q), project(x, layer.W_K, layer.b_K)
        kernel = distance_kernel(query.mean((0, 2)), key.mean((0, 2)), layer.positions)
        alone, scores = kernel.at((place[:, None] - place).flatten().float())[5], compute_scores(x, layer)[:, 5]
        alone = alone.view(96, 96)
        return [mask_future(of).softmax(-1).mean(0).numpy() for of in (scores, alone[None], scores - alone)]


def test_two_vectors_do_what_the_head_does_and_without_them_it_does_not():
    said = [float(line[:-1]) / 100 for line in words(DRAWN["finding-two-vectors.svg"]) if line.endswith("%")]
    maps = previous_token_maps()
    assert said == pytest.approx([np.diagonal(of, -1).mean() for of in maps], abs=6e-3)
    trained, alone, without = said
    assert abs(alone - trained) < 0.05
    assert without < trained / 3
    assert max(range(5), key=lambda back: np.diagonal(maps[1], -back).mean()) == 1, "look one word back"
    _, *lines = recorded("rotary-bias")["cells"][2]["outputs"][0]["text"].splitlines()  # below the numbers of the heads
    story = [float(line.split(":")[1].split()[5].rstrip("%")) / 100 for line in lines]
    assert [trained, without, alone] == story[:3]


@pytest.mark.parametrize("name", FINDINGS)
def test_readme_shows_each_finding_with_a_figure_that_reads_on_a_phone(name):
    section = README.split("Three of the things that it found:")[1].split("\n## ")[0]
    assert len(re.findall(rf"!\[[^\]]{{30,}}\]\(book/assets/{name}\)", section)) == 1
    drawing = DRAWN[name]
    width = int(re.search(r'viewBox="0 0 (\d+) ', drawing)[1])
    sizes = [int(size) for size in re.findall(r'font-size="(\d+)"', drawing)]
    assert min(sizes) * 340 / width > 9.5, "smaller than 9.5 pixels on a phone"
    assert re.search(rf'<rect width="{width}" height="\d+" rx="8" fill="#fff"/>', DRAWN[name]), "has no paper"
    assert re.search(r'role="img".*<title id="title">.+</title><desc id="desc">.+</desc>', drawing)


def test_badges_say_what_the_repository_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(every, held)] = re.findall(r"make (\d+) claims.*? (\d+) reproduced", README, re.DOTALL)
    python = project["requires-python"].removeprefix(">=")
    due = {"claims": f"{held} of {every} reproduced", "python": f"{python} or newer", "network": "not needed"}
    due |= {"licence": project["license"]}
    for name, said in due.items():
        assert words((PLACE / f"badge-{name}.svg").read_text(encoding="utf-8")) == [name, said], f"edit {name}.svg"
        assert f"(book/assets/badge-{name}.svg)" in README
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
