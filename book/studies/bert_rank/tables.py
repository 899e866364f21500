"""Tables of the chapter on rank collapse: frames whose index names the rows."""

from collections.abc import Mapping, Sequence

import pandas as pd

from book.studies.bert_rank.ranks import Ranks
from book.studies.bert_rank.residuals import Runs, in_words, typical

STEPS = {"read": "read", "centred": "centred", "divided": "divided", "with_gain": "with gain", "with_bias": "with bias"}


def ranks(of: Ranks) -> pd.DataFrame:
    """Return the ranks on the way through the LayerNorms after attention, over all layers, model by model."""
    rows = {}
    for (which, tokens), steps in of.through.items():
        found = [sorted({getattr(layer, step).rank for layer in steps}) for step in STEPS]
        cells = [" or ".join(map(str, each)) for each in found]
        rows[f"{which}, {tokens} tokens"] = [*cells, min(of.apart[which, tokens])]
    columns = [*STEPS.values(), "distance of the all-one row"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("model and input")


def residuals(runs: Mapping[float, Mapping[str, Runs]], names: Sequence[str], layer: int) -> pd.DataFrame:
    """Return the residual of random stacks after a layer, geometric mean over stacks; one column per gain."""
    columns = {f"gain {gain}": [in_words(typical(of[name], layer)) for name in names] for gain, of in runs.items()}
    return pd.DataFrame(columns, index=pd.Index(names, name="parts"))


def final(residual: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> pd.DataFrame:
    """Return the residual after the last layer, geometric mean over texts; one column per model."""
    columns = {which: [in_words(of[name]) for name in names] for which, of in residual.items()}
    return pd.DataFrame(columns, index=pd.Index(names, name="parts"))
