"""Pictures of maps: the entropy of their entries, and what is blanked or too faint to be drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import spearmanr

from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Result
from book.studies.shared import map_entropies
from book.studies.shared import released_code as code
from book.studies.shared.map_entropies import MapEntropies

Recorded = Record | Result


@dataclass(frozen=True)
class Entropies(Numbers):
    """The code's entropy of ideal gates and of noise, and of the classifier's class means beside the rows' entropy.

    ``value`` and ``row`` are by network, ``(class, layer)``, means over heads; ``value_rises`` and ``row_rises`` their
    rank correlations with depth by class. ``text_value`` and ``text_row`` are of the text model, ``(text, layer)``.
    """

    closed: str
    closed_blanked: str
    faint: str
    faint_blanked: str
    sharpest: str
    most: str
    falling: int
    classes: int
    ideal: Mapping[str, MapEntropies]
    noise: Mapping[float, MapEntropies]
    value: Mapping[str, Float[np.ndarray, "class layer"]]
    row: Mapping[str, Float[np.ndarray, "class layer"]]
    value_rises: Float[np.ndarray, " class"]
    row_rises: Float[np.ndarray, " class"]
    text_value: Float[np.ndarray, "text layer"]
    text_row: Float[np.ndarray, "text layer"]


@dataclass(frozen=True)
class Drawn(Numbers):
    """How much of the attention would be drawn: cells of 0.01 and more, [SEP] and what follows left out.

    ``seen`` is by network, ``(passage, layer)``, mean over heads, of single sequences, ``mean_seen`` and ``empty`` of
    class means ``(class, layer)``; ``words`` counts the words of each class's sequences in the code's cutting.
    """

    even: str
    times_even: str
    classifier_seen: str
    text_seen: str
    empty_share: str
    control_empty: str
    sep: str
    most_sep: str
    fewest_words: int
    most_words: int
    spread_in_a_class: int
    seen: Mapping[str, Float[np.ndarray, "passage layer"]]
    mean_seen: Mapping[str, Float[np.ndarray, "class layer"]]
    empty: Mapping[str, Float[np.ndarray, "class layer"]]
    separator: Float[np.ndarray, "layer head"]
    words: Int[np.ndarray, "class sequence"]


def measure_entropies(minilm: Recorded, classifier: Recorded) -> Entropies:
    """Take the code's entropy where the answer is known, and on the models at hand."""
    ideal, noisy = map_entropies.measure_gates(), map_entropies.measure_noise()
    value, row = (
        {name: classifier.array(f"{name}/mean_{kind}_entropy").mean(2) for name in ("trained", "random")}
        for kind in ("value", "row")
    )
    value_rises, row_rises = (depth_correlations(of["trained"]) for of in (value, row))
    sharp = [ideal[name].whole for name in ("directional", "open", "backward", "instance")]
    return Entropies(
        closed=f"{ideal['closed'].whole:.2f}",
        closed_blanked=f"{ideal['closed'].blanked:.2f}",
        faint=f"{noisy[0.01].whole:.2f}",
        faint_blanked=f"{noisy[0.01].blanked:.2f}",
        sharpest=f"{min(sharp):.4f} to {max(sharp):.3f}",
        most=f"{np.log(code.BINS):.2f}",
        falling=int((value_rises < 0).sum()),
        classes=len(value_rises),
        ideal=ideal,
        noise=noisy,
        value=value,
        row=row,
        value_rises=value_rises,
        row_rises=row_rises,
        text_value=minilm.array("trained/value_entropy").mean(2),
        text_row=minilm.array("trained/row_entropy").mean(2),
    )


def depth_correlations(values: Float[np.ndarray, "class layer"]) -> Float[np.ndarray, " class"]:
    """Return the rank correlation of every row with depth."""
    return np.array([spearmanr(range(len(row)), row).statistic for row in values])


def measure_drawn(minilm: Recorded, classifier: Recorded) -> Drawn:
    """Say how much of the attention the code's pictures would show."""
    seen = {
        "text model": minilm.array("trained/seen").mean(2),
        "classifier": classifier.array("trained/seen").mean(2),
        "classifier, random": classifier.array("random/seen").mean(2),
    }
    mean_seen, empty = (
        {name: classifier.array(f"{name}/mean_{kind}").mean(2) for name in ("trained", "random")}
        for kind in ("seen", "empty")
    )
    separator, words = minilm.array("trained/last").mean(0), classifier.array("words")
    even = 1 / code.TOKENS
    return Drawn(
        even=f"{even:.4f}",
        times_even=f"{code.HIDDEN_BELOW / even:.1f}",
        classifier_seen=percent(mean_seen["trained"].mean(), 1),
        text_seen=percent(seen["text model"].mean()),
        empty_share=percent(empty["trained"].mean()),
        control_empty=percent(empty["random"].mean()),
        sep=percent(separator.mean(), 1),
        most_sep=percent(separator.max()),
        fewest_words=int(words.min()),
        most_words=int(words.max()),
        spread_in_a_class=int(np.ptp(words, 1).max()),
        seen=seen,
        mean_seen=mean_seen,
        empty=empty,
        separator=separator,
        words=words,
    )
