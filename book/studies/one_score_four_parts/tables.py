"""Tables of the chapter on the whole score: frames whose index names the rows."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.statistics.intervals import FEWEST, mean_interval
from book.studies.one_score_four_parts.causes import Effect
from book.studies.one_score_four_parts.shares import CONTENT, PARTS, FirstLayer, HeadShares, Lengths, TextShares

SIX_NAMED = (
    "token on token",
    "token on position",
    "position on token",
    "position on position",
    "semi-bias of tokens",
    "semi-bias of positions",
)  # in the order of parts.SIX
CHANGES = {"mean query": "mean query, content", "no query bias": "no query bias, semi-bias"}
SUMMING = ("path", "in order", "reverse order", "mean of orders")


def gates(read: Mapping[str, Sequence[Mapping[str, float]]]) -> pd.DataFrame:
    """Return the gates of each formula's map with their shares, without a mask and with one."""
    rows = {
        name: [", ".join(f"{gate} {share:.2f}" for gate, share in of_map.items()) for of_map in maps]
        for name, maps in read.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["without a mask", "causal"]).rename_axis("head")


def models(heads: Mapping[str, HeadShares]) -> pd.DataFrame:
    """Return the mean divergence of each model's heads, what the parts contribute, and the control's divergence."""
    rows = {
        name: (table.divergence.mean(), *table.parts.mean(0), table.control.mean()) for name, table in heads.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["divergence", *PARTS, "control"]).rename_axis("model")


def texts(of: Mapping[str, TextShares]) -> pd.DataFrame:
    """Return the means over texts with intervals, for the models that read enough of them."""
    rows = {}
    for name, table in of.items():
        if len(table.shares) >= FEWEST:
            rows[name] = [_interval(shares, ".2f") for shares in table.shares.T] + [
                _interval(table.content_minority, ".1f")
            ]
    columns = [*PARTS, "heads with less content"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("model")


def lengths(of: Lengths) -> pd.DataFrame:
    """Return the shares of the parts with intervals over texts, a row for each number of tokens.

    Last, what content has among all keys but the first.
    """
    rows = {
        int(tokens): [_interval(part, ".2f") for part in (*shares.T, others[:, CONTENT])]
        for tokens, shares, others in zip(of.tokens, of.shares, of.others, strict=True)
    }
    columns = [*PARTS, "content, the first token left out"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("tokens")


def _interval(values: Float[np.ndarray, " text"], form: str) -> str:
    mean, low, high = mean_interval(values)
    return f"{mean:{form}} ({low:{form}} to {high:{form}})"


def layers(shares: Float[np.ndarray, "layer part"]) -> pd.DataFrame:
    """Return the shares of the parts, a column per layer."""
    return _by_layer(shares.T, pd.Index(PARTS, name="part"))


def content_by_layer(splits: Mapping[str, Float[np.ndarray, "layer part"]]) -> pd.DataFrame:
    """Return the share of content in each layer, in the ways of splitting that sum to the divergence."""
    whole = splits["path"].sum(1)
    return _by_layer(np.stack([splits[name][:, CONTENT] / whole for name in SUMMING]), pd.Index(SUMMING, name="split"))


def _by_layer(rows: Float[np.ndarray, "row layer"], index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(rows, index=index, columns=[f"layer {layer}" for layer in range(rows.shape[1])])


def first_layers(of: Mapping[str, FirstLayer]) -> pd.DataFrame:
    """Return the share of each of the six terms in layer 0."""
    return pd.DataFrame([table.shares for table in of.values()], index=pd.Index(of, name="model"), columns=SIX_NAMED)


def splits(of: Mapping[str, Float[np.ndarray, "layer part"]]) -> pd.DataFrame:
    """Return what each way of splitting gives to the parts, and their sum, in nats."""
    rows = {name: (*table.mean(0), table.sum(1).mean()) for name, table in of.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*PARTS, "sum"]).rename_axis("split")


def effects(of: Mapping[str, Mapping[str, Effect]]) -> pd.DataFrame:
    """Return how the effect of each change goes with the part that it takes away, over the heads of each model."""
    rows = {
        f"{model}, {CHANGES[change]}": (effect.nats.value, effect.share.value, effect.at_equal_depth, effect.with_depth)
        for model, changes in of.items()
        for change, effect in changes.items()
    }
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["nats", "share", "nats, layer taken out", "layer"]
    ).rename_axis("model, change and part")
