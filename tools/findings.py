"""The figures of README's three findings: a message each, computed, as SVG that reads on a phone and on dark paper.

What belongs here: how they are drawn, and from what. What does not: the animation and the badges
(:mod:`tools.first_screen`, which writes all of them).
"""

import html
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.colors import to_hex

from analysis import apply_norm, compute_scores, distance_kernel, find, load, mask_future, passages, project, semi_bias
from analysis.models import pretrained
from analysis.plotting import style
from book.lab.ablation import WAYS
from book.publish import experiments

WIDTH, MARGIN = 480, 16
"""Of a drawing, in pixels where a page is wide; on a phone it is a little narrower, and its letters still read."""
SAID = dict(zip(WAYS, ("deleted", "as much deleted at random", "handed to the other words")))
"""What is done with the sink's weight, in README's words."""
BLOCKS = 32
"""Of positions, each drawn by its mean."""
LENGTH, LAYER, HEAD, SHOWN = 96, 1, 5, 24
"""Tokens of a text that neox-mini reads; the head, and how many positions of its maps are drawn."""
BRIGHTEST = 0.8
"""The weight that has the brightest colour."""


def preferences() -> Float[np.ndarray, "head position"]:
    """Return what each head of GPT-2's first layer adds to a key's score for its position, around the head's mean."""
    model = load("gpt2-first-layer")
    layer = model.layers[0]
    with torch.no_grad():
        preferred = semi_bias(apply_norm(model.positions, layer.norm("input")), layer).double().numpy()
    return preferred - preferred.mean(-1, keepdims=True)


def without_sink() -> dict[str, float]:
    """Return how far the vector of a text turns (1 - cosine), mean over documents, by what is done with the sink."""
    effects = experiments.load("bert-gates-removal").array("sink").astype(float).mean(0)
    return {SAID[way]: float(effect) for way, effect in zip(WAYS, effects, strict=True) if way in SAID}


def previous_token_maps() -> dict[str, Float[np.ndarray, "query key"]]:
    """Return three maps of a head of neox-mini, each the mean over texts.

    As trained; of the two vectors alone, which are the mean query and the mean key, turned by their positions; and of
    what is left of the scores without these two.
    """
    files, model = find("neox-mini"), load("neox-mini")
    texts = pretrained.tokenizer(files)(passages(), truncation=True, max_length=LENGTH).input_ids
    ids = torch.tensor([text for text in texts if len(text) == LENGTH])
    layer, place = model.layers[LAYER], torch.arange(LENGTH)
    with torch.no_grad():
        stream = pretrained.load(files)(ids, output_hidden_states=True).hidden_states[LAYER]
        x = apply_norm(stream, model.norm("attention", LAYER))
        query, key = project(x, layer.W_Q, layer.b_Q), project(x, layer.W_K, layer.b_K)
        kernel = distance_kernel(query.mean((0, 2)), key.mean((0, 2)), layer.positions)
        back = (place[:, None] - place).flatten().float()
        alone, scores = kernel.at(back)[HEAD].view(LENGTH, LENGTH), compute_scores(x, layer)[:, HEAD]
        each = {"as trained": scores, "these two alone": alone[None], "without them": scores - alone}
        return {name: mask_future(of).softmax(-1).mean(0).double().numpy() for name, of in each.items()}


def one_step_back(of: Float[np.ndarray, "query key"]) -> float:
    """Return the mean weight that a position gives to the one before.

    >>> one_step_back(np.array([[1.0, 0.0], [0.75, 0.25]]))
    0.75
    """
    return float(np.diagonal(of, -1).mean())


def card(title: Sequence[str], description: str, height: int, drawn: str) -> str:
    """Return a drawing on white paper of its own, under a title of one or more lines."""
    lines = "".join(
        f'<text x="{MARGIN}" y="{30 + 23 * i}" font-size="18" font-weight="bold">{html.escape(line)}</text>'
        for i, line in enumerate(title)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title desc" font-family="Helvetica,Arial,sans-serif" fill="#222">'
        f'<title id="title">{html.escape(" ".join(title))}</title><desc id="desc">{html.escape(description)}</desc>'
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>{lines}{drawn}</svg>\n'
    )


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 15) -> str:
    """Return words at a place.

    >>> text(1, 2, "a < b")
    '<text x="1" y="2" font-size="15">a &lt; b</text>'
    """
    kind = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{kind}>{html.escape(words)}</text>'


def cells(colours: Mapping[tuple[int, int], str], left: float, top: float, wide: float, high: float) -> str:
    """Return a rectangle for each (row, column), those of one colour as one path."""
    return "".join(
        f'<path shape-rendering="crispEdges" fill="{fill}" d="'
        + "".join(
            f"M{left + wide * column:g} {top + high * row:g}h{wide:g}v{high:g}h-{wide:g}z"
            for (row, column), colour in colours.items()
            if colour == fill
        )
        + '"/>'
        for fill in sorted(set(colours.values()))
    )


def draw_preferences() -> str:
    """Draw the heads of GPT-2's first layer by blocks of positions."""
    preferred = preferences()
    heads, late = len(preferred), int((rises(preferred) > 0).sum())
    blocks = preferred.reshape(heads, BLOCKS, -1).mean(-1)
    scale = style.centred(blocks, float(np.quantile(np.abs(blocks), 0.9)))
    levels = np.round(np.asarray(scale(blocks)) * 32) / 32
    colours = {at: to_hex(matplotlib.colormaps[style.SCORE_CMAP](level)) for at, level in np.ndenumerate(levels)}
    left, top, wide, high = 72, 72, 12, 14
    bottom, right = top + high * heads, left + wide * BLOCKS
    drawn = (
        cells(colours, left, top, wide, high)
        + text(left - 8, top + 12, "head 0", "end")
        + text(left - 8, bottom - 2, str(heads - 1), "end")
        + text(left, bottom + 20, "first word")
        + text(right, bottom + 20, f"word {preferred.shape[-1]:,}", "end")
        + text(left, bottom + 44, "green: preferred, whatever the query; purple: not")
    )
    described = (
        f"Heat map of {heads} heads by {preferred.shape[-1]} positions. In {late} heads the colour goes from purple at "
        "the left to green at the right."
    )
    title = (f"In a long text {late} of {heads} heads of GPT-2's", "first layer prefer late words to early ones")
    return card(title, described, bottom + 60, drawn)


def rises(preferred: Float[np.ndarray, "head position"]) -> Float[np.ndarray, " head"]:
    """Return by how much each head prefers the second half of the positions to the first.

    >>> rises(np.array([[0.0, 0.0, 1.0, 3.0]]))
    array([2.])
    """
    half = preferred.shape[-1] // 2
    return preferred[:, half:].mean(-1) - preferred[:, :half].mean(-1)


def draw_without_sink() -> str:
    """Draw a bar for each thing that is done with the weight of MiniLM's sink."""
    effects, top, longest = without_sink(), 104, 360
    most = max(effects.values())
    drawn = text(MARGIN, 84, "How far its vector turns if the weight of the sink is")
    for row, (words, effect) in enumerate(effects.items()):
        y = top + 54 * row
        colour = style.COLOURS["control" if "random" in words else "trained"]
        drawn += (
            text(MARGIN, y + 14, words)
            + f'<rect x="{MARGIN}" y="{y + 20}" width="{longest * effect / most:.1f}" height="18" fill="{colour}"/>'
            + text(MARGIN + longest * effect / most + 8, y + 34, f"{effect:.3f}")
        )
    height = top + 54 * len(effects) + 26
    drawn += text(MARGIN, height - 12, "1 − cosine, mean over 24 texts; MiniLM, whose sink is [CLS]", size=14)
    described = "; ".join(f"{words}: {effect:.3f}" for words, effect in effects.items())
    title = ("Without its sink a sentence hardly changes;", "hand the sink's weight on, and it does")
    return card(title, f"Bars of how far the vector of a sentence turns. {described}.", height, drawn)


def draw_previous_token() -> str:
    """Draw the three maps of a head that looks at the token before."""
    maps, cell, top = previous_token_maps(), 6, 90
    side, gap = cell * SHOWN, 8
    drawn = ""
    for i, (name, of) in enumerate(maps.items()):
        left = MARGIN + i * (side + gap)
        levels = np.round(np.sqrt(np.minimum(of[:SHOWN, :SHOWN] / BRIGHTEST, 1)) * 24) / 24
        seen = ((q, k) for q in range(SHOWN) for k in range(q + 1))
        colours = {at: to_hex(matplotlib.colormaps[style.WEIGHT_CMAP](levels[at])) for at in seen}
        drawn += (
            text(left, top - 10, name)
            + cells(colours, left, top, cell, cell)
            + text(left, top + side + 24, f"{one_step_back(of):.0%}", size=20)
        )
    described = ", ".join(f"{name}, {one_step_back(of):.0%}" for name, of in maps.items())
    title = ("Two constant vectors make this head", "look one word back")
    drawn += text(
        MARGIN, top + side + 48, f"of a word's attention goes to the word before, over {LENGTH} words", size=14
    )
    return card(
        title,
        f"Three maps of a head of neox-mini, and the weight on the word before: {described}.",
        top + side + 62,
        drawn,
    )


def draw() -> dict[str, str]:
    """Return the figures by the names of their files."""
    return {
        "finding-late-words.svg": draw_preferences(),
        "finding-sink.svg": draw_without_sink(),
        "finding-two-vectors.svg": draw_previous_token(),
    }
