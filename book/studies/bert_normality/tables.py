"""Tables of the chapter on normality: frames whose index names the rows."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from analysis.statistics.intervals import Interval
from book.studies.bert_normality.cone import Cone
from book.studies.bert_normality.heads import Effects, Ideal
from book.studies.bert_normality.rows import Padding
from book.studies.bert_normality.sums import Sums

ROWS = {
    "trained": "trained",
    "plain": "trained, without gain and bias",
    "unit rows": "trained, rows of length 1",
    "kept": "trained, less what stands out",
    "plain kept": "trained, without gain and bias, less what stands out",
    "control": "control",
}
FORMS = {
    "cone": "index, rows as written",
    "cone_bare": "index, plain rows",
    "resultant": "resultant, unit rows",
    "cosine": "mean cosine",
}


def by_layer(values: Mapping[str, Float[np.ndarray, "layer 3"]]) -> pd.DataFrame:
    """Return means by layer (columns) and by which rows were taken (rows)."""
    frame = pd.DataFrame({ROWS[name]: np.asarray(means)[:, 0] for name, means in values.items() if name in ROWS}).T
    return layers(frame).rename_axis("rows")


def layers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with columns that are named as layers."""
    return frame.rename(columns="layer {}".format)


def lengths(trained: Mapping[str, np.ndarray], longer: Bool[np.ndarray, " text"], width: int) -> pd.DataFrame:
    """Return what depends on whether a text has more tokens than a row has coordinates, mean over layers."""
    quantities = {"rows that fail": "first_failing", "plain rows that fail": "bare_failing", "D of the sum": "D_sum"}
    rows = {
        f"{name}, {those.sum()} texts": [
            trained[key][those].mean() if those.any() else np.nan for key in quantities.values()
        ]
        for name, those in ((f"more than {width} tokens", longer), (f"{width} or fewer", ~longer))
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*quantities]).rename_axis("length")


def sums(sums: Sums) -> pd.DataFrame:
    """Return which share of the texts has a sum that fails in a layer, with its extreme coordinates and without."""
    rows = {
        **{f"share that fails, {network}": shares for network, shares in sums.failing.items()},
        "extreme coordinates, trained": sums.dropped,
        "share that fails without these": sums.failing_kept,
    }
    return layers(pd.DataFrame.from_dict(rows, orient="index")).rename_axis("sums of a layer's rows")


def outliers(trained: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the coordinates that stand out in each layer, largest first, and the excess kurtosis with and without."""
    rows = {}
    for kind, name in (("first", "with gain and bias"), ("bare", "plain")):
        for layer, size in enumerate(trained[f"{kind}_size"]):
            names = (-size).argsort()[: trained[f"{kind}_outliers"][layer]]
            rows[f"{name}, layer {layer}"] = (
                ", ".join(map(str, names)) or "none",
                trained[f"{kind}_kurtosis"][layer],
                trained[f"{kind}_kurtosis_kept"][layer],
            )
    columns = ["coordinates", "kurtosis", "without them"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("rows")


def padding(padding: Padding) -> pd.DataFrame:
    """Return what counting the rows of padding does to each quantity, in the first layer and in the last."""
    rows = {
        f"{name}, {network}": [means[way][layer] for layer in (0, -1) for way in ("without", "with")]
        for name, networks in padding.means.items()
        for network, means in networks.items()
    }
    columns = [f"{layer} layer, padding {way}" for layer in ("first", "last") for way in ("out", "in")]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("quantity")


def cone(cone: Cone) -> pd.DataFrame:
    """Return the forms of the cone index at both ends and their rank correlation with depth, by network."""
    rows = {
        f"{name}, {network}": (
            *(f"{end:,.0f}" if end > 10 else end for end in cone.ends[network][form]),
            f"{rise[form].value:+.2f}",
        )
        for network, rise in cone.rise.items()
        for form, name in FORMS.items()
    }
    columns = ["first layer", "last layer", "with depth"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("form")


def ideal(gates: Mapping[str, Ideal]) -> pd.DataFrame:
    """Return both entropies of ideal maps, and the rank of what such a map hands on."""
    rows = {name: (gate.row_entropy, gate.histogram_entropy, f"{gate.rank:.1f}") for name, gate in gates.items()}
    columns = ["row entropy", "histogram, nats", "rank of S V"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("map")


def bins(by_bins: Mapping[int, Mapping[str, list[float]]]) -> pd.DataFrame:
    """Return the entropy of the histogram of a map's values by the number of its bins, network and layer."""
    rows = {
        f"{count:,} bins, {network}": values
        for count, networks in by_bins.items()
        for network, values in networks.items()
    }
    return layers(pd.DataFrame.from_dict(rows, orient="index")).rename_axis("histogram")


def correlations(effects: Effects) -> pd.DataFrame:
    """Return the rank correlations of the effect of a head, each with its interval over texts."""
    of: dict[str, Interval] = {
        **{f"entropy, all heads, {network}": r for network, r in effects.with_entropy.items()},
        **{f"depth, all heads, {network}": r for network, r in effects.with_depth.items()},
        **{f"entropy, layer {layer}, trained": r for layer, r in enumerate(effects.within)},
    }
    chance = dict(zip(list(of)[-len(effects.within) :], effects.chance, strict=True))
    rows = {
        name: (f"{r.value:+.2f}", f"{r.low:+.2f} to {r.high:+.2f}", chance.get(name, np.nan)) for name, r in of.items()
    }
    columns = ["correlation", "95 % interval", "as far by chance"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("effect of a head with")
