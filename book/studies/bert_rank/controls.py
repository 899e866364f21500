"""What the ladder of controls says of collapse in a trained model with one part at a time taken out."""

from dataclasses import dataclass

import numpy as np

from analysis.models.controls import LARGE, PERMUTED
from analysis.statistics.intervals import mean_interval
from book.publish import Inputs, Numbers
from book.publish.phrases import percent
from book.studies.bert_rank.ladder import FACTORS, FITS, HIDDEN, WAYS
from book.studies.shared.documents import DocumentLadder, Rungs, load_rungs

PANELS = ("whole", "without the MLP", "uniform attention", "hidden rows, by GELU")
PLACES = {
    **{way: ("residual", k) for k, way in enumerate(WAYS)},
    **{name: ("hidden", k) for k, name in enumerate(HIDDEN)},
    **{name: ("factor", k) for k, name in enumerate(FACTORS)},
    **{name: ("fit", k) for k, name in enumerate(FITS)},
    "end": ("residual", -1, slice(None)),
    "cosine": ("cosine",),
    "size": ("size",),
}


@dataclass(frozen=True)
class LadderNumbers(Numbers):
    """Residuals after the last layer (geometric means over documents or seeds), cosines, and GELU's hidden rows."""

    prefix = "rank-ladder"
    whole: float
    whole_large: float
    whole_permuted: float
    mlp: float  # taken out
    mlp_cosine: float
    mlp_large: float
    mlp_permuted: float
    mlp_factor: float  # of the residual, by taking the MLP out; with an interval over documents
    mlp_factor_low: float
    mlp_factor_high: float
    norm: float  # without the MLP and its LayerNorm
    line: float
    line_cosine: float
    map: float
    map_cosine: float
    z: float
    z_cosine: float
    uniform: float
    attention: float  # taken out
    attention_large: float
    half_large: float
    double: float
    size: float  # of what attention adds, beside the stream
    size_large: float
    size_half_large: float
    size_double: float
    slope_low: float  # of the best lines, mean over units: the least and the largest layer
    slope_high: float
    below_trained: str
    below_large: str
    below_permuted: str
    apart_trained: str
    apart_large: str
    apart_permuted: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder; residuals are given as logarithms to base 10."""
    rungs = load_rungs("bert-rank-ladder", inputs, PLACES)
    before, after = rungs["residual before"], rungs["residual after"]
    rungs.measures["hidden rows, by GELU"] = DocumentLadder(
        after.documents - before.documents,
        {rung: values - before.controls[rung] for rung, values in after.controls.items()},
    )
    return rungs


def write_ladder(rungs: Rungs) -> LadderNumbers:
    """Write the numbers of the text."""

    def of(name: str, rung: str | None = None) -> np.ndarray:
        return rungs[name].documents if rung is None else rungs[name].controls[rung]

    def end(way: str, rung: str | None = None) -> float:
        return float(10 ** of(way, rung)[:, -1].mean())

    def mean(name: str, way: str, rung: str | None = None) -> float:
        return float(of(name, rung)[:, list(WAYS).index(way)].mean())

    def span(name: str, rung: str | None = None) -> str:
        layers = of(name, rung).mean(0)
        return f"{layers.min():+.2f} to {layers.max():+.2f}".replace("-", "\u2212")

    def share(rung: str | None = None) -> str:
        return percent(float(of("share below zero", rung).mean()))

    removed = mean_interval(of("without the MLP")[:, -1] - of("whole")[:, -1])
    slopes = of("slope").mean(0)
    return LadderNumbers(
        whole=end("whole"),
        whole_large=end("whole", LARGE),
        whole_permuted=end("whole", PERMUTED),
        mlp=end("without the MLP"),
        mlp_cosine=mean("cosine", "without the MLP"),
        mlp_large=end("without the MLP", LARGE),
        mlp_permuted=end("without the MLP", PERMUTED),
        mlp_factor=10**removed.value,
        mlp_factor_low=10**removed.low,
        mlp_factor_high=10**removed.high,
        norm=end("without the MLP and its LayerNorm"),
        line=end("best line per unit"),
        line_cosine=mean("cosine", "best line per unit"),
        map=end("best linear map"),
        map_cosine=mean("cosine", "best linear map"),
        z=end("z in place of GELU"),
        z_cosine=mean("cosine", "z in place of GELU"),
        uniform=end("uniform attention"),
        attention=end("without attention"),
        attention_large=end("without attention", LARGE),
        half_large=end("attention half as large", LARGE),
        double=end("attention twice as large"),
        size=mean("size", "whole"),
        size_large=mean("size", "whole", LARGE),
        size_half_large=mean("size", "attention half as large", LARGE),
        size_double=mean("size", "attention twice as large"),
        slope_low=float(slopes.min()),
        slope_high=float(slopes.max()),
        below_trained=share(),
        below_large=share(LARGE),
        below_permuted=share(PERMUTED),
        apart_trained=span("hidden rows, by GELU"),
        apart_large=span("hidden rows, by GELU", LARGE),
        apart_permuted=span("hidden rows, by GELU", PERMUTED),
    )
