"""The sections of a report: of each measurement its figure, what is seen in it, and where the book explains it."""

from collections.abc import Callable

import numpy as np

from analysis.maps.gates import GATES, PATTERNS
from analysis.plotting.ladder import Ladder
from analysis.reporting import figures
from analysis.reporting.controls import ladder_of
from analysis.reporting.measurement import Measurement
from analysis.reporting.notable import WORDS, measures, notable_heads
from analysis.reporting.observations import OF_HEADS, OF_STATES, Observations
from analysis.reporting.origin_sections import make_parts, make_positions
from analysis.reporting.page import Section
from analysis.reporting.parameters import BIASES

NAMES = dict(zip(BIASES, ("queries", "keys", "values"), strict=True))


def make_sections(measured: Measurement) -> list[Section]:
    """Return all sections for which there is something to show, in their order."""
    makers = [_about, _biases, make_positions]
    if measured.trained is not None:
        makers += [make_parts, _gates, _sinks, _entropy, _rows, _heads]
    else:
        makers.append(_not_run)
    return [section for make in makers if (section := make(measured)) is not None]


def _about(measured: Measurement) -> Section:
    return Section(
        "What it is",
        "What the configuration and the files say, with the digest of each file.",
        rows=[{"what": name, "value": value} for name, value in measured.about.items()],
        chapters={"what-it-reads": "What it reads"},
    )


def _not_run(measured: Measurement) -> Section:
    return Section(
        "What it does on texts",
        f"The model was not run: {measured.not_run}.",
        chapters={"reproduce": "Running it yourself"},
    )


def _ratios(measured: Measurement, name: str) -> np.ndarray:
    """Return a quantity of the biases over what it is compared with, ``(layer, bias)``: the mean over heads."""
    return np.stack([(getattr(layer, name) / layer.sizes).mean(-1) for layer in measured.parameters])


def _biases(measured: Measurement) -> Section:
    own, effective = _ratios(measured, "biases"), _ratios(measured, "effective")
    chapters = {
        "semi-bias": "The bias that does not cancel",
        "notation": "What is in one score",
        "patterns-and-messages#prop-gauge": "Gauge freedom: only products of factors are the head's",
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


def _ladder(measured: Measurement, read: Callable[[Observations], np.ndarray]) -> Ladder:
    return Ladder(read(measured.trained), ladder_of(measured.controls, read))


def _beside(measured: Measurement, ladder: Ladder, word: str) -> str:
    """Say in how many layers the network lies outside of what all controls span."""
    if not ladder.controls:
        return ""
    rows = np.concatenate(list(ladder.controls.values()))
    outside = (ladder.trained > rows.max(0)) | (ladder.trained < rows.min(0))
    return f" {word} lies outside of what the controls span in {outside.sum()} of {len(outside)} layers."


def _gates(measured: Measurement) -> Section:
    scores = measured.trained.mean("gates")
    largest = np.bincount(scores[..., : len(PATTERNS)].argmax(-1).ravel(), minlength=len(PATTERNS))
    patterned = _ladder(measured, lambda o: o.mean("gates")[..., : len(PATTERNS)].sum(-1).mean(-1))
    most = int(largest.argmax())
    return Section(
        "Gates",
        f"Patterns carry {patterned.trained.mean():.0%} of the attention; most heads "
        f"({largest[most]} of {largest.sum()}) have '{PATTERNS[most]}' for their largest one."
        + _beside(measured, patterned, "What patterns carry"),
        figures.largest_gates(scores, GATES),
        "A grid of layers and heads, coloured by gate.",
        "What carries most of each head's attention: a gate, or what is left (closed cells, the residual).",
        [
            {"gate": name, "share of the attention": f"{share:.3f}"}
            for name, share in zip(GATES, scores.mean((0, 1)), strict=True)
        ],
        {"bert-gates": "Gates: the patterns of attention maps"},
    )


def _sinks(measured: Measurement) -> Section:
    weight, moved = (
        _ladder(measured, lambda o, name=name: o.mean("heads")[..., OF_HEADS.index(name)].mean(-1))
        for name in ("sink", "sink with values")
    )
    layer = int(weight.trained.argmax())
    return Section(
        "Sinks",
        f"The key that gets most has {weight.trained[layer]:.0%} of the weight in layer {layer}, and "
        f"{moved.trained[layer]:.0%} once each weight is multiplied by the length of its value."
        + _beside(measured, moved, "The share with values"),
        figures.against_controls({"weight": weight, "weight times value": moved}, ["share of one key"] * 2),
        "Two panels over the layers: the trained model and its controls.",
        "Share of the key that gets most, mean over heads and texts: of the weights, and of the weights times the "
        "lengths of the values, which is what reaches the stream.",
        chapters={"bert-gates": "Gates", "semi-bias": "The bias that does not cancel"},
    )


def _entropy(measured: Measurement) -> Section:
    entropy = _ladder(measured, lambda o: o.mean("heads")[..., 0].mean(-1))
    return Section(
        "Entropy",
        f"A row's entropy is between {entropy.trained.min():.0%} and {entropy.trained.max():.0%} of that of "
        "uniform attention, by layer." + _beside(measured, entropy, "It"),
        figures.against_controls({"entropy of the rows": entropy}, ["share of uniform"]),
        "Lines over the layers: the trained model and its controls.",
        "Mean entropy of a row over that of uniform attention on the keys that it sees.",
        chapters={"bert-normality": "Normality, cone index, entropy"},
    )


def _rows(measured: Measurement) -> Section:
    names = dict(
        zip(
            OF_STATES,
            ("mean cosine of two rows", "rows that are not normal", "effective rank", "distance from one row"),
            strict=True,
        )
    )
    panels = {name: _ladder(measured, lambda o, i=i: o.mean("states")[:, i]) for i, name in enumerate(names.values())}
    cosine, normal = (panels[name].trained for name in list(panels)[:2])
    return Section(
        "Rows of the stream",
        f"The mean cosine of two rows goes from {cosine[0]:.2f} to {cosine[-1]:.2f}; a test at "
        f"5 % finds {normal.min():.0%} to {normal.max():.0%} of the rows not to be normal."
        + _beside(measured, panels[names["cosine"]], "The cosine"),
        figures.against_controls(
            panels, ["cosine", "share", "share of the largest", "share of the length"], "layer that reads them"
        ),
        "Four panels over the layers: the trained model and its controls.",
        "What each layer reads, and last what leaves the model, mean over texts.",
        chapters={"bert-normality": "Normality, cone index, entropy", "bert-rank": "Rank collapse and LayerNorm"},
    )


def _heads(measured: Measurement) -> Section | None:
    controls = [measures(observed) for rung in measured.controls.values() for observed in rung]
    heads = notable_heads(measures(measured.trained), controls)
    if not heads:
        return Section("Heads worth a look", "No head does clearly more of any pattern than the controls do.")
    drawn = None
    if measured.maps is not None:
        drawn = figures.small_maps(
            [measured.maps[h.layer, h.head] for h in heads], [f"layer {h.layer}, head {h.head}" for h in heads]
        )
    first = heads[0]
    return Section(
        "Heads worth a look",
        f"Head {first.head} of layer {first.layer} stands out most: {WORDS[first.reason]} {first.value:.2f}, where no "
        f"head of a control has more than {first.control:.2f}.",
        drawn,
        "Small attention maps, one for each head in the table.",
        f"Maps of one text of {len(measured.tokens)} tokens, queries down, keys across; each from 0 to its largest "
        "weight.",
        [
            {
                "layer": str(h.layer),
                "head": str(h.head),
                "what it does": WORDS[h.reason],
                "how much": f"{h.value:.3f}",
                "most in a control": f"{h.control:.3f}",
            }
            for h in heads
        ],
        {"bert-gates": "Gates", "induction-head": "The induction head, by hand"},
    )
