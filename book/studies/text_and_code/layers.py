"""The paper's text beside its code: heads, layers, and pictures of maps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.stats import spearmanr

from analysis.models.controls import RUNGS
from book.lab.mathematics import stretching
from book.publish import Numbers
from book.publish.phrases import enumerated, first_to_last, percent
from book.publish.records import Record, Result
from book.studies.shared import released_code
from book.studies.shared import released_code as code
from book.studies.shared.released_code import MapEntropies, Slices, compare_slices, correlate_outputs
from book.studies.text_and_code import survey

# ---- Heads: the columns of the stored weight that the code takes, beside the matrices of the model

MAPS = stretching.MAPS
DRAWN_LAYER = 1
"""The layer of the head that is drawn."""

Networks = Mapping[str, torch.nn.Module]
Recorded = Record | Result


@dataclass(frozen=True)
class Picture:
    """One head's map in the model, and the code's map for the same layer and head; rows and columns are tokens."""

    layer: int
    head: int
    own: Float[np.ndarray, "query key"]
    coded: Float[np.ndarray, "query key"]


@dataclass(frozen=True)
class Heads(Numbers):
    """What the code's head matrices change; ``distances`` has per network and fault a total variation by layer.

    ``alike`` is the correlation of the entries of both maps, ``grown`` the share of rows that are longer in Q, K or V
    than in X, by network, and ``coded_grown`` the code's; ``outputs`` correlates over heads the largest singular value
    of S V with that of the code's Y.
    """

    minilm_distance: str
    classifier_distance: str
    control_distance: str
    minilm_alike: str
    classifier_ranks: str
    minilm_ranks: str
    grown_queries: str
    grown_keys: str
    minilm_outputs: str
    classifier_outputs: str
    picture: Picture
    slices: Mapping[str, Slices]
    distances: Mapping[str, Mapping[str, Float[np.ndarray, "passage layer"]]]
    alike: Mapping[str, Float[np.ndarray, " layer"]]
    grown: Mapping[str, Float[np.ndarray, "map layer"]]
    coded_grown: Mapping[str, Float[np.ndarray, "map layer"]]
    outputs: Mapping[str, float]


def measure_heads(networks: Networks, drawn: survey.Passage, minilm: Recorded, classifier: Recorded) -> Heads:
    """Compare the code's heads with the model's, on a text model and on the variant classifier."""
    slices = {name: compare_slices(model) for name, model in networks.items()}
    sources = {
        "text model": (minilm, "trained"),
        "classifier": (classifier, "trained"),
        "control": (classifier, "random"),
    }
    distances = {name: split_faults(record.array(f"{network}/distance")) for name, (record, network) in sources.items()}
    grown, coded = (
        {name: record.array(f"{network}/{kind}").mean((0, 3)) for name, (record, network) in sources.items()}
        for kind in ("grown", "code_grown")
    )
    alike = {name: record.array(f"{network}/alike").mean((0, 2)) for name, (record, network) in sources.items()}
    outputs = {name: correlate_outputs(record, network) for name, (record, network) in sources.items()}
    text = grown["text model"]
    return Heads(
        minilm_distance=_range(distances["text model"]),
        classifier_distance=_range(distances["classifier"]),
        control_distance=_range(distances["control"]),
        minilm_alike=f"{abs(alike['text model']).max():.2f}",
        classifier_ranks=enumerated(slices["classifier"].rank_correlation, "+.2f"),
        minilm_ranks=enumerated(slices["text model"].rank_correlation, "+.2f"),
        grown_queries=percent(text[0].max()),
        grown_keys=percent(text[1].max()),
        minilm_outputs=f"{outputs['text model']:+.2f}",
        classifier_outputs=f"{outputs['classifier']:+.2f}",
        picture=draw(drawn),
        slices=slices,
        distances=distances,
        alike=alike,
        grown=grown,
        coded_grown=coded,
        outputs=outputs,
    )


def split_faults(distance: Float[np.ndarray, "passage fault layer head"]) -> dict[str, np.ndarray]:
    """Return by fault the total variation, mean over heads, ``(passage, layer)``."""
    return dict(zip(survey.FAULTS, distance.mean(3).swapaxes(0, 1)))


def draw(passage: survey.Passage) -> Picture:
    """Take the sharpest head of a layer, as the model and as the code computes its map."""
    n = int(passage.keep.sum())
    own = passage.stations[DRAWN_LAYER].attention[:, :n, :n]
    head = int(torch.special.entr(own).sum((-2, -1)).argmin())
    coded = survey.attend_with_fault("all four", passage, DRAWN_LAYER)[:, :n, :n]
    return Picture(DRAWN_LAYER, head, own[head].cpu().numpy(), coded[head].cpu().numpy())


def _range(distances: Mapping[str, np.ndarray]) -> str:
    by_layer = distances["all four"].mean(0)
    return f"{by_layer.min():.2f} to {by_layer.max():.2f}"


# ---- Layers: the cone index in the paper's form and in the code's, and the rows after the first LayerNorm in both

FORMS = {
    "(5.1), tokens": "cone",
    "(5.1), padding in": "padded_cone",
    "unit rows, tokens": "code_cone",
    "unit rows, padding in": "padded_code_cone",
}
"""The forms of the index as the page calls them, with their names in the records; the last one is the code's."""


@dataclass(frozen=True)
class Cone(Numbers):
    """The cone index by state (the embeddings first) in four forms, by network: ``(passage, state)``.

    ``rises`` is the rank correlation of each form's mean with depth; ``by_class`` has the code's form in the trained
    classifier, a sequence a class; ``rungs`` its first and last value in each network and seed.
    """

    prefix: ClassVar[str] = "code-cone"
    minilm_printed: str
    minilm_code: str
    classifier_code: str
    control_code: str
    by_class_rise: str
    forms: Mapping[str, Mapping[str, Float[np.ndarray, "passage state"]]]
    rises: Mapping[str, Mapping[str, float]]
    by_class: Float[np.ndarray, "class state"]
    rungs: Mapping[str, Float[np.ndarray, "seed end"]]


@dataclass(frozen=True)
class FirstRows(Numbers):
    """Shares of rows that fail the test of normality: BERT's rows after the first LayerNorm, and the code's.

    By network, then by kind: ``(passage, layer)``, over tokens.
    """

    prefix: ClassVar[str] = "code-norm"
    minilm_own: str
    minilm_code: str
    classifier_own: str
    classifier_code: str
    control_own: str
    control_code: str
    failing: Mapping[str, Mapping[str, Float[np.ndarray, "passage layer"]]]


def sources(minilm: Recorded, classifier: Recorded) -> dict[str, tuple[Recorded, str]]:
    """Name the networks that both parts show, with their records."""
    return {
        "text model": (minilm, "trained"),
        "text model, random": (minilm, "random"),
        "classifier": (classifier, "trained"),
        "classifier, random": (classifier, "random"),
    }


def rise(values: Float[np.ndarray, "passage state"]) -> float:
    """Return the rank correlation with depth of the mean over passages."""
    mean = values.mean(0)
    return float(spearmanr(range(len(mean)), mean).statistic)


def measure_cone(minilm: Recorded, classifier: Recorded) -> Cone:
    """Compare the forms of the cone index."""
    forms = {
        name: {form: record.array(f"{network}/{measure}") for form, measure in FORMS.items()}
        for name, (record, network) in sources(minilm, classifier).items()
    }
    by_class = classifier.array("classes/padded_code_cone")
    rises = {name: {form: rise(values) for form, values in of_network.items()} for name, of_network in forms.items()}
    printed, coded = "(5.1), tokens", "unit rows, padding in"
    return Cone(
        minilm_printed=_ends(forms["text model"][printed] / minilm.array("trained/tokens")[:, None], ".1f"),
        minilm_code=_ends(forms["text model"][coded] / _rows(minilm)[:, None], ".2f"),
        classifier_code=_ends(forms["classifier"][coded], ".0f"),
        control_code=_ends(forms["classifier, random"][coded], ".0f"),
        by_class_rise=f"{min(rise(each[None]) for each in by_class):.2f}",
        forms=forms,
        rises=rises,
        by_class=by_class,
        rungs={rung: classifier.array(f"{rung}/padded_code_cone")[:, [0, -1]] for rung in ("trained", *RUNGS)},
    )


def _rows(minilm: Recorded) -> Float[np.ndarray, " passage"]:
    """Count the rows of each padded text, which have the share of padding that a gene has."""
    return np.round(minilm.array("trained/tokens") * code.ROWS / code.TOKENS)


def _ends(values: Float[np.ndarray, "passage state"], form: str) -> str:
    return first_to_last(values.mean(0), form)


def measure_first_rows(minilm: Recorded, classifier: Recorded) -> FirstRows:
    """Compare the shares of rows that fail after the true first LayerNorm and after the code's."""
    failing = {
        name: {
            kind: record.array(f"{network}/{measure}")
            for kind, measure in (("BERT's", "failing"), ("the code's", "code_failing"))
        }
        for name, (record, network) in sources(minilm, classifier).items()
    }

    def spread(name: str, kind: str) -> str:
        mean = failing[name][kind].mean(0)
        return f"{100 * mean.min():.0f} to {100 * mean.max():.0f} %"

    own, coded = "BERT's", "the code's"
    return FirstRows(
        minilm_own=spread("text model", own),
        minilm_code=spread("text model", coded),
        classifier_own=spread("classifier", own),
        classifier_code=spread("classifier", coded),
        control_own=spread("classifier, random", own),
        control_code=spread("classifier, random", coded),
        failing=failing,
    )


# ---- Pictures of maps: the entropy of their entries, and what is blanked or too faint to be drawn


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
    ideal, noisy = released_code.measure_gates(), released_code.measure_noise()
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
