"""The tables of the chapter on the variant classifier, as frames whose index names the rows."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from analysis.maps.gates import GATES
from book.publish.phrases import enumerated
from book.studies.shared.nearest_classifier import Nearest
from book.studies.variant_classifier.compared import NAMES, Columns
from book.studies.variant_classifier.depth import Depth
from book.studies.variant_classifier.maps import Gates, Phases


def carried(nearest: Nearest) -> pd.DataFrame:
    """Return what gates carry of the attention, in per cent, in the fine-tuned model, its start and its controls."""
    networks = {"fine-tuned": nearest.gates, **{NAMES[rung]: nearest.control_gates[rung] for rung in NAMES}}
    rows = {}
    for gate in ("directional", "open", "backward", "forward", "cluster"):
        k = GATES.index(gate)
        rows[gate] = {name: f"{100 * shares[..., k].mean():.1f}" for name, shares in networks.items()}
    return _framed(rows, "gate")


def named_heads(measured: Gates) -> pd.DataFrame:
    """Return what the heads carry that the paper's figures 3 to 7 name, and their ranks among 144."""
    rows = {
        f"figure {each.figure}, {kind}": {
            "head": "{}.{}".format(*each.head),
            "carries, by seed": enumerated(each.carried, ".4f"),
            "control": f"{each.control:.4f}",
            "rank": enumerated(each.ranks),
        }
        for kind, each in measured.heads.items()
    }
    return _framed(rows, "the paper's")


def phases(measured: Phases, classes: Iterable[str]) -> pd.DataFrame:
    """Return, by class, what stays within a phase, and what clusters carry in per cent."""
    rows = {}
    for i, label in enumerate(classes):
        within, control = measured.within[i], measured.control[i]
        rows[label] = {
            "pairs of one phase": f"{measured.pairs[i]:.2f}",
            "attention within it": f"{within.min():.2f} to {within.max():.2f}",
            "control": f"{control.min():.2f} to {control.max():.2f}",
            "clusters, % by seed": enumerated(100 * measured.clusters[:, i], ".1f"),
        }
    return _framed(rows, "class")


def class_sites(measured: Columns) -> pd.DataFrame:
    """Return the same for the sites of each class."""
    rows = {
        label: {
            "seed 0": sites.times,
            "chance": f"{sites.low:.2f} to {sites.high:.2f}",
            "other seeds": enumerated(sites.others, ".2f"),
            "control": "" if sites.control is None else f"{sites.control:.2f}",
        }
        for label, sites in measured.by_class.items()
    }
    return _framed(rows, "class")


def padding(measured: Depth) -> pd.DataFrame:
    """Return what rows of padding add: the cone index in per cent, and the most that cosine and D move."""
    rows = {}
    for i, model in enumerate(("trained", "control")):
        cone, cosine, D = (pair[i] for pair in measured.padding.values())
        turned, shaped = (np.abs(added).mean(1).max() for added in (cosine, D))
        rows[model] = {
            "cone index": f"{cone.mean():.0f} % more",
            "mean cosine, at most": f"{turned:.3f}",
            "D of the sum, at most": f"{shaped:.3f}",
        }
    return _framed(rows, "model")


def _framed(rows: Mapping[str, Mapping[object, object]], name: str) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(name)
