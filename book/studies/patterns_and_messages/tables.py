"""Tables of the chapter on patterns and messages: frames whose index names the rows."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from book.studies.patterns_and_messages.forms import Count, Equality
from book.studies.patterns_and_messages.readings import Readings
from book.studies.patterns_and_messages.spectra import Spectra

EXACT = ("sum over heads", "patterns and messages", "module without b_K")
LEFT_OUT = {
    "no constant pattern": "without the constant pattern",
    "no b_V W_O": "without b_V W_O",
    "root of the stream's width": "divided by the root of the stream's width",
    "no mask": "without the mask",
}
READINGS = {
    "constant": "share of the variance of scores: shared part",
    "query bias": "share of the variance of scores: raw semi-bias alone",
    "angle": "rows whose largest score has the smallest angle",
    "influence": "rows whose largest weight has the longest weighted message",
}
MATRICES = {"pattern": "W_P", "message": "W_M", "augmented": "W_P with the biases"}


def forms(equality: Equality) -> pd.DataFrame:
    """Return how far each form of a layer is from the module, over its largest output; exact forms first."""
    names = dict.fromkeys(EXACT) | LEFT_OUT
    columns = {f"random {family} layer": [gap.get(form) for form in names] for family, gap in equality.random.items()}
    columns |= {
        f"GPT-2, {which} layer": [float(extreme(equality.gpt2[form])) for form in names]
        for which, extreme in (("nearest", np.min), ("farthest", np.max))
    }
    return pd.DataFrame(columns, index=pd.Index([label or form for form, label in names.items()], name="form"))


def on_text(readings: Readings) -> pd.DataFrame:
    """Return the range over heads of what was read on text, trained and in the control."""

    def spread(values: np.ndarray) -> str:
        return f"{values.min():.2f} to {values.max():.2f}"

    columns = {
        name: [spread(values[key]) for key in READINGS]
        for name, values in (("trained", readings.trained), ("control", readings.control))
    }
    return pd.DataFrame(columns, index=pd.Index(READINGS.values(), name="range over heads"))


def spectra(of: Spectra) -> pd.DataFrame:
    """Return the sizes of GPT-2's singular values and the effective ranks, trained and control."""
    rows = {}
    for name, label in MATRICES.items():
        for key, whose in ((name, "GPT-2"), (f"control_{name}", "control")):
            values, rank = of.values[key], of.ranks[key]
            rows[f"{label}, {whose}"] = (
                np.median(values[:, 0]),
                (values[:, -1] / values[:, 0]).min(),
                rank.min(),
                np.median(rank),
                rank.max(),
            )
    return pd.DataFrame.from_dict(
        rows,
        orient="index",
        columns=[
            "largest value, median head",
            "least ratio of smallest to largest",
            "lowest effective rank",
            "median effective rank",
            "highest effective rank",
        ],
    ).rename_axis("matrix")


def counts(of: Mapping[str, Count]) -> pd.DataFrame:
    """Return the multiply-adds of each form, counted and by the formula."""
    return pd.DataFrame(
        [(count.counted, count.formula) for count in of.values()],
        columns=["counted", "formula"],
        index=pd.Index(of, name="form"),
    )
