"""Tables of the chapter on the information stream: frames whose index names the rows, a column per layer."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.models.controls import LARGE
from book.studies.bert_stream.controls import Anisotropy
from book.studies.bert_stream.survey import Coupling, Patterns, ReadBack, Sums
from book.studies.shared.documents import Rungs

SHARES = {
    "product_error": "error of (5.14), relative",
    "interaction": "interaction, relative",
    "additive": "explained by a sum over blocks",
    "linear": "explained by a linear map",
}
PAIRS = {
    "heads after W_O": ("heads", "attention_output"),
    "heads after the first LN": ("heads", "first"),
    "heads after the layer": ("heads", "second"),
    "input from the MLP's output": ("first", "mlp_output"),
    "input after the layer": ("first", "second"),
    "input, shuffled rows": ("first", "shuffled"),
    "heads from the layer's input": ("heads", "x"),
    "heads from input and output": ("heads", "x and second"),
}


def coupling(of: Coupling) -> pd.DataFrame:
    """Return the least and the most of each map's coupling that is off the diagonal over layers, by network."""
    shares = {network: {name: of.off_diagonal(network, name) for name in of.names} for network in of.blocks}
    columns = {
        network: {name: f"{share.min():.3f} to {share.max():.3f}" for name, share in by_map.items()}
        for network, by_map in shares.items()
    }
    return pd.DataFrame(columns).rename_axis("map")


def sums(of: Sums) -> pd.DataFrame:
    """Return how far the MLP is from a sum over blocks and from a linear map."""
    return _layers(
        {
            f"{title}, {network}": getattr(of, name)[network]
            for network in ("trained", "control")
            for name, title in SHARES.items()
        },
        "the MLP",
    )


def anisotropy(of: Anisotropy, rungs: Rungs) -> pd.DataFrame:
    """Return the change of the mean cosine behind the first LayerNorm, with signs, and its parts."""
    large = rungs["added by the MLP"].controls[LARGE].mean(0)
    rows = {
        "as the model is": of.whole,
        "without the MLP": of.norm,
        "what the MLP adds to that": of.mlp,
        "what it adds in random weights as large": large,
    }
    return _layers({name: [f"{value:+z.2f}" for value in values] for name, values in rows.items()}, "change")


def read_back(of: ReadBack) -> pd.DataFrame:
    """Return what ridge regression reads back, mean over blocks."""
    return _layers(
        {f"{name}, {network}": of.band(*pair, network)[:, 0] for name, pair in PAIRS.items() for network in of.shares},
        "what is read back",
    )


def patterns(of: Patterns) -> pd.DataFrame:
    """Return which share of the attention no pattern explains, and which is uniform."""
    rows = {f"unexplained, {network}": shares[:, 0] for network, shares in of.unexplained.items()}
    return _layers(rows | {f"closed, {network}": shares for network, shares in of.closed.items()}, "share")


def _layers(rows: Mapping[str, Sequence | Float[np.ndarray, " layer"]], name: str) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index").rename(columns="layer {}".format).rename_axis(name)
