"""What the ladder of controls says of collapse in a trained model with parts switched off."""

from dataclasses import dataclass

import numpy as np

from analysis.models.controls import LARGE, PERMUTED
from book.publish import Inputs, Numbers
from book.publish.phrases import percent
from book.studies.bert_rank.ladder import HIDDEN, WAYS
from book.studies.shared.documents import DocumentLadder, Rungs, load_rungs

PANELS = ("all", "no MLP", "linear MLP", "apart by GELU")
PLACES = {
    **{way: ("residual", k) for k, way in enumerate(WAYS)},
    **{name: ("hidden", k) for k, name in enumerate(HIDDEN)},
}


@dataclass(frozen=True)
class LadderPhrases(Numbers):
    """Residuals after the last layer (geometric means over documents or seeds), and GELU's hidden rows."""

    prefix = "rank-ladder"
    all_trained: str
    all_random: str
    all_large: str
    all_permuted: str
    no_mlp_large: str
    linear_trained: str
    linear_large: str
    linear_permuted: str
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
    rungs.measures["apart by GELU"] = DocumentLadder(
        after.documents - before.documents,
        {rung: values - before.controls[rung] for rung, values in after.controls.items()},
    )
    return rungs


def phrase_rungs(rungs: Rungs) -> LadderPhrases:
    """Write the residuals and the shares."""

    def end(way: str, rung: str | None = None) -> str:
        logs = rungs[way].documents if rung is None else rungs[way].controls[rung]
        return f"{10 ** logs[:, -1].mean():.2f}"

    def span(name: str, rung: str | None = None) -> str:
        layers = rungs[name].documents.mean(0) if rung is None else rungs[name].controls[rung].mean(0)
        return f"{layers.min():+.2f} to {layers.max():+.2f}".replace("-", "\u2212")

    def share(rung: str | None = None) -> str:
        layers = rungs["share below zero"]
        return percent(float(np.mean(layers.documents if rung is None else layers.controls[rung])))

    return LadderPhrases(
        all_trained=end("all"),
        all_random=end("all", "random"),
        all_large=end("all", LARGE),
        all_permuted=end("all", PERMUTED),
        no_mlp_large=end("no MLP", LARGE),
        linear_trained=end("linear MLP"),
        linear_large=end("linear MLP", LARGE),
        linear_permuted=end("linear MLP", PERMUTED),
        below_trained=share(),
        below_large=share(LARGE),
        below_permuted=share(PERMUTED),
        apart_trained=span("apart by GELU"),
        apart_large=span("apart by GELU", LARGE),
        apart_permuted=span("apart by GELU", PERMUTED),
    )
