"""Tables of the chapter on what Q and K measure: frames whose index names the rows."""

import pandas as pd

from book.publish.phrases import percent
from book.studies.bert_similarity.asymmetry import Asymmetry
from book.studies.bert_similarity.stretching import Stretching


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
    """Return the antisymmetric share of scores and of attention, mean over layers, heads and texts."""
    scores, attention = of.mean_scores, of.mean_attention
    columns = {"scores": list(scores.values()), "attention": [attention[kind] for kind in scores]}
    return pd.DataFrame(columns, index=pd.Index(scores, name="form"))
