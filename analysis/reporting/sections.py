"""The sections of a report: of each measurement its figure, what is seen in it, and where the book explains it."""

import numpy as np

from analysis.maps.gates import GATES, PATTERNS
from analysis.plotting.ladder import Ladder
from analysis.reporting import figures
from analysis.reporting.comparison import (
    FEWEST,
    HEADS,
    LAYERS,
    LEVEL,
    OF_ONE_KIND,
    Comparisons,
    compare,
    ladder_of,
    measure_heads,
    say_layers,
)
from analysis.reporting.measurement import Measurement
from analysis.reporting.origin_sections import make_parts, make_positions
from analysis.reporting.page import Section
from analysis.reporting.parameters import BIASES
from analysis.reporting.side_by_side import make_side_by_side
from analysis.reporting.summary import statements

NAMES = dict(zip(BIASES, ("queries", "keys", "values"), strict=True))
SUMMARY = 12
"""Statements of the first screen, at most; the rest stands in the sections."""
PATTERNED = 0.1
"""The least share of a head's attention by which a gate is called its largest: less is nobody's pattern."""
SINK = 0.3
"""The mean weight of one key from which a head is said to have a sink, as in Gu et al. 2024."""


def make_sections(measured: Measurement, other: Measurement | None = None) -> list[Section]:
    """Return all sections for which there is something to show, in their order; another model comes second."""
    comparisons = compare(measured)
    sections = [_unusual(measured, comparisons)]
    if other is not None:
        sections.append(make_side_by_side(measured, other))
    if measured.trained is not None:
        makers = [_heads, _sinks, _gates, _maps_of_heads, _entropy, _rows]
        sections += [make(measured, comparisons) for make in makers]
        sections.append(make_parts(measured))
    about, provenance = (
        [{"what": name, "value": value} for name, value in told.items()]
        for told in (measured.about, measured.provenance)
    )
    said = "What the configuration and the files say, with the digest of each file."
    exact = {"exact": "Exact, and how one knows"}
    sections += [make_positions(measured), _biases(measured), Section("What it is", said, rows=about, chapters=exact)]
    if provenance:
        said = "What repeats this page. The same stands in report.json."
        sections.append(Section("How it was measured", said, rows=provenance))
    return [section for section in sections if section is not None]


def _unusual(measured: Measurement, comparisons: Comparisons | None) -> Section:
    """Return the first screen: what the model has and none of its controls."""
    title, given = "What is unusual about this model?", measured.sounds and f" {measured.sounds}"
    if measured.trained is None:
        seen = f"The model was not run: {measured.not_run}. Below is what its weights alone say."
        return Section(title, seen, chapters={"reproduce": "Running it yourself"}, said=statements(measured, None))
    if comparisons is None:
        return Section(
            title,
            f"It was not compared with its controls: the spread between seeds takes {FEWEST} seeds or more.{given}",
        )
    said = statements(measured, comparisons)
    if not said:
        seen = (
            f"Nothing. In {comparisons.count} comparisons the model never lies further from its controls than chance "
            f"and a least effect allow. A model that was never trained reads like this.{given}"
        )
        return Section(title, seen)
    more = f" Here are {SUMMARY} of {len(said)}; the others stand below." if len(said) > SUMMARY else ""
    count = sum(map(len, measured.controls.values()))
    seen = (
        f"What none of its controls does: {count} networks of the same shape, with random weights or with the trained "
        f"ones out of order. Heads come first, then layers; 0 is nothing and 1 is all. In {comparisons.count} "
        f"comparisons chance would give {LEVEL:g} such sentences.{more}{given}"
    )
    return Section(title, seen, said=said[:SUMMARY])


def _ratios(measured: Measurement, name: str) -> np.ndarray:
    """Return a quantity of the biases over what it is compared with, ``(layer, bias)``: the mean over heads.

    A head whose matrix is 0, as one that was pruned, has nothing to compare with and is left out.
    """
    ratios = []
    for layer in measured.parameters:
        there = layer.sizes > 0
        each = np.divide(getattr(layer, name), layer.sizes, out=np.zeros_like(layer.sizes), where=there)
        ratios.append(each.sum(-1) / there.sum(-1).clip(min=1))
    return np.stack(ratios)


def _biases(measured: Measurement) -> Section:
    own, effective = _ratios(measured, "biases"), _ratios(measured, "effective")
    chapters = {
        "evidence/semi-bias": "The bias that does not cancel",
        "notation": "What is in one score",
        "evidence/patterns-and-messages#prop-gauge": "Gauge freedom: only products of factors are the head's",
    }
    if not effective.any():
        return Section(
            "Biases",
            "Neither the projections nor the norm before them have a bias: counted from 0, every "
            "score is content alone, and so is every value.",
            chapters=chapters,
        )
    layer, bias = np.unravel_index(effective.argmax(), effective.shape)
    seen = (
        f"The largest effective bias, that of the {NAMES[BIASES[bias]]} in layer {layer}, is "
        f"{effective[layer, bias]:.2f} times as long as what a typical row adds to it."
    )
    if not np.isclose(own[layer, bias], effective[layer, bias]):
        seen += f" Without the bias of the norm before the layer it is {own[layer, bias]:.2f} times as long."
    curves = {f"{NAMES[name]}": own[:, i] for i, name in enumerate(BIASES)}
    curves |= {
        f"{NAMES[name]}, effective": effective[:, i]
        for i, name in enumerate(BIASES)
        if not np.allclose(own[:, i], effective[:, i])
    }
    rows = [
        {
            "layer": str(i),
            "spread of the key semi-bias, mean over heads (nats)": f"{layer.spread[0].mean():.3f}",
            "with the bias of the norm (nats)": f"{layer.spread[1].mean():.3f}",
        }
        for i, layer in enumerate(measured.parameters)
        if layer.spread is not None
    ]
    return Section(
        "Biases",
        seen,
        figures.over_layers(curves, "bias / typical row, by length"),
        "Lines over the layers, one for each bias.",
        "Length of each bias over the root mean square length that a row of independent coordinates has "
        "after the same matrix, mean over heads. Effective: with the bias of the norm before the layer. "
        "Such a length depends on how the product of two matrices is divided between them: a model with the "
        "same attention can have other lengths."
        + (
            " What does not depend on it, the spread of the key semi-bias over such rows, is in the table."
            if rows
            else ""
        ),
        rows,
        chapters,
    )


def _say(comparisons: Comparisons | None, *names: str) -> str:
    """Say of each quantity where it lies outside of its controls; nothing where nothing was compared."""
    if comparisons is None:
        return ""
    return " ".join(say_layers(comparisons.layers[name], LAYERS[name]) for name in names if name in comparisons.layers)


def _ladder(measured: Measurement, name: str) -> Ladder:
    return Ladder(LAYERS[name].read(measured.beside), ladder_of(measured.controls, LAYERS[name].read))


def _gates(measured: Measurement, comparisons: Comparisons | None) -> Section:
    scores = measured.trained.mean("gates")
    patterns = scores[..., : len(PATTERNS)]
    patterned, chapters = (
        patterns.max(-1) >= PATTERNED,
        {"evidence/bert-gates": "Gates: the patterns of attention maps"},
    )
    if not patterned.any():
        return Section(
            "Gates", f"No gate carries {PATTERNED:.0%} or more of the attention of any head.", chapters=chapters
        )
    largest = np.bincount(patterns.argmax(-1)[patterned], minlength=len(PATTERNS))
    named = ", ".join(f"'{PATTERNS[i]}' in {largest[i]}" for i in np.argsort(-largest, kind="stable") if largest[i])
    return Section(
        "Gates",
        f"{_say(comparisons, 'gates')} A gate carries {PATTERNED:.0%} or more in {patterned.sum()} of {patterned.size} "
        f"heads, of which the largest is {named}.",
        figures.largest_gates(np.where(patterned[..., None], scores, np.eye(len(GATES))[-1]), GATES),
        "A grid of layers and heads, coloured by gate.",
        f"What carries most of each head's attention: a gate, if one carries {PATTERNED:.0%}, or what is left (closed "
        "cells, the residual).",
        [
            {"gate": name, "share of the attention": f"{share:.3f}"}
            for name, share in zip(GATES, scores.mean((0, 1)), strict=True)
        ],
        chapters,
    )


def _sinks(measured: Measurement, comparisons: Comparisons | None) -> Section:
    return Section(
        "Sinks",
        f"{_say(comparisons, 'sink', 'sink with values')} {_name_sinks(measured)}",
        figures.against_controls(
            {"weight": _ladder(measured, "sink"), "weight times value": _ladder(measured, "sink with values")},
            ["share of one key"] * 2,
        ),
        "Two panels over the layers: the trained model and its controls.",
        "Share of the key that gets most, mean over heads and texts: of the weights, and of the weights times the "
        "lengths of the values, which is what reaches the stream.",
        chapters={"evidence/bert-gates": "Gates", "evidence/semi-bias": "The bias that does not cancel"},
    )


def _name_sinks(measured: Measurement) -> str:
    """Return which tokens of the text that is drawn are sinks."""
    if measured.maps is None:
        return ""
    received = measured.maps.mean(-2)
    has_sink = received.max(-1) >= SINK
    if not has_sink.any():
        return f"On the text of the maps no key gets {SINK:.0%} of a head's weight."
    places = np.bincount(received.argmax(-1)[has_sink], minlength=len(measured.tokens))
    named = ", ".join(
        f"'{measured.tokens[i]}' at position {i} in {places[i]} heads"
        for i in np.argsort(-places, kind="stable")[:5]
        if places[i]
    )
    return (
        f"On the text of the maps one key gets {SINK:.0%} or more of the weight in {has_sink.sum()} of {has_sink.size} "
        f"heads: {named}."
    )


def _entropy(measured: Measurement, comparisons: Comparisons | None) -> Section:
    entropy = _ladder(measured, "entropy")
    return Section(
        "Entropy",
        _say(comparisons, "entropy") or "The entropy of the rows by layer.",
        figures.against_controls({"entropy of the rows": entropy}, ["share of uniform"]),
        "Lines over the layers: the trained model and its controls.",
        "Mean entropy of a row over that of uniform attention on the keys that it sees.",
        chapters={"evidence/entropy": "Entropy of heads"},
    )


def _rows(measured: Measurement, comparisons: Comparisons | None) -> Section:
    titles = {
        "cosine": "mean cosine of two rows",
        "not normal": "rows that are not normal",
        "rank": "effective rank",
        "residual": "distance from one row",
    }
    return Section(
        "Rows of the stream",
        _say(comparisons, *titles) or "The rows between the layers.",
        figures.against_controls(
            {title: _ladder(measured, name) for name, title in titles.items()},
            ["cosine", "share", "share of the largest", "share of the length"],
            "layer that reads them",
        ),
        "Four panels over the layers: the trained model and its controls.",
        "What each layer reads, and last what leaves the model, mean over texts.",
        chapters={
            "evidence/cone": "Cone index and singular values",
            "evidence/bert-normality": "Gaussian rows and sums",
            "evidence/bert-rank": "Rank collapse and LayerNorm",
        },
    )


def _maps_of_heads(measured: Measurement, _comparisons: Comparisons | None) -> Section:
    numbers = measure_heads(measured.beside)
    shown = {
        "entropy, share of uniform": 1 - numbers["sharpness"],
        "weight on one key": numbers["sink"],
        "attention to the position before": numbers["previous"],
    }
    if measured.causal:
        shown |= {
            "induction": numbers["induction"],
            "same token's earlier place": numbers["duplicate"],
            "position before, random tokens": numbers["previous on random tokens"],
        }
    return Section(
        "Every head",
        "Each head's numbers, on the texts that the controls read as well; heads.csv has all of them.",
        figures.by_head(shown),
        "Heat maps of layers and heads, one for each measure.",
        "A cell is a head; all from 0 to 1."
        + (
            " The last three are read on random tokens that stand twice: mean attention of the second reading to what "
            "followed the same token (induction, Olsson et al. 2022), to that token (duplicate token, Wang et al. "
            "2023), and to the position before (previous token, Elhage et al. 2021)."
            if measured.causal
            else ""
        ),
    )


def _heads(measured: Measurement, comparisons: Comparisons | None) -> Section | None:
    if comparisons is None:
        return None
    heads = comparisons.shown
    if not heads:
        return Section("Heads worth a look", "No head does more of any pattern than the controls do, beyond chance.")
    unusual = len({(candidate.layer, candidate.head) for candidate in comparisons.candidates})
    drawn = None
    if measured.maps is not None:
        drawn = figures.small_maps(
            [measured.maps[h.layer, h.head] for h in heads],
            [f"layer {h.layer}, head {h.head}" for h in heads],
            measured.tokens,
        )
    return Section(
        "Heads worth a look",
        f"{unusual} heads do more of something than the controls do"
        + (f". Here are {len(heads)}, at most {OF_ONE_KIND} for one reason." if len(heads) < unusual else "."),
        drawn,
        "Attention maps with their tokens, one for each head in the table.",
        "Maps of one text, queries down, keys across; each from 0 to its largest weight.",
        [
            {
                "layer": str(h.layer),
                "head": str(h.head),
                "what it does": HEADS[h.reason],
                "how much": f"{h.value:.3f}",
                "most in a control": f"{h.control:.3f}",
                "spreads": f"{h.spreads:.0f}",
            }
            for h in heads
        ],
        {"evidence/bert-gates": "Gates", "evidence/induction-head": "The induction head, by hand"},
        measured.viewer,
    )
