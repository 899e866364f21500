"""The arcs between the words of a sentence: where one word looks in one head of SmolLM2, by the record of it."""

import json
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from analysis.plotting import style
from book.publish.records import Record

START = {"sentence": 1, "head": 0, "word": 14, "to": 4}
"""What the viewer shows at first; places are counted from 0."""


def row(record: Record, sentence: int, head: int, word: int) -> tuple[list[str], np.ndarray]:
    """Return the words of a sentence, and what one of them gives to those up to itself."""
    sentences = json.loads(record["sentences"])
    start = sum(len(words) * (len(words) + 1) // 2 for words in sentences[:sentence]) + word * (word + 1) // 2
    return sentences[sentence], record.array("attention")[head, start : start + word + 1] / 1e4


@style.in_style
def draw(record: Record) -> Figure:
    """Draw the arcs of the first state; a line is as wide as the attention."""
    words, shares = row(record, START["sentence"], START["head"], START["word"])
    figure, [[panel]] = style.panels(None, 1, 1, size="strip")
    places = np.cumsum([0, *(0.5 * (len(a) + len(b)) + 1.2 for a, b in pairwise(words))])
    for word, place in zip(words, places, strict=True):
        panel.text(place, 0, word, ha="center", va="top")
    for to, share in enumerate(shares[:-1]):
        if share >= 0.01:
            ends = (places[START["word"]], 0.1), (places[to], 0.1)
            colour = style.COLOURS["highlight" if to == START["to"] else "muted"]
            panel.add_patch(
                FancyArrowPatch(*ends, connectionstyle="arc3,rad=0.35", arrowstyle="-", lw=1 + 9 * share, color=colour)
            )
    panel.set(xlim=(-4, places[-1] + 4), ylim=(-1, 7))
    panel.set_axis_off()
    return figure
