"""What the ladder of controls says of what a layer mixes."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.models.controls import LARGE, PERMUTED
from book.publish import Inputs, Numbers
from book.publish.phrases import enumerated, percent
from book.studies.bert_stream.ladder import POOLED, READ, STATIONS
from book.studies.shared.documents import LADDER, DocumentLadder, Rungs, load_rungs

PANELS = ("interaction of two blocks", "explained by a sum", "off the diagonal, MLP", "added by the MLP")
PLACES = {
    **{station: ("cosine", k) for k, station in enumerate(STATIONS)},
    "explained by a sum": ("pooled", POOLED.index("additive")),
    "explained by a linear map": ("pooled", POOLED.index("linear")),
    "interaction of two blocks": ("pooled", POOLED.index("interaction")),
    "off the diagonal, W_O": ("pooled", POOLED.index("coupling of W_O")),
    "off the diagonal, MLP": ("pooled", POOLED.index("coupling of the MLP")),
    **{pair: ("read", k) for k, pair in enumerate(READ)},
}
BOTH = ("heads", "x and second")
READ_NAMES = {
    ("heads", "x"): "head outputs from the layer's input",
    ("heads", "second"): "head outputs from the layer's output",
    ("heads", "x and second"): "head outputs from both",
    ("first", "second"): "the MLP's input from the layer's output",
}


@dataclass(frozen=True)
class Anisotropy:
    """What the second half of each MiniLM layer does to the mean cosine of two rows, mean over documents."""

    whole: Float[np.ndarray, " layer"]  # from the first to the second LayerNorm
    norm: Float[np.ndarray, " layer"]  # by the second LayerNorm without the MLP
    mlp: Float[np.ndarray, " layer"]  # what the MLP changes of that
    plain: Float[np.ndarray, " layer"]  # the whole on plain rows
    mlp_rises: Float[np.ndarray, " layer"]  # the share of documents in which the MLP raises it


@dataclass(frozen=True)
class LadderPhrases(Numbers):
    """The page's text, ranges over layers; ``large`` and ``permuted`` are means over seeds."""

    plain: str
    rising_layer: str
    rising_share: str
    interaction_trained: str
    interaction_large: str
    interaction_permuted: str
    sum_trained: str
    sum_large: str
    told_trained: str  # of what heads wrote, by layer input and output together
    told_last: str  # in the last layer of the trained network
    told_large: str
    told_permuted: str
    mlp_mixed_trained: str
    mlp_mixed_large: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder; pooled measures have all documents first, then every kind, and only these are units here."""
    rungs = load_rungs("bert-stream-ladder", inputs, PLACES)
    for name, measure in rungs.measures.items():
        if name not in STATIONS and name not in READ:
            rungs.measures[name] = DocumentLadder(measure.documents[1:], measure.controls)
    without, written = rungs["second without the MLP"], rungs["second LayerNorm"]
    rungs.measures["added by the MLP"] = DocumentLadder(
        written.documents - without.documents,
        {rung: values - without.controls[rung] for rung, values in written.controls.items()},
    )
    return rungs


def read_back_table(rungs: Rungs) -> pd.DataFrame:
    """Tabulate what is read back in MiniLM and in its controls, means over layers; of a control the range of seeds."""
    columns = {"MiniLM": {READ_NAMES[pair]: f"{rungs[pair].documents.mean():.2f}" for pair in READ}}
    for rung in LADDER:
        columns[rung] = {READ_NAMES[pair]: "{:.2f} to {:.2f}".format(*rungs[pair].range_of(rung)) for pair in READ}
    return pd.DataFrame(columns).rename_axis("share of the variance of")


def measure_anisotropy(rungs: Rungs) -> Anisotropy:
    """Split what the second half of a layer does to the mean cosine between its LayerNorm and its MLP."""
    first, norm, written, plain_first, plain_second = (rungs[name].documents for name in STATIONS[1:])
    by_mlp = written - norm
    return Anisotropy(
        *(
            (after - before).mean(0)
            for before, after in ((first, written), (first, norm), (norm, written), (plain_first, plain_second))
        ),
        (by_mlp > 0).mean(0),
    )


def phrase_rungs(rungs: Rungs, anisotropy: Anisotropy) -> LadderPhrases:
    """Write the ranges."""

    def signed(values: np.ndarray) -> str:
        return enumerated(values, "+.2f").replace("-", "\u2212")

    def span(values: np.ndarray, form: str = ".2f") -> str:
        return f"{values.min():{form}} to {values.max():{form}}"

    def control(name: str, rung: str) -> np.ndarray:
        return rungs[name].controls[rung].mean(0)

    interaction, additive, mixed = (rungs[name].documents.mean(0) for name in PANELS[:3])
    top, told = int(anisotropy.mlp.argmax()), rungs[BOTH].documents.mean(0)
    return LadderPhrases(
        plain=signed(anisotropy.plain),
        rising_layer=str(top),
        rising_share=percent(anisotropy.mlp_rises[top]),
        interaction_trained=span(interaction),
        interaction_large=span(control(PANELS[0], LARGE)),
        interaction_permuted=span(control(PANELS[0], PERMUTED)),
        sum_trained=span(additive),
        sum_large=span(control(PANELS[1], LARGE)),
        told_trained=span(told[:-1]),
        told_last=f"{told[-1]:.2f}".replace("-", "\u2212"),
        told_large=span(control(BOTH, LARGE)),
        told_permuted=span(control(BOTH, PERMUTED)),
        mlp_mixed_trained=span(mixed),
        mlp_mixed_large=span(control(PANELS[2], LARGE)),
    )
