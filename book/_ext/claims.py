"""The ledger on pages: its table with a filter, the documents as cards, a figure, a copy as JSON; two roles.

The verdicts are read from the text outputs of the chapters as they were last executed, so the page cannot say what no
cell has computed; ``book_ext`` has these pages read again when anything was executed. A claim without
a verdict is a warning, which fails the build.
"""

import html
import re
from collections.abc import Mapping
from pathlib import Path

from docutils import nodes
from matplotlib.figure import Figure as Drawing
from pybtex.database import Entry, parse_file
from sphinx.addnodes import pending_xref
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from analysis.core.files import write_json
from analysis.plotting import style
from book._ext.shared import DRAWN, Directive, fold, give_scripts, note, row, save, spanning, table, xref
from book._ext.verdicts import anchor, places, slug
from book.publish import execution, ledger
from book.publish.phrases import COLUMN, as_math, breakable
from claims_kit.ledger import OPEN, ORDER, count, counted, outcome_of, surprising_first

log = logging.getLogger(__name__)
REFERENCES = ledger.ROOT / "book" / "references.bib"


class Ledger(Directive):
    """What directives of the ledger share: claims and verdicts."""

    def read(self) -> dict[str, ledger.Verdict]:
        """Read the verdicts of the present execution."""
        self.env.note_dependency(str(ledger.FILE))
        note(self.env)
        try:
            return ledger.collect(execution.executed_path())
        except ledger.BadLedger as error:
            raise self.error(str(error)) from error


class Table(Ledger):
    """``claims-table``: every claim with verdict, evidence and chapter; what may surprise stands first."""

    def run(self):
        """Build the table; warn of claims that their chapter leaves open."""
        verdicts = self.read()
        awaited: dict[str, list[str]] = {}
        for claim in ledger.claims():
            if claim.id not in verdicts:
                awaited.setdefault(claim.chapter, []).append(claim.id)
        for chapter, ids in awaited.items():
            where = self.env.docname, self.lineno
            log.warning("the chapter %s gives no verdict on %s", chapter, ", ".join(ids), location=where)
        names = (anchor("claim", claim.id) for claim in ledger.claims())
        self.env.domaindata["std"]["anonlabels"].update({name: (self.env.docname, name) for name in names})
        return [self.of(ledger.testable(), verdicts, "claims")]

    def of(self, claims: list[ledger.Claim], verdicts: Mapping[str, ledger.Verdict], *names: str) -> nodes.table:
        """Build the table of some claims; of one outcome those that stand on a document's card lead."""
        ordered = surprising_first(sorted(claims, key=lambda claim: not claim.headline), verdicts)
        rows = [self.claim_row(claim, verdicts.get(claim.id)) for claim in ordered]
        header = ["Claim", "What the document says", "Verdict", "What we found"]
        return table(header, rows, [8, 36, 14, 42], *names, "colwidths-given")

    def claim_row(self, claim: ledger.Claim, verdict: ledger.Verdict | None) -> nodes.row:
        """Build the row of a claim: id, place and wording, outcome, evidence with a link to the cell that found it."""
        outcome, here = verdict.outcome if verdict else OPEN, self.env.docname
        said = nodes.container()
        said += nodes.paragraph("", "", *self.inline(ledger.place(claim)), classes=["claim-place"])
        said += nodes.paragraph("", "", *self.inline(breakable(claim.claim, COLUMN)))
        evidence = nodes.paragraph()
        if verdict:
            evidence += [*self.inline(as_math(verdict.evidence)), nodes.Text(" ")]
            evidence += [*places(claim.shown, here), nodes.Text(" · ")] if claim.shown else []
            evidence += to_verdict(here, claim.id, f"In \u201c{execution.title(claim.chapter)}\u201d")
        elif claim.chapter:
            evidence += nodes.emphasis(text=f"To be judged in the chapter {claim.chapter}.")
        chapter = slug(claim.chapter.rpartition("/")[2])
        kinds = (f"document-{claim.id[0].lower()}", f"outcome-{slug(outcome)}", f"chapter-{chapter}")
        cells = [nodes.paragraph("", "", nodes.strong(text=claim.id)), said, nodes.paragraph("", "", badge(outcome))]
        return row([*cells, evidence], ids=[anchor("claim", claim.id)], classes=["claim-row", *kinds])


def badge(outcome: str) -> nodes.inline:
    """Write an outcome in its colour."""
    return nodes.inline(text=outcome, classes=["verdict-badge", slug(outcome)])


def to_verdict(docname: str, claim_id: str, words: str | nodes.Node, *, warn: bool = True) -> pending_xref:
    """Refer to the cell that judges a claim."""
    return xref(docname, "ref", anchor("verdict", claim_id), words, warn=warn)


class Definitions(Table):
    """``definitions-table``: what is judged and not counted, a folded table for each document; misprints come first."""

    def run(self):
        """Build the tables."""
        verdicts, found = self.read(), []
        for letter, name in ledger.DOCUMENTS.items():
            own = [claim for claim in ledger.claims() if claim.is_definition and claim.id[0] == letter]
            hold = sum(verdicts[claim.id].outcome == "reproduced" for claim in own if claim.id in verdicts)
            summary = f"{letter} · {name}: {len(own)}, of which {hold} hold as printed"
            found += fold("definitions", summary, [self.of(own, verdicts, "claims", "definitions")]) if own else []
        return found


class Figure(Ledger):
    """``claims-figure``: verdicts by document, drawn from what the chapters printed; the body is the caption."""

    def run(self):
        """Draw the figure and put it on the page, with an alt text that gives the numbers."""
        counts = ledger.count(self.read())
        path = save(draw_verdicts(counts), Path(self.env.srcdir, DRAWN, "fig-claims"))
        return [self.figure(path, "fig-claims", alt(counts))]


def draw_verdicts(counts: Mapping[str, Mapping[str, int]]) -> Drawing:
    """Draw one bar per document, cut into its verdicts, from document's letter to outcome to number of claims."""
    fig, ax = style.new(size="strip")
    rows = [f"{letter} · {ledger.DOCUMENTS[letter]}" for letter in counts]
    left = [0] * len(rows)
    for outcome in next(iter(counts.values())):
        sizes = [counts[letter][outcome] for letter in counts]
        if not any(sizes):
            continue
        ax.barh(rows, sizes, left=left, color=style.VERDICTS[outcome], label=f"{outcome} ({sum(sizes)})", height=0.72)
        ink = style.COLOURS["ink" if outcome in ("open", "conditional") else "paper"]  # on a pale bar, on a dark one
        for y, (start, size) in enumerate(zip(left, sizes, strict=True)):
            if size > 2:
                ax.text(start + size / 2, y, size, ha="center", va="center", color=ink)
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("claims")
    fig.legend(loc="outside upper center", ncols=6, columnspacing=1.0, handlelength=1)
    return fig


def alt(counts: dict[str, dict[str, int]]) -> str:
    """Say in words what the figure shows."""
    said = [
        f"{ledger.DOCUMENTS[letter]}: " + ", ".join(f"{n} {outcome}" for outcome, n in its.items() if n)
        for letter, its in counts.items()
    ]
    return "Five horizontal bars, one per document, cut by verdict. " + "; ".join(said) + "."


class Filter(Ledger):
    """``claims-filter``: choose a document, a verdict, a chapter, words, an order; and a link to the copy as data."""

    def run(self):
        """Write the form; the script shows it."""
        self.read()
        documents = {letter.lower(): f"{letter} · {name}" for letter, name in ledger.DOCUMENTS.items()}
        outcomes = {o.replace(" ", "-"): o for o in (*ORDER, OPEN)}
        chapters = {c.chapter.rpartition("/")[2]: execution.title(c.chapter) for c in ledger.testable()}
        up = "../" * self.env.docname.count("/")
        form = (
            '<form class="claims-filter" role="search" aria-label="Filter the claims" hidden>'
            + choice("document", "Document", {"": "all", **documents})
            + choice("verdict", "Verdict", {"": "all", **outcomes})
            + choice("chapter", "Chapter", {"": "all", **chapters})
            + '<label>Words <input type="search" name="words" autocomplete="off"/></label>'
            + choice("order", "Order", {"": "what may surprise first", "documents": "as in the documents"})
            + '<button type="reset">Show all</button><output aria-live="polite"></output></form>'
            f'<p>The same as data: <a href="{up}ledger.json" download="ledger.json">ledger.json</a>.</p>'
        )
        return [nodes.raw("", form, format="html")]


def choice(name: str, label: str, options: dict[str, str]) -> str:
    """Write a field that offers texts by their values.

    >>> choice("order", "Order", {"": "any"})
    '<label>Order <select name="order"><option value="">any</option></select></label>'
    """
    items = "".join(f'<option value="{html.escape(v)}">{html.escape(t)}</option>' for v, t in options.items())
    return f'<label>{label} <select name="{name}">{items}</select></label>'


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


class Cards(Ledger):
    """``document-cards``: for each document source, chapters, two headlines with their verdicts, and the counts."""

    def run(self):
        """Write the cards, as a list."""
        verdicts = self.read()
        self.env.note_dependency(str(REFERENCES))
        entries = parse_file(str(REFERENCES)).entries
        cards = [self.card(letter, entries[key], verdicts) for letter, key in ledger.SOURCES.items()]
        return [nodes.bullet_list("", *cards, classes=["document-cards"])]

    def card(self, letter: str, entry: Entry, verdicts: dict) -> nodes.list_item:
        """Write one card: whose it is, where to read on, its headlines, the counts."""
        claims = [claim for claim in ledger.testable() if claim.id[0] == letter]
        title, where = re.sub(r"[{}]", "", entry.fields["title"]), address(entry)
        linked = nodes.reference("", title, refuri=where) if where else nodes.inline(text=title)
        head = nodes.paragraph("", "", nodes.strong("", "", linked), nodes.Text(f" {authors(entry)}, {year(entry)}"))
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/claims")
        words = counted(count(claims, verdicts))
        counts = nodes.reference("", words, internal=True, refuri=f"{page}?document={letter}")
        here, chapters = nodes.paragraph("", "", nodes.Text("Here: ")), {c.chapter for c in claims}
        pages = [page.removeprefix("book/") for page in execution.listed(Path(self.env.srcdir))]
        for n, chapter in enumerate(page for page in pages if page in chapters):
            link = xref(self.env.docname, "doc", f"/book/{chapter}", chapter, warn=False, refexplicit=False)
            here += [*([nodes.Text(", ")] if n else []), link]
        rank = {claim_id: ledger.OUTCOMES.index(verdict.outcome) for claim_id, verdict in verdicts.items()}
        ordered = sorted((c for c in claims if c.headline), key=lambda c: rank.get(c.id, len(rank)))  # what held, first
        headlines = [self.headline(c, verdicts) for c in ordered]
        return nodes.list_item("", head, *headlines, nodes.paragraph("", "", counts, nodes.Text(".")), here)

    def headline(self, claim: ledger.Claim, verdicts: dict) -> nodes.paragraph:
        """Write a claim in a sentence, with the verdict on it as a link to its cell."""
        outcome = badge(outcome_of(claim, verdicts))
        link = to_verdict(self.env.docname, claim.id, outcome, warn=claim.id in verdicts)
        return nodes.paragraph("", "", *self.inline(claim.headline), nodes.Text(" "), link, classes=["headline"])


class SideBySide(Ledger):
    """``side-by-side``: what the paper's figures measure, in trained models and in their controls; a row per model."""

    def run(self):
        """Build the table: for each measure a row that names it, then the models'."""
        from book.viewers import side_by_side

        header, rows = ["model", *side_by_side.NETWORKS], []
        for measure, by_model in side_by_side.compare():
            title = nodes.strong(text=f"The paper's {measure.there}"), nodes.Text(f": {measure.name}")
            rows.append(spanning(len(header), *title, classes=["measure"]))
            rows += [row([side_by_side.MODELS[model], *cells]) for model, cells in by_model.items()]
        return [table(header, rows, [36, *[16] * len(side_by_side.NETWORKS)], "side-by-side")]


class Evidence(SphinxRole):
    """``{evidence}`K-21```: what the verdict on a claim says, word for word, with a link to the cell that found it.

    Where no chapter has been executed, as on a page that was made alone, only the link stands.
    """

    def run(self):
        """Read the verdict of the present execution."""
        self.env.note_dependency(str(ledger.FILE))
        note(self.env)
        known = {claim.id: claim for claim in ledger.claims()}
        try:
            page = known[self.text].chapter
            found = ledger.collect(execution.executed_path()).get(self.text)
        except (KeyError, ledger.BadLedger) as error:
            what = f"{self.text} is not in the ledger" if isinstance(error, KeyError) else str(error)
            return [], [self.inliner.reporter.error(what, line=self.lineno)]
        said, messages = [], []
        if found:
            sentence = as_math(found.evidence)
            sentence = sentence[0].upper() + sentence[1:].removesuffix(".") + "."
            said, messages = self.inliner.parse(sentence, self.lineno, self, nodes.Element())
        words = f"Cell in “{execution.title(found.where if found else page)}”"
        link = to_verdict(self.env.docname, self.text, words, warn=bool(found))
        return [*said, nodes.Text(" " if said else ""), link, nodes.Text(".")], messages


class Number(SphinxRole):
    """``{claims-number}`all```: how many claims the ledger counts, of all documents or of that with the given letter.

    ``definitions`` is how many it judges and does not count.
    """

    def run(self):
        """Count."""
        self.env.note_dependency(str(ledger.FILE))
        of = {letter: [c for c in ledger.testable() if c.id[0] == letter] for letter in ledger.DOCUMENTS}
        of |= {"all": ledger.testable(), "definitions": [c for c in ledger.claims() if c.is_definition]}
        if self.text not in of:
            known = ", ".join(ledger.DOCUMENTS)
            said = f"claims-number takes 'all', 'definitions' or a document's letter ({known}), got {self.text!r}"
            return [], [self.inliner.reporter.error(said, line=self.lineno)]
        return [nodes.Text(str(len(of[self.text])))], []


def publish(app, error):
    """Write the ledger beside the pages."""
    if error is None and app.builder.format == "html" and "book/claims" in app.env.found_docs:
        try:
            verdicts = ledger.collect(execution.executed_path())
        except ledger.BadLedger:  # the page has said so, which fails the build
            return
        write_json(Path(app.outdir) / "ledger.json", ledger.publish(verdicts))


def setup(app):
    """Register directives, roles and events."""
    app.add_directive("claims-table", Table)
    app.add_directive("definitions-table", Definitions)
    app.add_directive("claims-figure", Figure)
    app.add_directive("claims-filter", Filter)
    app.add_directive("document-cards", Cards)
    app.add_directive("side-by-side", SideBySide)
    app.add_role("evidence", Evidence())
    app.add_role("claims-number", Number())
    give_scripts(app, 'class="claims-filter"', "claims-filter.js", "claims-game.js")
    app.connect("build-finished", publish)
