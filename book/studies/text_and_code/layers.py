"""Layers: the cone index in the paper's form and in the code's, and the rows after the first LayerNorm in both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.models.controls import RUNGS
from book.publish import Numbers
from book.publish.phrases import first_to_last
from book.publish.records import Record, Result
from book.studies.shared import released_code as code

Recorded = Record | Result
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
