"""Heads: the columns of the stored weight that the code takes, beside the matrices of the model."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from book.lab.mathematics import stretching
from book.publish import Numbers
from book.publish.phrases import enumerated, percent
from book.publish.records import Record, Result
from book.studies.shared.released_heads import Slices, compare_slices, correlate_outputs
from book.studies.text_and_code import survey

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
