"""What was known elsewhere, where it is needed: below each proven statement, at each finding, and as one table.

The role ``{known}`` with the label of an entry writes its line into a finding; propositions, theorems, lemmas and
corollaries get theirs by their own labels. The directive ``known-table`` lists all of them, page by page.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx_proof.proof_type import PROOF_TYPES

from book._ext.claims_table import row
from book._ext.verdicts import slug
from book.publish import execution, known

log = logging.getLogger(__name__)
Parse = Callable[[str], list[nodes.Node]]


FIRST = ("not found", "partly", "known", "one code base")
"""The degrees in the order of the table: what may be new comes first, what is about one code base last."""


def heading(text: str) -> nodes.row:
    """Write a row of one cell over all columns."""
    return nodes.row(
        "", nodes.entry("", nodes.paragraph("", "", nodes.strong(text=text)), morecols=2), classes=["known-head"]
    )


def in_words(day: date) -> str:
    """Write a day in words.

    >>> in_words(date(2026, 1, 2))
    '2 January 2026'
    """
    return f"{day.day} {day:%B %Y}"


def entries() -> dict[str, known.Known]:
    """Return the entries by label."""
    return {entry.label: entry for entry in known.entries()}


def line(entry: known.Known, parse: Parse) -> list[nodes.Node]:
    """Write an entry: its degree and what is said of it."""
    badge = nodes.inline(text=f"{known.DEGREES[entry.degree]}.", classes=["known-degree", slug(entry.degree)])
    return [badge, nodes.Text(" "), *parse(entry.text)]


def again(entry: known.Known, first: str) -> list[nodes.Node]:
    """Write an entry that says what another one said: its degree, and a link to the first."""
    link = nodes.reference("", "As above", internal=True, refid=first)
    return [*line(entry, lambda _: [link]), nodes.Text(".")]


def alike(chosen: Iterable[known.Known]) -> dict[known.Known, list[str]]:
    """Group entries by what they say; return the labels of each group."""
    groups = {}
    for entry in chosen:
        groups.setdefault(replace(entry, label=""), []).append(entry.label)
    return groups


class Line(SphinxRole):
    """``{known}`` with a label, or labels and commas: the lines of findings, each once; links find them by label.

    What a page has said of an earlier finding it does not say again: the line leads back there.
    """

    def run(self):
        """Look the labels up and write their lines."""
        self.env.note_dependency(str(known.FILE))
        labels, found = known.split(self.text), entries()
        if missing := [label for label in labels if label not in found]:
            text = f"{known.FILE.name} has no entry for {', '.join(missing)}"
            return [], [self.inliner.reporter.error(text, line=self.lineno)]
        messages = []

        def parse(text: str) -> list[nodes.Node]:
            parsed, said = self.inliner.parse(text, self.lineno, self, nodes.Element())
            messages.extend(said)
            return parsed

        said = self.env.temp_data.setdefault("known-elsewhere", {})
        return [
            nodes.inline(
                "",
                "",
                *(again(entry, said[entry]) if said.setdefault(entry, ids[0]) != ids[0] else line(entry, parse)),
                classes=["known-elsewhere"],
                ids=ids,
            )
            for entry, ids in alike(found[label] for label in labels).items()
        ], messages


class Proven:
    """A proven statement that ends with the line of its label."""

    def run(self):
        """Add the line to what the statement itself makes."""
        self.env.note_dependency(str(known.FILE))
        made, label = super().run(), self.options.get("label", "")
        if label not in entries():
            log.warning(
                "%s has no entry for the %s %r",
                known.FILE.name,
                self.name,
                label,
                location=(self.env.docname, self.lineno),
                type="known",
                subtype="missing",
            )
            return made
        messages = []

        def parse(text: str) -> list[nodes.Node]:
            parsed, said = self.state.inline_text(text, self.lineno)
            messages.extend(said)
            return parsed

        made[0][-1] += nodes.paragraph("", "", *line(entries()[label], parse), classes=["known-elsewhere"])
        return [*made, *messages]


class Table(SphinxDirective):
    """``known-table``: by degree, what was not found first; within a degree findings, then proven statements."""

    def run(self):
        """Count the degrees, then list the statements; a finding on two pages belongs to the later one."""
        self.env.note_dependency(str(known.FILE))
        found, stated = entries(), {}
        for page in known.pages():
            self.env.note_dependency(str(page))
            stated |= {s.label: s for s in known.statements(page) if s.label in found}
        degrees = Counter(found[label].degree for label in stated)
        counts = ", ".join(f"{degrees[degree]} {degree}" for degree in known.DEGREES)
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (32, 15, 53)), cols=3)
        heads = ("What the book states", "Degree", "Where it is known, and where the book differs")
        group += nodes.thead("", row([nodes.paragraph(text=head) for head in heads]))
        ordered = sorted(stated, key=lambda label: stated[label].kind in known.PROVEN)
        days = {found[label].date for label in stated}
        body = nodes.tbody()
        for degree in FIRST:
            chosen = alike(found[label] for label in ordered if found[label].degree == degree)
            if chosen:
                body += heading(f"{known.DEGREES[degree]}: {degrees[degree]}")
            body += [
                self.row([stated[label] for label in labels], entry, dated=len(days) > 1)
                for entry, labels in chosen.items()
            ]
        group += body
        when = f" All were searched for on {in_words(days.pop())}." if len(days) == 1 else ""
        return [
            nodes.paragraph(text=f"Of {len(stated)} findings and proven statements: {counts}.{when}"),
            nodes.table("", group, classes=["known-table", "colwidths-given"]),
        ]

    def row(self, statements: list[known.Statement], entry: known.Known, *, dated: bool) -> nodes.row:
        """Write statements of which the same is said, each with a link, the degree, perhaps its day, the sentence."""
        titles = {(s.page, s.title): s for s in reversed(statements)}  # one statement may have several labels
        what = nodes.container(
            "",
            *(nodes.paragraph("", "", *self.parse(f"{s.title}. "), *self.link(s)) for s in reversed(titles.values())),
        )
        degree = nodes.container(
            "",
            nodes.paragraph("", "", nodes.inline(text=entry.degree, classes=["known-degree", slug(entry.degree)])),
            *([nodes.paragraph(text=entry.date.isoformat(), classes=["known-day"])] if dated else []),
        )
        return row([what, degree, nodes.paragraph("", "", *self.parse(entry.text))])

    def link(self, statement: known.Statement) -> list[nodes.Node]:
        """Refer to a proven statement by its number, to a finding by its page."""
        if statement.kind in known.PROVEN:
            return self.parse(f"{{prf:ref}}`{statement.label}`")
        page = self.env.app.builder.get_relative_uri(self.env.docname, f"book/{statement.page}")
        words = f"In “{execution.title(statement.page)}”"
        return [nodes.reference("", words, internal=True, refuri=f"{page}#{statement.label}")]

    def parse(self, text: str) -> list[nodes.Node]:
        """Parse a line of MyST."""
        parsed, messages = self.state.inline_text(text, self.lineno)
        return [*parsed, *messages]


def setup(app):
    """Register the role, the table and the statements; sphinx-proof has registered its own."""
    app.setup_extension("sphinx_proof")
    for kind in known.PROVEN:
        app.add_directive_to_domain("prf", kind, type(kind.title(), (Proven, PROOF_TYPES[kind]), {}), override=True)
    app.add_role("known", Line())
    app.add_directive("known-table", Table)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
