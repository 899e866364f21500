"""What a report says first: everything unusual about a model in sentences, heads before layers."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from analysis.reporting.comparison import (
    HEADS,
    LAYERS,
    LEAST_NATS,
    Comparison,
    Comparisons,
    Quantity,
    UnusualHead,
    find_most,
    name_sides,
)
from analysis.reporting.measurement import Measurement, SinkKeys
from analysis.reporting.page import Statement
from analysis.reporting.parameters import LINE, halves_apart, late_over_early

NAMED = 3
"""Heads that a sentence names, at most."""
PLAIN = {
    "backward": "previous",
    "forward": "next",
    "open": "itself",
    "directional": "sink",
    "sink with values": "sink",
    "previous on random tokens": "previous",
}
"""Of two measures of nearly the same, the one that says it in plainer words."""
ENOUGH = 0.5
"""The plainer measure is taken where it is ahead of the controls by this share of the other's lead, or more."""
NEARLY = 0.9
"""The share of heads and texts from which a sink is said to be one token."""


def statements(measured: Measurement, comparisons: Comparisons | None) -> list[Statement]:
    """Return everything unusual that is said of a model; nothing where there is nothing to say.

    First what heads do on texts, the furthest beyond the controls first; then what heads of the first layer prefer of
    positions; then layers.
    """
    if comparisons is None:
        return _positions(measured)
    layers = [(name, of) for name, of in comparisons.layers.items() if of.outside.any()]
    layers.sort(key=lambda pair: -(pair[1].beyond / pair[1].least)[pair[1].outside].max())
    layered = (_layers(of, LAYERS[name]) for name, of in layers)
    return [*_heads(measured, comparisons.candidates), *_positions(measured), *layered]


def _said_plainer(candidate: UnusualHead, candidates: Sequence[UnusualHead]) -> bool:
    """Return whether a plainer measure says the same of this head.

    >>> back = UnusualHead(0, 2, "backward", 0.98, 0.0, 700.0)
    >>> before = UnusualHead(0, 2, "previous", 0.96, 0.02, 300.0)
    >>> _said_plainer(back, [back, before]), _said_plainer(before, [back, before])
    (True, False)
    """
    plain = PLAIN.get(candidate.reason)
    return any(
        (of.layer, of.head, of.reason) == (candidate.layer, candidate.head, plain)
        and of.lead >= ENOUGH * candidate.lead
        for of in candidates
    )


def _heads(measured: Measurement, candidates: Sequence[UnusualHead]) -> list[Statement]:
    """Return a sentence for each thing that heads do more of than controls, the furthest ahead first."""
    told = [candidate for candidate in candidates if not _said_plainer(candidate, candidates)]
    said = []
    for reason in dict.fromkeys(candidate.reason for candidate in told):  # in this order, each once
        named = [candidate for candidate in told if candidate.reason == reason][:NAMED]
        places = [(of.layer, of.head) for of in candidates if of.reason == reason]
        names = [f"layer {of.layer}, head {of.head} ({of.value:.2f})" for of in named]
        listed = " and ".join([*filter(None, [", ".join(names[:-1])]), names[-1]])
        which = f" {_name_sink(measured.sinks, places)}" if reason == "sink" and measured.sinks is not None else ""
        said.append(
            Statement(
                HEADS[reason][0].upper() + HEADS[reason][1:],
                f" in {len(places)} of {measured.beside.heads[..., 0].size} heads"
                f"{', among them' if len(places) > len(names) else ':'} {listed}; "
                f"the most in a control is {named[0].control:.2f}.{which}",
            )
        )
    return said


def _name_sink(sinks: SinkKeys, places: Sequence[tuple[int, int]]) -> str:
    """Return which key the sink of some heads is.

    >>> sinks = SinkKeys(np.zeros((2, 1, 1), int), np.full((2, 1, 1), "[CLS]"))
    >>> _name_sink(sinks, [(0, 0)])
    "In all of them, on all 2 texts, this key is '[CLS]', the first token."
    """
    layers, heads = zip(*places, strict=True)
    positions, tokens = sinks.positions[:, layers, heads], sinks.tokens[:, layers, heads]
    [(token, count)] = Counter(tokens.ravel().tolist()).most_common(1)
    everywhere = f"all of them, on all {len(tokens)} texts," if len(tokens) > 1 else "all of them"
    if (positions == 0).mean() >= NEARLY:
        name = f"'{token}', the first token" if count >= NEARLY * tokens.size else "the first token, whatever it is"
        share = (positions == 0).mean()
    elif count >= NEARLY * tokens.size:
        name, share = f"'{token}'", count / tokens.size
    else:
        return f"This key is not always the same token: most often, in {count / tokens.size:.0%}, it is '{token}'."
    where = everywhere if share == 1 else f"{share:.0%} of heads and texts"
    return f"In {where} this key is {name}."


def _positions(measured: Measurement) -> list[Statement]:
    """Return what heads of the first layer prefer of learned positions, more than the same ones out of order."""
    curves = measured.position_curves
    if curves is None or measured.about.get("Positions") != "learned":
        return []
    said, apart, sides = [], halves_apart(curves), late_over_early(curves)
    for word, sign in (("late", 1), ("early", -1)):
        heads = np.flatnonzero((sign * sides > LINE) & (sign * apart > LEAST_NATS))
        if len(heads):
            most = heads[(sign * apart)[heads].argmax()]
            said.append(
                Statement(
                    f"A preference for {word} positions",
                    f" in {len(heads)} of {len(curves)} heads of the first layer, whatever the text is, most in head "
                    f"{most}: {abs(apart[most]):.1f} nats between the halves. With the same positions out of order one "
                    f"would expect {len(curves) * norm.sf(LINE):.1g} such heads.",
                )
            )
    return said


def _layers(comparison: Comparison, quantity: Quantity) -> Statement:
    """Describe where a quantity of the layers lies outside of its controls."""
    subject = quantity.words[0].upper() + quantity.words[1:]
    layer, nearest = find_most(comparison)
    unit = f" {quantity.unit}" if quantity.unit else ""
    return Statement(
        subject,
        f" is {name_sides(comparison)} of {len(comparison.outside)} layers, most in layer {layer}: "
        f"{comparison.trained[layer]:.2f}{unit}; the nearest control has {nearest:.2f}.",
    )
