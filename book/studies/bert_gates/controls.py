"""What the ladder of controls says of gates: patterns, compositions, and whether a query bias makes the columns."""

from dataclasses import dataclass

from analysis.maps import gates
from analysis.models.controls import LARGE, PERMUTED, SHARP
from analysis.statistics.intervals import Interval
from book.publish import Inputs, Numbers
from book.publish.phrases import percent
from book.studies.bert_gates.experiments import QUERIES
from book.studies.shared.documents import Rungs, load_rungs

PANELS = ("maps with a pattern", "maps with two or more", "columns", "diagonals", "clusters", "row entropy")
GATE = {name: ("gates", gates.GATES.index(name)) for name in gates.GATES}
PLACES = {
    "maps with a pattern": ("patterned",),
    "maps with two or more": ("composed",),
    "columns": GATE["directional"],
    "open": GATE["open"],
    "backward": GATE["backward"],
    "forward": GATE["forward"],
    "clusters": GATE["cluster"],
    "row entropy": ("entropy",),
    "first of columns": ("first of columns",),
    **{f"columns, {way}": ("columns", place) for place, way in enumerate(QUERIES)},
}


@dataclass(frozen=True)
class LadderNumbers(Numbers):
    """Means over layers, documents and seeds in the page's text, in per cent."""

    patterned_trained: str
    patterned_sharp: str
    patterned_large: str
    patterned_permuted: str
    composed_trained: str
    composed_sharp: str
    composed_large: str
    composed_permuted: str
    columns_trained_own: str
    columns_trained_none: str
    columns_trained_centred: str
    columns_sharp: str
    columns_sharp_centred: str
    columns_sharp_lent: str
    columns_permuted_own: str
    columns_permuted_none: str
    diagonals_trained: str
    diagonals_most: str
    clusters_trained: str
    clusters_most: str
    first_trained: str
    first_most: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder, and add the three diagonals up."""
    rungs = load_rungs("bert-gates-ladder", inputs, PLACES)
    rungs.measures["diagonals"] = rungs["open"] + rungs["backward"] + rungs["forward"]
    return rungs


def beside(rungs: Rungs) -> dict[str, tuple[Interval, dict[str, tuple[float, float]]]]:
    """Return, by what is counted, the trained share with its interval and the ranges of two controls, in words."""
    counted = {
        "maps with any gate": "maps with a pattern",
        "attention on columns": "columns",
        "maps with two gates or more": "maps with two or more",
        "attention on diagonals": "diagonals",
        "attention on clusters": "clusters",
    }
    said = {"random weights as large": SHARP, "trained weights shuffled": PERMUTED}
    return {
        words: (rungs[name].whole, {label: rungs[name].range_of(rung) for label, rung in said.items()})
        for words, name in counted.items()
    }


def ladder_numbers(rungs: Rungs) -> LadderNumbers:
    """Write the means; ``most`` is that of the highest rung."""

    def trained(name: str) -> str:
        return percent(rungs[name].documents.mean())

    def rung(name: str, which: str) -> str:
        return percent(rungs[name].controls[which].mean())

    def most(name: str) -> str:
        return percent(max(values.mean() for values in rungs[name].controls.values()), 1)

    kinds = {"sharp": SHARP, "large": LARGE, "permuted": PERMUTED}
    counts = {
        f"{word}_{short}": rung(name, which)
        for short, which in kinds.items()
        for word, name in (("patterned", "maps with a pattern"), ("composed", "maps with two or more"))
    }
    return LadderNumbers(
        patterned_trained=trained("maps with a pattern"),
        composed_trained=trained("maps with two or more"),
        **counts,
        columns_trained_own=trained("columns, own"),
        columns_trained_none=trained("columns, none"),
        columns_trained_centred=trained("columns, centred"),
        columns_sharp=rung("columns, own", SHARP),
        columns_sharp_centred=rung("columns, centred", SHARP),
        columns_sharp_lent=rung("columns, trained", SHARP),
        columns_permuted_own=rung("columns, own", PERMUTED),
        columns_permuted_none=rung("columns, none", PERMUTED),
        diagonals_trained=trained("diagonals"),
        diagonals_most=most("diagonals"),
        clusters_trained=trained("clusters"),
        clusters_most=most("clusters"),
        first_trained=trained("first of columns"),
        first_most=most("first of columns"),
    )
