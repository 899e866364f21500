"""Sphinx directives for the claims page, ``claims-counts`` and ``claims-table <document>``; two roles for all pages.

The verdicts are read from the text outputs of the chapters as they were last executed, so the page cannot say what no
cell has computed; ``book_ext`` has these pages read again when anything was executed. A claim whose chapter is in the
book but has no verdict is a warning, which fails the build.
"""

import re
from itertools import pairwise

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from book._ext.verdicts import anchor, places, slug
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
    """What both directives share: claims, verdicts, and tables of them."""

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


class Counts(Ledger):
    """``claims-counts``: how many claims of each document have which outcome."""

    def run(self):
        """Count; the last row sums."""
        claims, verdicts = self.read()
        found = [(c.id[0], verdicts[c.id].outcome if c.id in verdicts else OPEN) for c in claims]
        outcomes = [*ledger.OUTCOMES, *([OPEN] if any(outcome == OPEN for _, outcome in found) else [])]
        rows = []
        for letter in [*dict.fromkeys(letter for letter, _ in found), ""]:
            mine = [outcome for its, outcome in found if not letter or its == letter]
            name = f"{letter} · {ledger.DOCUMENTS[letter]}" if letter else "All documents"
            words = [name, *(str(mine.count(outcome)) for outcome in outcomes), str(len(mine))]
            rows.append(row([nodes.paragraph(text=word) for word in words], classes=[] if letter else ["total"]))
        header = ["Document", *outcomes, "all"]
        return [self.table(header, rows, [30, *[10] * (len(header) - 1)], ["claims-counts"])]


class Table(Ledger):
    """``claims-table <letter>``: the claims of a document with verdict, evidence and chapter."""

    required_arguments = 1

    def run(self):
        """Build the table; warn of claims that their chapter leaves open."""
        (letter,) = self.arguments
        claims, verdicts = self.read()
        mine = [c for c in claims if c.id[0] == letter]
        if not mine:
            raise self.error(f"no claim has an id that begins with {letter!r}; known: {', '.join(ledger.DOCUMENTS)}")
        awaited = set(self.config.claims_awaited) - {name.removeprefix("book/") for name in self.env.found_docs}
        missing = [c for c in mine if c.id not in verdicts and c.chapter not in awaited]
        for chapter in dict.fromkeys(c.chapter for c in missing):
            ids = ", ".join(c.id for c in missing if c.chapter == chapter)
            here = f"book/{chapter}" in self.env.found_docs
            log.warning(
                "the chapter %s is %s and gives no verdict on %s",
                chapter,
                "in the book" if here else "not in the book",
                ids,
                location=(self.env.docname, self.lineno),
                type="claims",
                subtype="open",
            )
        labels = self.env.domaindata["std"]["anonlabels"]
        labels.update({anchor("claim", c.id): (self.env.docname, anchor("claim", c.id)) for c in mine})
        rows = [self.claim_row(claim, verdicts.get(claim.id)) for claim in mine]
        return [
            self.table(
                ["Claim", "What it says", "Verdict", "Evidence"], rows, [10, 32, 16, 42], ["claims", "colwidths-given"]
            )
        ]

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
            classes=["claim-row", f"document-{claim.id[0].lower()}", f"outcome-{slug(outcome)}"],
        )

    def link(self, claim: ledger.Claim) -> pending_xref:
        """Refer to the verdict's cell in its chapter."""
        text = nodes.inline(text="In the chapter")
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
    """``{claims-number}`all```: how many claims the ledger has, of all documents or of that with the given letter."""

    def run(self):
        """Count."""
        self.env.note_dependency(str(ledger.FILE))
        if self.text != "all" and self.text not in ledger.DOCUMENTS:
            known = ", ".join(ledger.DOCUMENTS)
            message = f"claims-number takes 'all' or a document's letter ({known}), got {self.text!r}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        counted = sum(self.text in ("all", claim.id[0]) for claim in ledger.claims())
        return [nodes.Text(str(counted))], []


def setup(app):
    """Register directives and events."""
    app.add_config_value("claims_awaited", [], "env")  # chapters of the plan that this edition does without
    app.add_directive("claims-counts", Counts)
    app.add_directive("claims-table", Table)
    app.add_role("evidence", Evidence())
    app.add_role("claims-number", Number())
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
