"""Tables of the chapter on gates: frames whose index names the rows."""

import pandas as pd

from analysis.statistics.intervals import Interval
from book.studies.bert_gates.gate_census import GateCensus
from book.studies.bert_gates.interventions import BiasExchange

NAMES = {
    "patterned": "maps with a pattern of 5 % or more",
    "composed": "maps with two patterns or more",
    "both_of_either": "of the maps with a sub- or super-diagonal, those with both",
    "open_with_either": "of the same maps, those with the main diagonal",
    "in_company": "of the same maps, those with one or the other",
    "short_columns": "of what columns carry, the part on lines under half the map's height",
    "short_verticals": "the same, with clusters counted as columns side by side",
    "run_covers": "part of a shifted diagonal that its longest run covers",
    "end_of_diagonal": "weight of a main diagonal's last dozen cells, over the others'",
    "points_a_map": "points per map that exceed its noise",
    "weak_points": "of these points, those with less than half of their row",
}
OF_BOTH = ("patterned", "composed", "points_a_map")  # the control has no lines to measure
MAPS = {"columns": "all maps", "mostly": "maps at least 30 % directional", "control": "the random control"}
BIASES = {"own": "own b_Q", "none": "without b_Q", "random": "a random b_Q", "lent": "the trained b_Q"}


def with_bounds(value: float, interval: Interval, form: str = ".2f") -> str:
    """Write a value with the bounds of its interval, or that these cannot be told.

    >>> with_bounds(0.5, Interval(0.5, 0.4, 0.6))
    '0.50 (0.40 to 0.60)'
    """
    return f"{value:{form}} ({interval.format(form)})"


def strongest(of: GateCensus) -> pd.DataFrame:
    """Return for each gate the head in which it is strongest, and what it carries there."""
    rows = {
        name: (best.layer, best.head, with_bounds(best.share.value, best.share, ".3f"))
        for name, best in of.best.items()
    }
    columns = ["layer", "head", "share of its attention"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("gate")


def summary(of: GateCensus) -> pd.DataFrame:
    """Return what the maps hold, as ratios of totals over texts, and the same for the control where it has any."""
    rows = {
        NAMES[name]: (
            with_bounds(ratio.value, ratio.interval),
            f"{of.control.ratios[name].value:.2f}" if name in OF_BOTH else "",
        )
        for name, ratio in of.summary.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["trained", "control"]).rename_axis("what is measured")


def kinds(of: GateCensus) -> pd.DataFrame:
    """Return for each kind of token its share of the tokens, of the attention and of what lies on columns."""
    columns = {name: of.kind_shares[name] for name in ("tokens", "attention", "on columns")}
    return pd.DataFrame(columns, index=pd.Index(of.token_kinds, name="kind"))


def exchanged(of: BiasExchange) -> pd.DataFrame:
    """Return the share of the attention on columns by maps (rows) and query bias (columns)."""
    rows: dict[str, dict[str, str]] = {}
    for name, ratio in of.columns.items():
        maps, bias = name.split("_")
        said = with_bounds(ratio.value, ratio.interval, ".3f") if ratio.texts else "no such map"
        rows.setdefault(MAPS[maps], {})[BIASES[bias]] = said
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(BIASES.values())).rename_axis("maps")
