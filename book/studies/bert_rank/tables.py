"""Tables of the chapter on rank collapse: frames whose index names the rows."""

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.models.controls import LARGE, PERMUTED
from analysis.plotting.ladder import spread
from book.studies.bert_rank.controls import FACTORS, WAYS
from book.studies.bert_rank.stacks import Runs, TrainedStack, in_words, typical
from book.studies.bert_rank.statements import Ranks
from book.studies.shared.documents import Rungs

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


def final(of: TrainedStack, names: Sequence[str]) -> pd.DataFrame:
    """Return the residual after the last layer, geometric mean over texts, and beside it the cosine; by model."""
    columns = {}
    for which, residual in of.final.items():
        columns[f"{which}: residual"] = [in_words(residual[name]) for name in names]
        columns[f"{which}: cosine"] = [of.cosines[which][name] for name in names]
    return pd.DataFrame(columns, index=pd.Index(names, name="parts"))


def ablations(rungs: Rungs) -> pd.DataFrame:
    """Return residuals after the last layer with their spread, and cosines, by what is changed; trained first."""
    logs, cosines = rungs["end"], rungs["cosine"]
    columns = {
        "trained: residual": [f"{v:.2f} [{low:.2f}, {high:.2f}]" for v, low, high in 10**logs.interval],
        "trained: cosine": cosines.documents.mean(0),
    }
    for rung in (LARGE, PERMUTED):
        spans = 10 ** spread(logs.controls[rung])
        columns[f"{rung}: residual"] = [f"{v:.2f} ({low:.2f} to {high:.2f})" for v, low, high in spans]
        columns[f"{rung}: cosine"] = cosines.controls[rung].mean(0)
    return pd.DataFrame(columns, index=pd.Index(list(WAYS), name="what runs"))


def factors(rungs: Rungs) -> pd.DataFrame:
    """Return by layer what the residual is multiplied by, as the theorem expects for rows nearly alike and as seen."""
    rows = {}
    for name in FACTORS:
        rows[f"trained, {name}"] = rungs[name].documents.mean(0)
        rows |= {f"{rung}, {name}": rungs[name].controls[rung].mean(0) for rung in (LARGE, PERMUTED)}
    table = pd.DataFrame(rows).T.sort_index(ascending=False, kind="stable").rename_axis("factor")
    return table.rename(columns=lambda layer: f"layer {layer}")
