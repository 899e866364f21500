"""Tables of the chapter on what Q and K measure: frames whose index names the rows."""

import numpy as np
import pandas as pd

from book.publish.phrases import percent
from book.studies.bert_similarity.asymmetry import EQUAL, KINDS, Asymmetry, Stretching


def amplified(of: Stretching) -> pd.DataFrame:
    """Return how often singular values exceed 1, and rows grow, by a head and by all heads of a layer."""
    rows = {}
    for which in of.over:
        for k, name in enumerate("QKV"):
            alone = of.alone[which][k]
            value, low, high = (percent(share, 1) for share in (alone.value, alone.low, alone.high))
            large, joint = percent(of.over[which][k]), percent(of.joint[which][k])
            rows[f"{which}, {name}"] = large, f"{value} ({low} to {high})", joint
    columns = ["heads with largest singular value above 1", "rows amplified by a head", "rows amplified by all heads"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("model, map")


def asymmetry(of: Asymmetry) -> pd.DataFrame:
    """Return the antisymmetric share of scores and of attention, as it is and at the spread of the content's scores.

    Means over layers, heads and texts, those of attention with their interval over texts.
    """

    def phrase(kind: str) -> str:
        value, low, high = of.over_texts[kind]
        return f"{value:.2f}" if np.isnan(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"

    rows = {
        kind: (of.mean_scores[kind], of.spread[kind], phrase(kind), phrase(kind + EQUAL) if kind in KINDS else "")
        for kind in (*KINDS, "control")
    }
    columns = ["scores", "spread of the scores, nats", "attention", "attention at the content's spread"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("form")
