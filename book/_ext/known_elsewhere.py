"""What was known elsewhere, where it is needed: below each proven statement, at each finding, and as one table.

The role ``{known}`` with the label of an entry writes its line into a finding; propositions, theorems, lemmas and
corollaries get theirs by their own labels. The directive ``known-table`` lists all of them, page by page.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from docutils import nodes
from sphinx.util.docutils import SphinxRole
from sphinx_proof.proof_type import PROOF_TYPES

from book._ext.shared import Directive, row, spanning, table
from book._ext.verdicts import slug
from book.publish import execution, known

FIRST = ("not found", "partly", "known", "one code base")
"""The degrees in the order of the table: what may be new comes first, what is about one code base last."""


def entries() -> dict[str, known.Known]:
    """Return the entries by label."""
    return {entry.label: entry for entry in known.entries()}


def degree(entry: known.Known, text: str) -> nodes.inline:
    """Write a degree in its colour."""
    return nodes.inline(text=text, classes=["known-degree", slug(entry.degree)])


def line(entry: known.Known, *said: nodes.Node) -> list[nodes.Node]:
    """Write an entry: its degree and what is said of it."""
    return [degree(entry, f"{known.DEGREES[entry.degree]}."), nodes.Text(" "), *said]


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
        first, lines, messages = self.env.temp_data.setdefault("known-elsewhere", {}), [], []
        for entry, ids in alike(found[label] for label in labels).items():
            if first.setdefault(entry, ids[0]) != ids[0]:
                said = [nodes.reference("", "As above", internal=True, refid=first[entry]), nodes.Text(".")]
            else:
                said, more = self.inliner.parse(entry.text, self.lineno, self, nodes.Element())
                messages += more
            lines.append(nodes.inline("", "", *line(entry, *said), classes=["known-elsewhere"], ids=ids))
        return lines, messages


class Proven:
    """A proven statement that ends with the line of its label."""

    def run(self):
        """Add the line to what the statement itself makes."""
        self.env.note_dependency(str(known.FILE))
        entry = entries().get(label := self.options.get("label", ""))
        if entry is None:
            raise self.error(f"{known.FILE.name} has no entry for the {self.name} {label!r}")
        made = super().run()
        said, messages = self.state.inline_text(entry.text, self.lineno)
        made[0][-1] += nodes.paragraph("", "", *line(entry, *said), classes=["known-elsewhere"])
        return [*made, *messages]


class Table(Directive):
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
        ordered = sorted(stated, key=lambda label: stated[label].kind in known.PROVEN)
        days, rows = {found[label].date for label in stated}, []
        for each in FIRST:
            chosen = alike(found[label] for label in ordered if found[label].degree == each)
            if chosen:
                head = nodes.strong(text=f"{known.DEGREES[each]}: {degrees[each]}")
                rows.append(spanning(3, head, classes=["known-head"]))
            rows += [self.row([stated[x] for x in labels], entry, len(days) > 1) for entry, labels in chosen.items()]
        when = f" All were searched for on {known.in_words(days.pop())}." if len(days) == 1 else ""
        heads = ("What the book states", "Degree", "Where it is known, and where the book differs")
        return [
            nodes.paragraph(text=f"Of {len(stated)} findings and proven statements: {counts}.{when}"),
            table(heads, rows, (32, 15, 53), "known-table", "colwidths-given"),
        ]

    def row(self, statements: list[known.Statement], entry: known.Known, dated: bool) -> nodes.row:
        """Write statements of which the same is said, each with a link, the degree, perhaps its day, the sentence."""
        titles = {(s.page, s.title): s for s in reversed(statements)}  # one statement may have several labels
        what, when = nodes.container(), nodes.container("", nodes.paragraph("", "", degree(entry, entry.degree)))
        for s in reversed(titles.values()):
            what += nodes.paragraph("", "", *self.inline(f"{s.title}. "), *self.link(s))
        if dated:
            when += nodes.paragraph(text=entry.date.isoformat(), classes=["known-day"])
        return row([what, when, nodes.paragraph("", "", *self.inline(entry.text))])

    def link(self, statement: known.Statement) -> list[nodes.Node]:
        """Refer to a proven statement by its number, to a finding by its page."""
        if statement.kind in known.PROVEN:
            return self.inline(f"{{prf:ref}}`{statement.label}`")
        page = self.env.app.builder.get_relative_uri(self.env.docname, f"book/{statement.page}")
        words = f"In “{execution.title(statement.page)}”"
        return [nodes.reference("", words, internal=True, refuri=f"{page}#{statement.label}")]


def setup(app):
    """Register the role, the table and the statements; sphinx-proof has registered its own."""
    app.setup_extension("sphinx_proof")
    for kind in known.PROVEN:
        app.add_directive_to_domain("prf", kind, type(kind.title(), (Proven, PROOF_TYPES[kind]), {}), override=True)
    app.add_role("known", Line())
    app.add_directive("known-table", Table)
