"""The tables of the chapter on the variant classifier, as frames whose index names the rows."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from analysis.maps.gates import PATTERNS
from book.publish.phrases import enumerated, percent, with_interval
from book.studies.variant_classifier.columns import Columns
from book.studies.variant_classifier.depth import Depth, Emergence, RealLineages
from book.studies.variant_classifier.maps import Gates, Phases, Weights
from book.studies.variant_classifier.models import Models

CONTROL, PAPER = "control, at most", "paper"


def models(measured: Models) -> pd.DataFrame:
    """Return the measures of each model in its first layer, a third and two thirds up, and in the last."""
    rows = {}
    for name, measures in measured.by_layer.items():
        depth = len(measures["row entropy"])
        places = (0, depth // 3, 2 * depth // 3, depth - 1)
        rows[name] = {measure: enumerated(values[list(places)], ".2f") for measure, values in measures.items()}
    return _framed(rows, "model")


def weights(measured: Weights) -> pd.DataFrame:
    """Return the largest singular values in the head of figure 2, and how they stand to those of random weights."""
    rows = {}
    for name, own, over, paper in zip(
        "QKV", measured.largest["trained"], measured.over_random["trained"], measured.paper, strict=True
    ):
        rows[f"W_{name}"] = {
            "three seeds": enumerated(own[:, 0, 3], ".2f"),
            "over random": enumerated(over[:, 0, 3], ".2f"),
            "all heads": f"{over.min():.2f} to {over.max():.2f}",
            PAPER: f"{paper:.2f}",
        }
    return _framed(rows, "head 0.3")


def orders(measured: Weights) -> pd.DataFrame:
    """Return in how many of 144 heads the singular values stand as the paper's do, and in how many V has the least."""
    kinds = {"K > Q > V": measured.paper_order, "V least": measured.v_least}
    return _framed(
        {kind: {name: enumerated(counts) for name, counts in heads.items()} for kind, heads in kinds.items()},
        "heads of 144",
    )


def strongest(measured: Gates) -> pd.DataFrame:
    """Return the most that each pattern carries in a head, by seed, and in any control."""
    rows = {}
    for i, name in enumerate(PATTERNS):
        cells = {f"seed {seed}": _head(scores[..., i]) for seed, scores in enumerate(measured.by_seed)}
        rows[name] = cells | {CONTROL: f"{measured.control[..., i].max():.3f}"}
    return _framed(rows, "gate")


def _head(scores: np.ndarray) -> str:
    layer, head = np.unravel_index(scores.argmax(), scores.shape)
    return f"{scores.max():.3f} in {layer}.{head}"


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


def mixtures(measured: Gates) -> pd.DataFrame:
    """Return the shares of maps that hold a gate, a cluster, and with a cluster another gate, with intervals."""
    names = ("with any gate", "with a cluster", "of these, with another gate")
    return _framed(
        {
            f"seed {seed}": dict(zip(names, map(with_interval, mixture), strict=True))
            for seed, mixture in enumerate(measured.mixtures)
        },
        "maps",
    )


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


def class_token(measured: Columns) -> pd.DataFrame:
    """Return the share of what columns carry that stands on [CLS], by classifier."""
    return _framed(
        {
            name: {
                "share on [CLS]": percent(share.value, 2),
                "interval": f"{100 * max(share.low, 0):.2f} to {100 * share.high:.2f} %",
            }
            for name, share in measured.class_token.items()
        },
        "classifier",
    )


def marked_words(measured: Columns) -> pd.DataFrame:
    """Return what columns give to marked words over what they give to the mean word."""
    rows = {}
    for mark, words in measured.by_mark.items():
        seeds = {f"seed {seed}": with_interval(value) for seed, value in enumerate(words.seeds)}
        rows[mark] = seeds | {
            "of the words": f"{words.tokens:.1%}",
            "real lineages": f"{words.real:.2f}",
            "chance": f"{words.chance[0]:.2f} to {words.chance[1]:.2f}",
        }
    return _framed(rows, "words")


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


def rises(measured: Depth) -> pd.DataFrame:
    """Return how three measures rise with depth: rank correlations, and the last layers over the first."""
    rows = {
        f"{measure}, {model}": {
            "rank correlation": enumerated((each.value for each in rise.correlation), "+.2f"),
            "last four layers over the first": ", ".join(map(with_interval, rise.factor)),
        }
        for measure, by_model in measured.rises.items()
        for model, rise in by_model.items()
    }
    return _framed(rows, "three seeds")


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


def emergence(measured: Emergence) -> pd.DataFrame:
    """Return, by seed, when the top layer is closest to one direction, when gates appear, and when half is right."""
    rows = {}
    for seed, step in enumerate(measured.steps):
        tops, mass, accuracy = measured.top_resultant[seed], measured.mass[seed], measured.accuracy[seed]
        closed = tops.argmax()
        rows[f"seed {seed}"] = {
            "largest resultant": f"{tops[closed]:.3f}",
            "at update": int(step[closed]),
            "right then": percent(accuracy[closed]),
            "gates of 5 % from": int(step[(mass > 0.05).argmax()]),
            "right on half from": int(step[(accuracy > 0.5).argmax()]),
        }
    return _framed(rows, "training")


def by_layer(measured: RealLineages, measure: str) -> pd.DataFrame:
    """Return the mean cosine or the row entropy of each model, a column per layer."""
    rows = {name: dict(enumerate(means[measure])) for name, means in measured.by_layer.items()}
    return _framed(rows, measure)


def _framed(rows: Mapping[str, Mapping[object, object]], name: str) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(name)
