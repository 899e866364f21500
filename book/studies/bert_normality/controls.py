"""What the ladder of controls says of the chapter's statements about training."""

from dataclasses import dataclass

from analysis.models.controls import LARGE, PERMUTED, SHARP
from book.publish import Inputs, Numbers
from book.publish.phrases import first_to_last, percent
from book.studies.shared.documents import Rungs, load_rungs

PANELS = ("plain rows that fail", "mean cosine", "largest singular value", "row entropy")
PLACES = {
    "rows that fail": ("first_failing",),
    "plain rows that fail": ("bare_failing",),
    "sum": ("D_sum",),
    "total": ("D_total",),
    "mean cosine": ("cosine",),
    "cone index per token": ("cone",),
    "plain index per token": ("cone_bare",),
    "resultant": ("resultant",),
    "largest singular value": ("largest",),
    "stable rank": ("stable_rank",),
    "row entropy": ("entropy",),
}


@dataclass(frozen=True)
class ControlPhrases(Numbers):
    """Means over layers and seeds in the page's text; a climb is from the first layer to the last."""

    plain_trained: str
    plain_random: str
    plain_permuted: str
    rows_permuted: str
    climb_trained: str
    climb_large: str
    climb_permuted: str
    sigma_trained: str
    sigma_large: str
    sigma_permuted: str
    sigma_dip: str
    entropy_trained: str
    entropy_sharp: str
    entropy_permuted: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder."""
    return load_rungs("bert-normality-ladder", inputs, PLACES)


def phrase_rungs(rungs: Rungs) -> ControlPhrases:
    """Write the means."""

    def share(name: str, rung: str) -> str:
        return percent(rungs[name].controls[rung].mean())

    def climb(name: str, rung: str | None = None) -> str:
        layers = rungs[name].documents.mean(0) if rung is None else rungs[name].controls[rung].mean(0)
        return first_to_last(layers)

    largest = rungs["largest singular value"].documents
    entropy = rungs["row entropy"]
    return ControlPhrases(
        plain_trained=percent(rungs["plain rows that fail"].documents.mean()),
        plain_random=share("plain rows that fail", SHARP),
        plain_permuted=share("plain rows that fail", PERMUTED),
        rows_permuted=share("rows that fail", PERMUTED),
        climb_trained=climb("mean cosine"),
        climb_large=climb("mean cosine", LARGE),
        climb_permuted=climb("mean cosine", PERMUTED),
        sigma_trained=climb("largest singular value"),
        sigma_large=climb("largest singular value", LARGE),
        sigma_permuted=climb("largest singular value", PERMUTED),
        sigma_dip=percent((largest[:, -1] < largest[:, -2]).mean()),
        entropy_trained=f"{entropy.documents.mean(0).min():.2f}",
        entropy_sharp=f"{entropy.controls[SHARP].mean(0).min():.2f}",
        entropy_permuted=f"{entropy.controls[PERMUTED].mean(0).min():.2f}",
    )
