"""Sphinx directive ``at-a-glance <document>``: each numbered element of a document beside ours, with the verdicts.

The elements are read from the places of the claims: figures, tables, and numbered equations and statements; a document
that numbers nothing is listed by the places themselves. ``side-by-side`` has the measures behind the paper's figures.
"""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref

from book._ext.claims_table import OPEN, Ledger, for_a_column, row
from book._ext.verdicts import anchor, places, slug
from book.publish import ledger

ELEMENT = re.compile(
    r"Fig\. ?(?P<figure>\d+)|Table (?P<table>\d+)|\((?P<equation>\d\.\d+)\)|"
    r"(?:Thm|Prop|Rem) (?P<statement>\d(?:\.\d+)+)",
    re.IGNORECASE,
)
NAMES = {"figure": "Fig. {}", "table": "Table {}", "statement": "statement {}", "equation": "({})"}


def elements(claim: ledger.Claim) -> list[str]:
    """Return what a claim's place names: ``Fig. 8``, ``(3.4)``; the place itself for a document without numbers.

    Examples
    --------
    >>> elements(ledger.Claim("B-72", "", "5.1, Fig.8", "", "")), elements(ledger.Claim("K-07", "", "line 3", "", ""))
    (['Fig. 8'], ['line 3'])
    """
    numbered = [NAMES[match.lastgroup].format(match[match.lastgroup]) for match in ELEMENT.finditer(claim.place)]
    return numbered or ([] if claim.id[0] == "B" else [claim.place])


def in_order(names: list[str]) -> list[str]:
    """Put figures before tables, tables before statements, statements before equations; each kind by number."""
    kinds = ["Fig.", "Table", "statement", "("]

    def key(name: str) -> tuple:
        kind = next((n for n, start in enumerate(kinds) if name.startswith(start)), len(kinds))
        return kind, [int(part) for part in re.findall(r"\d+", name)] if kind < len(kinds) else []

    return sorted(names, key=key)


class AtAGlance(Ledger):
    """The table of one document."""

    required_arguments = 1

    def run(self):
        """Build the table, a row per element."""
        (letter,) = self.arguments
        claims, verdicts = self.read()
        by_element: dict[str, list[ledger.Claim]] = {}
        for claim in claims:
            for name in elements(claim) if claim.id[0] == letter else []:
                by_element.setdefault(name, []).append(claim)
        if not by_element:
            raise self.error(f"no claim of a document {letter!r} has a place; known: {', '.join(ledger.DOCUMENTS)}")
        rows = [self.element(name, by_element[name], verdicts) for name in in_order(list(by_element))]
        header = ["There", "What it says", "Here", "Verdict"]
        return [self.table(header, rows, [18, 36, 22, 24], ["claims", "colwidths-given"])]

    def element(self, name: str, claims: list[ledger.Claim], verdicts: dict[str, ledger.Verdict]) -> nodes.row:
        """Write an element's row: its name, its claims, our figures and sections, the verdicts."""
        says, ours, judged = nodes.container(), nodes.container(), nodes.container()
        for claim in claims:
            says += nodes.paragraph("", "", *self.inline(for_a_column(claim.claim)))
            judged += nodes.paragraph("", "", *self.verdict(claim, verdicts.get(claim.id)))
        for label in dict.fromkeys(label for claim in claims for label in claim.shown.split()):
            ours += nodes.paragraph("", "", *places(label, self.env.docname))
        head = nodes.paragraph("", "", *self.inline(name))
        return row([head, says, ours, judged], classes=["claim-row"])

    def verdict(self, claim: ledger.Claim, verdict: ledger.Verdict | None) -> list[nodes.Node]:
        """Write a verdict as a link to its evidence in the chapter."""
        outcome = verdict.outcome if verdict else OPEN
        badge = nodes.inline(text=outcome, classes=["verdict-badge", slug(outcome)])
        link = pending_xref(
            "",
            nodes.inline(text=claim.id),
            refdomain="std",
            reftype="ref",
            refexplicit=True,
            reftarget=anchor("verdict" if verdict else "claim", claim.id),
            refwarn=bool(verdict),
            refdoc=self.env.docname,
        )
        return [link, nodes.Text(" "), badge]


class SideBySide(Ledger):
    """The measures behind the paper's figures in the trained models and in their controls."""

    def run(self):
        """Build the table: for each measure a row that names it, and a row per model."""
        from book.studies.shared import side_by_side

        rows = []
        for measure, by_model in side_by_side.compare():
            title = nodes.paragraph(
                "", "", nodes.strong(text=f"The paper's {measure.there}"), nodes.Text(f": {measure.name}")
            )
            rows.append(nodes.row("", nodes.entry("", title, morecols=len(side_by_side.NETWORKS)), classes=["measure"]))
            rows += [
                row([nodes.paragraph(text=text) for text in (side_by_side.MODELS[model], *cells)])
                for model, cells in by_model.items()
            ]
        return [
            self.table(
                ["model", *side_by_side.NETWORKS], rows, [36, *[16] * len(side_by_side.NETWORKS)], ["side-by-side"]
            )
        ]


def setup(app):
    """Register the directives."""
    app.add_directive("at-a-glance", AtAGlance)
    app.add_directive("side-by-side", SideBySide)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
