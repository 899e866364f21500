"""Sphinx directive ``claims-table`` for the claims page; two roles for all pages.

The verdicts are read from the text outputs of the chapters as they were last executed, so the page cannot say what no
cell has computed; ``book_ext`` has these pages read again when anything was executed. A claim whose chapter is in the
book but has no verdict is a warning, which fails the build.
"""

import re
from collections.abc import Mapping
from itertools import pairwise

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from book._ext.verdicts import ORDER, anchor, fold, places, slug
from book.publish import execution, ledger
from book.publish.phrases import as_math, breakable

log = logging.getLogger(__name__)
OPEN = "open"
COLUMN = 62  # characters of TeX that a column of the table holds, more or less
LEAST = 12  # of a piece: a short one would stand on a line alone
PLACES = re.compile(r"[-+]|(?<=\\right\))(?=[A-Z])")  # in front of a sign, and between a bracket and the next factor
BRACKETS = [("{", "}"), ("(", ")"), ("[", "]"), (r"\left", r"\right")]


def for_a_column(claim: str) -> str:
    r"""Cut a claim's formulas as :func:`breakable` does, and what is still too long for a column, within its braces.

    Examples
    --------
    >>> print(for_a_column(r"$A=" + r"\{" + "X" * 50 + "-" + "Y" * 50 + r"\}$"))  # doctest: +ELLIPSIS
    $A$ ${}=\{X...X$ ${}-Y...Y\}$
    """
    return re.sub(
        r"\$([^$]+)\$", lambda formula: " ".join(f"${piece}$" for piece in _pieces(formula[1])), breakable(claim)
    )


def _pieces(formula: str) -> list[str]:
    if len(formula) <= COLUMN:
        return [formula]
    places = [m.start() for m in PLACES.finditer(formula) if LEAST <= m.start() <= len(formula) - LEAST]
    cuts = [0, *(place for place in places if _in_braces(formula[:place]))]
    pieces = [formula[start:end] for start, end in pairwise([*cuts, len(formula)])]
    return [f"{{}}{piece}" if piece[0] in "-+" else piece for piece in pieces]


def _in_braces(start: str) -> bool:
    """Say whether a formula's beginning ends outside all brackets but those that TeX does not pair."""
    plain = start.replace(r"\{", "").replace(r"\}", "")
    return all(plain.count(opening) == plain.count(closing) for opening, closing in BRACKETS)


class Ledger(SphinxDirective):
    """What directives of the ledger share: claims, verdicts, and tables of them."""

    def read(self) -> tuple[list[ledger.Claim], dict[str, ledger.Verdict]]:
        """Read the claims and the verdicts of the present execution."""
        self.env.note_dependency(str(ledger.FILE))
        self.env.claims_pages = {*getattr(self.env, "claims_pages", ()), self.env.docname}
        try:
            return list(ledger.claims()), ledger.collect(execution.executed_path())
        except ledger.BadLedger as error:
            raise self.error(str(error)) from error

    def inline(self, text: str) -> list[nodes.Node]:
        """Parse a line of MyST."""
        parsed, messages = self.state.inline_text(text, self.lineno)
        return [*parsed, *messages]

    def table(self, header: list[str], rows: list[nodes.row], widths: list[int], classes: list[str]) -> nodes.table:
        """Build a table from finished rows."""
        group = nodes.tgroup(cols=len(header))
        group += [nodes.colspec(colwidth=width) for width in widths]
        group += nodes.thead("", row([nodes.paragraph(text=word) for word in header]))
        group += nodes.tbody("", *rows)
        return nodes.table("", group, classes=classes)


def row(cells: list[nodes.Node], **attributes) -> nodes.row:
    """Make a table row of one node per cell."""
    return nodes.row("", *(nodes.entry("", cell) for cell in cells), **attributes)


def surprising_first(claims: list[ledger.Claim], verdicts: Mapping[str, ledger.Verdict]) -> list[ledger.Claim]:
    """Put claims in the order of :data:`verdicts.ORDER`; of one outcome those that stand on a document's card lead.

    A claim without a verdict comes last. What is equal stays in the order of the documents.
    """

    def rank(claim: ledger.Claim) -> tuple[int, bool]:
        return ORDER.index(verdicts[claim.id].outcome) if claim.id in verdicts else len(ORDER), not claim.headline

    return sorted(claims, key=rank)


class Table(Ledger):
    """``claims-table``: every claim with verdict, evidence and chapter; what may surprise stands first."""

    def run(self):
        """Build the table; warn of claims that their chapter leaves open."""
        claims, verdicts = self.read()
        self.warn([claim for claim in claims if claim.id not in verdicts])
        labels = self.env.domaindata["std"]["anonlabels"]
        labels.update({anchor("claim", c.id): (self.env.docname, anchor("claim", c.id)) for c in claims})
        return [self.of(ledger.testable(), verdicts, "claims")]

    def of(self, claims: list[ledger.Claim], verdicts: Mapping[str, ledger.Verdict], *names: str) -> nodes.table:
        """Build the table of some claims."""
        rows = [self.claim_row(claim, verdicts.get(claim.id)) for claim in surprising_first(claims, verdicts)]
        header = ["Claim", "What the document says", "Verdict", "What we found"]
        return self.table(header, rows, [8, 36, 14, 42], [*names, "colwidths-given"])

    def warn(self, claims: list[ledger.Claim]) -> None:
        """Warn of claims without a verdict, but for those of chapters that are awaited."""
        awaited = set(self.config.claims_awaited) - {name.removeprefix("book/") for name in self.env.found_docs}
        missing = [claim for claim in claims if claim.chapter not in awaited]
        for chapter in dict.fromkeys(c.chapter for c in missing):
            log.warning(
                "the chapter %s is %s and gives no verdict on %s",
                chapter,
                "in the book" if f"book/{chapter}" in self.env.found_docs else "not in the book",
                ", ".join(c.id for c in missing if c.chapter == chapter),
                location=(self.env.docname, self.lineno),
                type="claims",
                subtype="open",
            )

    def claim_row(self, claim: ledger.Claim, verdict: ledger.Verdict | None) -> nodes.row:
        """Build the row of a claim: id, place and wording, outcome, evidence with a link to the cell that found it."""
        outcome = verdict.outcome if verdict else OPEN
        said = nodes.container()
        said += nodes.paragraph("", "", *self.inline(ledger.place(claim)), classes=["claim-place"])
        said += nodes.paragraph("", "", *self.inline(for_a_column(claim.claim)))
        evidence = nodes.paragraph()
        if verdict:
            evidence += [*self.inline(as_math(verdict.evidence)), nodes.Text(" ")]
            evidence += [*places(claim.shown, self.env.docname), nodes.Text(" · ")] if claim.shown else []
            evidence += self.link(claim)
        elif claim.chapter:
            evidence += nodes.emphasis(text=f"To be judged in the chapter {claim.chapter}.")
        badge = nodes.paragraph("", "", nodes.inline(text=outcome, classes=["verdict-badge", slug(outcome)]))
        return row(
            [nodes.paragraph("", "", nodes.strong(text=claim.id)), said, badge, evidence],
            ids=[anchor("claim", claim.id)],
            classes=[
                "claim-row",
                f"document-{claim.id[0].lower()}",
                f"outcome-{slug(outcome)}",
                f"chapter-{slug(claim.chapter.rpartition('/')[2])}",
            ],
        )

    def link(self, claim: ledger.Claim) -> pending_xref:
        """Refer to the verdict in its chapter, by the chapter's title."""
        text = nodes.inline(text=f"In \u201c{execution.title(claim.chapter)}\u201d")
        return pending_xref(
            "",
            text,
            refdomain="std",
            reftype="ref",
            reftarget=anchor("verdict", claim.id),
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )


class Definitions(Table):
    """``definitions-table``: what is judged and not counted, a folded table for each document; misprints come first."""

    def run(self):
        """Build the tables."""
        claims, verdicts = self.read()
        found = []
        for letter, name in ledger.DOCUMENTS.items():
            own = [claim for claim in claims if claim.is_definition and claim.id[0] == letter]
            hold = sum(verdicts[claim.id].outcome == "reproduced" for claim in own if claim.id in verdicts)
            summary = f"{letter} · {name}: {len(own)}, of which {hold} hold as printed"
            found += fold("definitions", summary, [self.of(own, verdicts, "claims", "definitions")]) if own else []
        return found


class Evidence(SphinxRole):
    """``{evidence}`K-21```: what the verdict on a claim says, word for word, with a link to the cell that found it.

    Where no chapter has been executed, as on a page that was made alone, only the link stands.
    """

    def run(self):
        """Read the verdict of the present execution."""
        self.env.note_dependency(str(ledger.FILE))
        known = {claim.id: claim for claim in ledger.claims()}
        if self.text not in known:
            message = self.inliner.reporter.error(f"{self.text} is not in the ledger", line=self.lineno)
            return [], [message]
        self.env.evidence_pages = {*getattr(self.env, "evidence_pages", ()), self.env.docname}
        try:
            found = ledger.collect(execution.executed_path()).get(self.text)
        except ledger.BadLedger as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]
        said, messages = [], []
        if found:
            sentence = as_math(found.evidence)
            sentence = sentence[0].upper() + sentence[1:].removesuffix(".") + "."
            said, messages = self.inliner.parse(sentence, self.lineno, self, nodes.Element())
        page = found.chapter if found else known[self.text].chapter
        link = pending_xref(
            "",
            nodes.inline(text=f"Cell in “{execution.title(page)}”"),
            refdomain="std",
            reftype="ref",
            reftarget=anchor("verdict", self.text),
            refexplicit=True,
            refwarn=bool(found),
            refdoc=self.env.docname,
        )
        return [*said, nodes.Text(" " if said else ""), link, nodes.Text(".")], messages


class Number(SphinxRole):
    """``{claims-number}`all```: how many claims the ledger counts, of all documents or of that with the given letter.

    ``definitions`` is how many it judges and does not count.
    """

    def run(self):
        """Count."""
        self.env.note_dependency(str(ledger.FILE))
        if self.text not in ("all", "definitions", *ledger.DOCUMENTS):
            known = ", ".join(ledger.DOCUMENTS)
            said = f"claims-number takes 'all', 'definitions' or a document's letter ({known}), got {self.text!r}"
            return [], [self.inliner.reporter.error(said, line=self.lineno)]
        counted = [claim for claim in ledger.testable() if self.text in ("all", claim.id[0])]
        number = sum(claim.is_definition for claim in ledger.claims()) if self.text == "definitions" else len(counted)
        return [nodes.Text(str(number))], []


def setup(app):
    """Register directives and events."""
    app.add_config_value("claims_awaited", [], "env")  # chapters of the plan that this edition does without
    app.add_directive("claims-table", Table)
    app.add_directive("definitions-table", Definitions)
    app.add_role("evidence", Evidence())
    app.add_role("claims-number", Number())
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
