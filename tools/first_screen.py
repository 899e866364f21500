"""Draw what README shows: ``python -m tools.first_screen`` writes an animation, badges and figures into book/assets.

The animation is of GPT-2's first layer, which comes with the package: what a head does when biases are taken from it.
All of its pictures are computed; an SVG moves without a script, and stands still for who asked for less motion.
"""

import html
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.colors import to_hex

from analysis import apply_norm, attend, load
from analysis.core.files import write_atomically
from tools import findings

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "book" / "assets"
HEAD = 9
EVERY = 44
"""Which positions of 1,024 are read: so far apart that the spiral of GPT-2's positions is seen."""
COUNT = 24
STEPS = tuple(1 - step / 12 for step in range(1, 13))
"""What is left of the query bias in each picture."""
LEVELS = 48
"""Of colours."""

CELL, LEFT, TOP, WIDTH, HEIGHT = 11, 16, 44, 640, 330
RIGHT = LEFT + CELL * COUNT + 28
SECONDS = 12.0
TRAINED, KEYS_GONE, FALLING, END = 0.0, 3.0, 5.5, 8.5
"""When each part of the animation begins, in seconds; the last picture stays from the end to the next turn."""

Map = Float[np.ndarray, "query key"]


def maps() -> list[tuple[str, float, Map]]:
    """Return the pictures in their order: a name, the second at which each begins, and the attention of the head.

    As trained; without the key bias; and without it while the query bias goes.
    """
    model = load("gpt2-first-layer")
    layer = model.layers[0]
    x = apply_norm(model.positions[::EVERY][:COUNT], layer.norm("input"))

    def look(query: float, key: float) -> Map:
        changed = replace(layer, b_Q=query * layer.b_Q, b_K=key * layer.b_K)
        with torch.no_grad():
            return attend(x, changed).attention[HEAD].double().numpy()

    gap = (END - FALLING) / len(STEPS)
    falling = [(f"query-{i}", FALLING + i * gap, look(left, 0)) for i, left in enumerate(STEPS)]
    return [("trained", TRAINED, look(1, 1)), ("no-key", KEYS_GONE, look(1, 0)), *falling]


def draw_map(attention: Map) -> str:
    """Draw a map: one path for each level of colour, by the square root of the weight."""
    colours = matplotlib.colormaps["cividis"]
    levels = np.round(np.sqrt(attention) * (LEVELS - 1)).astype(int)
    paths = []
    for level in np.unique(levels):
        cells = [(q, k) for q, k in np.argwhere(levels == level) if k <= q]
        if cells:
            moves = "".join(f"M{LEFT + CELL * k} {TOP + CELL * q}h{CELL}v{CELL}h-{CELL}z" for q, k in cells)
            paths.append(f'<path fill="{to_hex(colours(level / (LEVELS - 1)))}" d="{moves}"/>')
    return "".join(paths)


def keyframes(name: str, shown: Sequence[tuple[float, float]]) -> str:
    """Write the keyframes of something that is seen at some times, in seconds, and at no others."""
    stops = {0.0: 0, 100.0: 0}
    for begin, end in shown:
        stops |= {100 * begin / SECONDS: 1, 100 * end / SECONDS: 0}
    if any(end >= SECONDS for _, end in shown):
        stops[100.0] = 1
    return f"@keyframes {name}{{" + "".join(f"{at:.2f}%{{opacity:{on}}}" for at, on in sorted(stops.items())) + "}"


def animate() -> str:
    """Return the animation as SVG."""
    pictures = maps()
    ends = [*(begin for _, begin, _ in pictures[1:]), SECONDS]
    style = [keyframes(name, [(begin, end)]) for (name, begin, _), end in zip(pictures, ends, strict=True)]
    words = {
        "said-trained": (TRAINED, KEYS_GONE, ("As trained, the head", "looks at its own position.")),
        "said-key": (KEYS_GONE, FALLING, ("The key bias is gone.", "No weight has changed.")),
        "said-query": (FALLING, SECONDS, ("The query bias goes too:", "the head looks further back.")),
    }
    style += [keyframes(name, [(begin, end)]) for name, (begin, end, _) in words.items()]
    seen = "".join(
        f"#{name}{{animation:{name} {SECONDS:g}s steps(1) infinite;opacity:0}}" for name in (*words, *ids(pictures))
    )
    at = {name: 100 * when / SECONDS for name, when in (("gone", KEYS_GONE), ("fall", FALLING), ("end", END))}
    style += [
        seen,
        f"@keyframes key{{0%,{at['gone'] - 4:.2f}%{{width:150px}}{at['gone']:.2f}%,100%{{width:0}}}}",
        f"@keyframes query{{0%,{at['fall']:.2f}%{{width:150px}}{at['end']:.2f}%,100%{{width:0}}}}",
        f"#key{{animation:key {SECONDS:g}s linear infinite}}#query{{animation:query {SECONDS:g}s linear infinite}}",
        "#still{display:none}",
        "@media (prefers-reduced-motion:reduce){#still{display:inline}#moving{display:none}"
        f"{','.join('#' + name for name in ids(pictures))}{{animation:none;opacity:1}}}}",
    ]
    first, last = pictures[0][0], pictures[-1][0]
    said = "".join(
        f'<g id="{name}">'
        + "".join(f'<text x="{RIGHT}" y="{188 + 24 * i}" font-size="17">{line}</text>' for i, line in enumerate(lines))
        + "</g>"
        for name, (_, _, lines) in words.items()
    )
    bars = "".join(
        f'<text x="{RIGHT}" y="{y - 8}" font-size="13" fill="#555">{name} bias</text>'
        f'<rect x="{RIGHT}" y="{y}" width="150" height="12" fill="#eee"/>'
        f'<rect id="{name}" x="{RIGHT}" y="{y}" width="150" height="12" fill="#D55E00"/>'
        for name, y in (("key", 74), ("query", 122))
    )
    shown = "".join(f'<g id="{name}">{draw_map(attention)}</g>' for name, _, attention in pictures)
    note = "rows: queries; columns: keys; every 44th position; brighter: more weight"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title desc" font-family="Helvetica,Arial,sans-serif" fill="#222">'
        '<title id="title">A bias is taken from a head of GPT-2</title>'
        f'<desc id="desc">Attention of head {HEAD} of the first layer between {COUNT} positions. Without the key bias '
        "it is what it was. As the query bias goes, weight moves from the diagonal to a curve of earlier positions."
        f"</desc><style>{''.join(style)}</style>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>'
        f'<text x="{LEFT}" y="28" font-size="15" font-weight="bold">Head {HEAD} of GPT-2\'s first layer</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}" font-size="11" fill="#555">{note}</text>'
        f'<g id="moving">{shown}{bars}{said}</g>'
        f'<g id="still"><use href="#{first}"/><text x="{LEFT + 110}" y="64" font-size="13">as trained</text>'
        f'<g transform="translate({RIGHT - LEFT + 20} 0)"><use href="#{last}"/>'
        f'<text x="{LEFT + 110}" y="64" font-size="13">without its biases</text></g></g></svg>\n'
    )


def ids(pictures: Sequence[tuple[str, float, Map]]) -> list[str]:
    """Return the names of pictures."""
    return [name for name, _, _ in pictures]


def badge(name: str, value: str, colour: str) -> str:
    """Draw a badge of two halves, in the manner of those that other sites draw.

    >>> 'aria-label="licence: MIT"' in badge("licence", "MIT", "#2a7d3f")
    True
    """
    left, right = (14 + round(6.4 * len(text)) for text in (name, value))
    halves = ((name, 0, left, "#555"), (value, left, right, colour))
    label = html.escape(f"{name}: {value}")
    drawn = "".join(
        f'<rect x="{x}" width="{width}" height="20" fill="{fill}"/>'
        f'<text x="{x + width / 2:g}" y="14" text-anchor="middle">{html.escape(text)}</text>'
        for text, x, width, fill in halves
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{label}" '
        f'font-family="Verdana,Arial,sans-serif" font-size="11" fill="#fff"><title>{label}</title>{drawn}</svg>\n'
    )


def badges() -> Mapping[str, str]:
    """Return the badges by the name of their file; each says what a file of the repository says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [(every, held)] = re.findall(r"make (\d+) claims.*? (\d+) reproduced", readme, re.DOTALL)
    python = project["requires-python"].removeprefix(">=")
    named = {
        "claims": (f"{held} of {every} reproduced", "#1b6b36"),
        "python": (f"{python} or newer", "#0072B2"),
        "licence": (project["license"], "#0072B2"),
        "network": ("not needed", "#0072B2"),
    }
    return {f"badge-{name}.svg": badge(name, *of) for name, of in named.items()}


if __name__ == "__main__":
    for file, drawing in {"bias-taken-away.svg": animate(), **badges(), **findings.draw()}.items():
        write_atomically(PLACE / file, drawing)
