"""The authors' recorded outputs beside the book's classifier and its controls, on the same quantities."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from analysis.models.controls import RUNGS
from analysis.statistics.intervals import share_interval
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Result
from book.studies.shared.authors_outputs import AuthorsOutputs
from book.studies.text_and_code.repository import BLOCKS

Recorded = Record | Result
CLASSES = ("GH", "Lambda", "Mu", "Alpha", "Beta", "Delta", "Gamma", "Omicron")
CONE_LAYER = 10
"""The layer of the recorded softmax cone, which the notebook's title counts as 11."""
UNIFORM = 461
"""Keys that hold 0.90 of a uniform row of 512."""
CONFIDENT = 0.93


@dataclass(frozen=True)
class Logits(Numbers):
    """The test sequences whose logits are public: right ones, errors by class, and how sure the errors were."""

    rows: int
    right: int
    errors: int
    accuracy: str
    interval: str
    confident: int
    softmax_error: float
    claimed_f1: str
    confusion: Int[np.ndarray, "class named"]
    by_class: Mapping[str, tuple[int, int, float, float]]


@dataclass(frozen=True)
class Closing(Numbers):
    """Minimal keys, softmax cone and ranks: the authors' records, and ours by network and seed.

    ``keys`` has ``(seed, layer)``, medians over heads; ``own_keys`` is of the model's own maps, as a share of the keys;
    ``cones`` and ``values`` are of one map, ``(seed,)``; ``ranks`` has per source the least and the most.
    """

    first: str
    lowest: str
    lowest_layer: int
    last: str
    here_first: str
    here_last: str
    control_last: str
    scaled_last: str
    permuted_last: str
    here_cone: str
    control_cone: str
    here_values: int
    control_values: str
    recorded_keys: Float[np.ndarray, "layer head"]
    keys: Mapping[str, Float[np.ndarray, "seed layer"]]
    own_keys: Float[np.ndarray, " layer"]
    cones: Mapping[str, Float[np.ndarray, " seed"]]
    values: Mapping[str, Float[np.ndarray, " seed"]]
    ranks: Mapping[str, Mapping[str, tuple[int, int]]]


def measure_logits(record: Recorded, authors: AuthorsOutputs) -> Logits:
    """Take the accuracy of the public logits with its exact interval."""
    rows, right, confusion = record["logits_rows"], record["logits_right"], record.array("confusion")
    whole = share_interval(right, rows)
    intervals = [share_interval(int(confusion[i, i]), count) for i, count in enumerate(BLOCKS)]
    return Logits(
        rows=rows,
        right=right,
        errors=rows - right,
        accuracy=percent(whole.value, 1),
        interval=f"{100 * whole.low:.1f} to {100 * whole.high:.1f} %",
        confident=int((record.array("error_confidence") > CONFIDENT).sum()),
        softmax_error=record["softmax_error"],
        claimed_f1=f"{authors.claimed_f1:.2f} %",
        confusion=confusion,
        by_class={
            name: (int(confusion[i, i]), count, share.low, share.high)
            for i, (name, count, share) in enumerate(zip(CLASSES, BLOCKS, intervals))
        },
    )


def measure_closing(record: Recorded, authors: AuthorsOutputs, minilm: Recorded, classifier: Recorded) -> Closing:
    """Compare the recorded outputs with the same quantities here, all of the code's steps repeated."""
    theirs = np.median(authors.minimal_keys, 1)
    networks = ("trained", *RUNGS)
    keys = {name: np.median(classifier.array(f"{name}/minimal_keys"), 2) for name in networks}
    cones = {name: classifier.array(f"{name}/softmax_cone")[:, CONE_LAYER] for name in networks}
    values = {name: classifier.array(f"{name}/singular_values")[:, CONE_LAYER] for name in networks}
    last = {name: f"{of[:, -1].min():.0f} to {of[:, -1].max():.0f}" for name, of in keys.items()}
    return Closing(
        first=f"{theirs[0]:.0f}",
        lowest=f"{theirs.min():.0f}",
        lowest_layer=int(theirs.argmin()),
        last=f"{theirs[-1]:.0f}",
        here_first=f"{keys['trained'][0, 0]:.0f}",
        here_last=f"{keys['trained'][0, -1]:.0f}",
        control_last=last["random"],
        scaled_last=last["random, as large"],
        permuted_last=last["permuted"],
        here_cone=f"{cones['trained'][0]:.3f}",
        control_cone=_span(cones["random"], ".1f"),
        here_values=int(values["trained"][0]),
        control_values=_span(values["random"], ".0f"),
        recorded_keys=authors.minimal_keys,
        keys=keys,
        own_keys=np.median(classifier.array("trained/own_minimal_keys"), 2)[0],
        cones=cones,
        values=values,
        ranks=compare_ranks(record, minilm, classifier),
    )


def compare_ranks(record: Recorded, minilm: Recorded, classifier: Recorded) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the least and the most rank of recomputed S and S V, by source and quantity."""
    theirs = {name: record.array(f"rank_{name}") for name in ("maps", "outputs")}
    sources = {"authors' base model": theirs}
    for name, (of, network) in {
        "text model": (minilm, "trained"),
        "classifier": (classifier, "trained"),
        "classifier, random": (classifier, "random"),
    }.items():
        sources[name] = {kind: of.array(f"{network}/rank_{kind}") for kind in ("maps", "outputs")}
    return {
        name: {kind: (int(ranks.min()), int(ranks.max())) for kind, ranks in of.items()} for name, of in sources.items()
    }


def _span(values: Float[np.ndarray, " seed"], form: str) -> str:
    return f"{values.min():{form}} to {values.max():{form}}"
