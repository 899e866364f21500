"""Sphinx directive ``document-cards``: the five documents, each with what held and what did not.

Author, title, year and address come from the references; chapters and headlines from the claims; verdicts and their
counts from what the chapters' cells printed.
"""

import re
from pathlib import Path

from docutils import nodes
from pybtex.database import Entry, parse_file
from sphinx.addnodes import pending_xref

from book._ext.claims_table import OPEN, Ledger
from book._ext.verdicts import anchor, slug
from book.publish import execution, ledger

REFERENCES = ledger.ROOT / "book" / "references.bib"


def authors(entry: Entry) -> str:
    """Return the family names.

    >>> authors(parse_file(str(REFERENCES)).entries["bonino2025geometry"])
    'Bonino, Ghione and Cirrincione'
    """
    names = [re.sub(r"[{}]", "", " ".join(person.last_names)) for person in entry.persons["author"]]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def year(entry: Entry) -> str:
    """Return the year without the letter that tells an author's works apart.

    >>> year(Entry("misc", {"year": "2025a"})), year(Entry("misc", {"year": "n.d."}))
    ('2025', 'no date')
    """
    found = re.match(r"\d{4}", entry.fields["year"])
    return found[0] if found else "no date"


def address(entry: Entry) -> str:
    """Return where the document is, or nothing.

    >>> address(Entry("misc", {"howpublished": "arXiv:2502.12033"}))
    'https://arxiv.org/abs/2502.12033'
    """
    on_arxiv = re.fullmatch(r"arXiv:(\S+)", entry.fields.get("howpublished", ""))
    return f"https://arxiv.org/abs/{on_arxiv[1]}" if on_arxiv else entry.fields.get("url", "")


def counted(outcomes: list[str]) -> str:
    """Count outcomes in words.

    >>> counted(["corrected", "reproduced", "reproduced"])
    '3 claims: 2 reproduced, 1 corrected'
    """
    counts = [f"{outcomes.count(o)} {o}" for o in (*ledger.OUTCOMES, OPEN) if o in outcomes]
    return f"{len(outcomes)} claims: {', '.join(counts)}"


class Cards(Ledger):
    """One card a document."""

    def run(self):
        """Write the cards, as a list."""
        _, verdicts = self.read()
        self.env.note_dependency(str(REFERENCES))
        entries = parse_file(str(REFERENCES)).entries
        cards = [
            self.card(letter, entries[key], [c for c in ledger.testable() if c.id[0] == letter], verdicts)
            for letter, key in ledger.SOURCES.items()
        ]
        return [nodes.bullet_list("", *cards, classes=["document-cards"])]

    def card(self, letter: str, entry: Entry, claims: list[ledger.Claim], verdicts: dict) -> nodes.list_item:
        """Write one card: whose it is, where to read on, its headlines, the counts."""
        title, where = re.sub(r"[{}]", "", entry.fields["title"]), address(entry)
        linked = nodes.reference("", title, refuri=where) if where else nodes.inline(text=title)
        head = nodes.paragraph("", "", nodes.strong("", "", linked), nodes.Text(f" {authors(entry)}, {year(entry)}"))
        outcomes = [verdicts[c.id].outcome if c.id in verdicts else OPEN for c in claims]
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/claims")
        counts = nodes.reference("", counted(outcomes), internal=True, refuri=f"{page}?document={letter}")
        here = nodes.paragraph("", "", nodes.Text("Here: "))
        chapters = {c.chapter for c in claims}
        pages = [page.removeprefix("book/") for page in execution.listed(Path(self.env.srcdir))]
        for n, chapter in enumerate(page for page in pages if page in chapters):
            here += [*([nodes.Text(", ")] if n else []), self.chapter(chapter)]
        rank = {claim_id: ledger.OUTCOMES.index(verdict.outcome) for claim_id, verdict in verdicts.items()}
        ordered = sorted((c for c in claims if c.headline), key=lambda c: rank.get(c.id, len(rank)))  # what held, first
        headlines = [self.headline(c, verdicts) for c in ordered]
        return nodes.list_item("", head, *headlines, nodes.paragraph("", "", counts, nodes.Text(".")), here)

    def headline(self, claim: ledger.Claim, verdicts: dict) -> nodes.paragraph:
        """Write a claim in a sentence, with the verdict on it as a link to its cell."""
        outcome = verdicts[claim.id].outcome if claim.id in verdicts else OPEN
        link = pending_xref(
            "",
            nodes.inline(text=outcome, classes=["verdict-badge", slug(outcome)]),
            refdomain="std",
            reftype="ref",
            refexplicit=True,
            reftarget=anchor("verdict", claim.id),
            refwarn=claim.id in verdicts,
            refdoc=self.env.docname,
        )
        return nodes.paragraph("", "", *self.inline(claim.headline), nodes.Text(" "), link, classes=["headline"])

    def chapter(self, name: str) -> pending_xref:
        """Refer to a chapter by its title."""
        return pending_xref(
            "",
            nodes.inline(text=name),
            refdomain="std",
            reftype="doc",
            refexplicit=False,
            reftarget=f"/book/{name}",
            refwarn=False,
            refdoc=self.env.docname,
        )


def setup(app):
    """Register the directive."""
    app.add_directive("document-cards", Cards)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
