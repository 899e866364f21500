"""Two models on one page: what the second has and none of its own controls, and every head of both on one scale.

A difference between two models has no spread of its own, so that nothing here says that one is beyond chance. That is
said of each model against its controls.
"""

import numpy as np

from analysis.reporting import figures
from analysis.reporting.comparison import HEADS, compare, measure_heads
from analysis.reporting.measurement import Measurement
from analysis.reporting.page import Section
from analysis.reporting.summary import statements

SAID = 6
"""Statements about the second model, at most: the first has the page."""
CHANGED = 10
"""Heads of two models of one shape that are listed, at most: those that differ most."""


def make_side_by_side(measured: Measurement, other: Measurement) -> Section:
    """Return the section that shows a model (A) and another (B) beside each other."""
    names = {"A": measured.about["Model"], "B": other.about["Model"]}
    title = "Side by side"
    called = "A is {A}; B is {B}.".format(**names)
    for letter, of in (("A", measured), ("B", other)):
        if of.beside is None:
            return Section(title, f"{called} {letter} was not run: {of.not_run}.")
    own, theirs = measure_heads(measured.beside), measure_heads(other.beside)
    shown = {"sharpness": "sharp rows", "sink": "weight on one key"}
    shown |= {"induction": "induction"} if measured.causal and other.causal else {}
    digests = [{value for name, value in of.about.items() if name.startswith("sha256")} for of in (measured, other)]
    same = digests[0] == digests[1]
    files = "Their files are the same." if same else "Both read the same texts, each with its own tokenizer."
    panels = {f"{words}: {x}": of[name] for name, words in shown.items() for x, of in zip("AB", (own, theirs))}
    compared = compare(other)
    unusual = statements(other, compared)[:SAID] if compared else ["It was not compared with its controls."]
    return Section(
        title,
        f"{called} {files} What B does and none of its own controls:",
        figures.by_head(panels),
        "Heat maps of layers and heads, those of the first model on the left, those of the second on the right.",
        "A cell is a head; all from 0 to 1, means over the texts that the controls read.",
        _changes(own, theirs) or _middles(own, theirs, shown),
        said=unusual or ["Nothing."],
    )


def _changes(own: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> list[dict[str, str]]:
    """Return the heads that differ most, each once, where the two models have the same layers and heads."""
    if own["sink"].shape != theirs["sink"].shape:
        return []
    names = list(own)
    gaps = np.stack([np.abs(theirs[name] - own[name]) for name in names])
    which, most = gaps.argmax(0), gaps.max(0)
    places = [np.unravel_index(i, most.shape) for i in np.argsort(-most, axis=None, kind="stable")[:CHANGED]]
    return [
        {
            "layer": str(layer),
            "head": str(head),
            "differs most in": HEADS[names[which[layer, head]]],
            "A": f"{own[names[which[layer, head]]][layer, head]:.3f}",
            "B": f"{theirs[names[which[layer, head]]][layer, head]:.3f}",
        }
        for layer, head in places
        if most[layer, head] > 0
    ]


def _middles(own: dict[str, np.ndarray], theirs: dict[str, np.ndarray], shown: dict[str, str]) -> list[dict[str, str]]:
    """Return the median and the largest head of two models whose heads do not correspond."""
    return [
        {"over the heads": f"{statistic} of {words}"}
        | {letter: f"{take(of[name]):.3f}" for letter, of in zip("AB", (own, theirs), strict=True)}
        for name, words in shown.items()
        for statistic, take in (("median", np.median), ("most", np.max))
    ]
