"""What else the book makes of the ledger: a figure of the counts, a filter for the table, a copy as JSON.

``claims-figure`` draws the verdicts by document; ``claims-filter`` puts a form above the table, which works without
it as well; ``claims-game`` is the place where ten of its rows are asked one by one; when the HTML is built,
``ledger.json`` and its schema ``ledger.schema.json`` are written beside it.
"""

import base64
import html
import io
from collections.abc import Mapping
from pathlib import Path

from docutils import nodes
from matplotlib.figure import Figure as Drawing

from analysis.core.files import write_json
from analysis.plotting import style
from book._ext.claims_table import Ledger
from book.publish import execution, ledger
from claims_kit.ledger import OPEN, ORDER

SCRIPTS = "claims-filter.js", "claims-game.js"
GAME = '<div class="claims-game bet" hidden></div>'
DRAWN = "_build/.figures/fig-claims.svg"


class Figure(Ledger):
    """``claims-figure``: verdicts by document, drawn from what the chapters printed; the body is the caption."""

    has_content = True

    def run(self):
        """Draw the figure and put it on the page, with an alt text that gives the numbers."""
        from analysis.plotting.figure_data import bundle

        _, verdicts = self.read()
        counts = ledger.count(verdicts)
        drawn, buffer = draw_verdicts(counts, ledger.DOCUMENTS), io.BytesIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        path = Path(self.env.srcdir) / DRAWN
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
        for ending, packed in bundle(drawn).items():  # for `downloads`, which links to them below the figure
            path.with_suffix(f".{ending}").write_bytes(base64.b64decode(packed))
        figure = nodes.figure("", nodes.image(uri=f"/{DRAWN}", alt=alt(counts)), classes=["align-default"])
        caption = nodes.caption("", "", *self.inline(" ".join(self.content)))
        caption.source, caption.line = self.state_machine.get_source_and_line(self.lineno)
        figure += caption
        figure["names"].append("fig-claims")
        self.state.document.note_explicit_target(figure, figure)
        return [figure]


def draw_verdicts(counts: Mapping[str, Mapping[str, int]], names: Mapping[str, str]) -> Drawing:
    """Draw one bar per document, cut into its verdicts.

    Parameters
    ----------
    counts
        Document's letter to outcome to number of claims.
    names
        Document's letter to its name.
    """
    fig, ax = style.new(size="strip")
    rows = [f"{letter} · {names[letter]}" for letter in counts]
    left = [0] * len(rows)
    for outcome in next(iter(counts.values())):
        sizes = [counts[letter][outcome] for letter in counts]
        if not any(sizes):
            continue
        ax.barh(rows, sizes, left=left, color=style.VERDICTS[outcome], label=f"{outcome} ({sum(sizes)})", height=0.72)
        for row, (start, size) in enumerate(zip(left, sizes, strict=True)):
            if size > 2:
                pale = outcome in ("open", "conditional")
                ax.text(
                    start + size / 2,
                    row,
                    size,
                    ha="center",
                    va="center",
                    color=style.COLOURS["ink"] if pale else style.COLOURS["paper"],
                )
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
    """``claims-filter``: choose a document, a verdict, a chapter, words, an order; and links to the copy as data."""

    def run(self):
        """Write the form; the script shows it."""
        self.read()
        documents = {letter.lower(): f"{letter} · {name}" for letter, name in ledger.DOCUMENTS.items()}
        outcomes = {o.replace(" ", "-"): o for o in (*ORDER, OPEN)}
        chapters = {c.chapter.rpartition("/")[2]: execution.title(c.chapter) for c in ledger.testable()}
        up = "../" * self.env.docname.count("/")
        return [
            nodes.raw(
                "",
                (
                    '<form class="claims-filter" role="search" aria-label="Filter the claims" hidden>'
                    + choice("document", "Document", {"": "all", **documents})
                    + choice("verdict", "Verdict", {"": "all", **outcomes})
                    + choice("chapter", "Chapter", {"": "all", **chapters})
                    + '<label>Words <input type="search" name="words" autocomplete="off"/></label>'
                    + choice("order", "Order", {"": "what may surprise first", "documents": "as in the documents"})
                    + '<button type="reset">Show all</button><output aria-live="polite"></output></form>'
                    f'<p>The same as data: <a href="{up}ledger.json" download="ledger.json">ledger.json</a>, '
                    "described by "
                    f'<a href="{up}ledger.schema.json" download="ledger.schema.json">its schema</a>.</p>'
                ),
                format="html",
            )
        ]


class Game(Ledger):
    """``claims-game``: the place of the game, which the script makes of the table on the same page."""

    def run(self):
        """Mark the place."""
        return [nodes.raw("", GAME, format="html")]


def choice(name: str, label: str, options: dict[str, str]) -> str:
    """Write a field that offers texts by their values.

    >>> choice("order", "Order", {"": "any"})
    '<label>Order <select name="order"><option value="">any</option></select></label>'
    """
    items = "".join(f'<option value="{html.escape(v)}">{html.escape(t)}</option>' for v, t in options.items())
    return f'<label>{label} <select name="{name}">{items}</select></label>'


def add_script(app, pagename, templatename, context, doctree):
    """Give the scripts to the page that has the form."""
    if doctree is not None and pagename in getattr(app.env, "claims_pages", ()):
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")


def publish(app, error):
    """Write the ledger and its schema beside the pages."""
    if error is None and app.builder.format == "html" and getattr(app.env, "claims_pages", None):
        try:
            verdicts = ledger.collect(execution.executed_path())
        except ledger.BadLedger:  # the page has said so, which fails the build
            return
        out = Path(app.outdir)
        write_json(out / "ledger.json", ledger.publish(verdicts))
        write_json(out / "ledger.schema.json", ledger.schema())


def setup(app):
    """Register directives and events."""
    app.add_directive("claims-figure", Figure)
    app.add_directive("claims-filter", Filter)
    app.add_directive("claims-game", Game)
    app.connect("html-page-context", add_script)
    app.connect("build-finished", publish)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
