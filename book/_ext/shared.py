"""What the directives and roles of the book share: parsed lines, references, tables, figures, scripts."""

import base64
from collections.abc import Sequence
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective

DRAWN = "_build/.figures"
"""What directives draw while the book is read."""


class Directive(SphinxDirective):
    """A directive with a body, whose options must all be given."""

    has_content = True

    def require(self, what: str) -> None:
        """Refuse a directive that lacks an option."""
        if missing := [option for option in self.option_spec or {} if not self.options.get(option)]:
            raise self.error(f"{what} lacks {' and '.join(missing)}")

    def inline(self, text: str) -> list[nodes.Node]:
        """Parse a line of MyST."""
        parsed, messages = self.state.inline_text(text, self.lineno)
        return [*parsed, *messages]

    def parse(self, lines: Sequence[str] | StringList, *classes: str) -> nodes.container:
        """Parse lines of MyST into a container."""
        parsed = nodes.container(classes=list(classes))
        source = (
            lines if isinstance(lines, StringList) else StringList(list(lines), self.env.doc2path(self.env.docname))
        )
        self.state.nested_parse(source, self.content_offset, parsed)
        return parsed

    def figure(self, path: Path, name: str, alt: str, *more: nodes.Node) -> nodes.figure:
        """Return a numbered figure of a drawn file and more, with the body as its caption."""
        caption = nodes.caption("", "", *self.inline(" ".join(self.content)))
        caption.source, caption.line = self.state_machine.get_source_and_line(self.lineno)
        image = nodes.image(uri=f"/{path.relative_to(self.env.srcdir).as_posix()}", alt=alt)
        figure = nodes.figure("", image, *more, caption, classes=["align-default"])
        figure["names"].append(name)
        self.state.document.note_explicit_target(figure, figure)
        return figure


def note(env) -> None:
    """Have this page read again whenever another one was executed."""
    env.evidence_pages = {*getattr(env, "evidence_pages", ()), env.docname}


def give_scripts(app, mark: str, *files: str) -> None:
    """Give scripts to the pages whose body has the mark."""

    def give(app, pagename, templatename, context, doctree):
        for file in files if doctree is not None and mark in context.get("body", "") else ():
            app.add_js_file(file, loading_method="defer")

    app.connect("html-page-context", give)


def xref(docname: str, kind: str, target: str, words: str | nodes.Node, *, warn: bool = True, **more) -> pending_xref:
    """Refer from a page to a label (``ref``) or to a page (``doc``), in these words."""
    text = nodes.inline(text=words) if isinstance(words, str) else words
    about = {"refdomain": "std", "refexplicit": True, "refdoc": docname, **more}
    return pending_xref("", text, reftype=kind, reftarget=target, refwarn=warn, **about)


def row(cells: Sequence[nodes.Node | str], **attributes) -> nodes.row:
    """Make a row of a table of one node or text per cell."""
    made = (nodes.paragraph(text=cell) if isinstance(cell, str) else cell for cell in cells)
    return nodes.row("", *(nodes.entry("", cell) for cell in made), **attributes)


def spanning(columns: int, *content: nodes.Node, **attributes) -> nodes.row:
    """Make a row of one cell over all columns."""
    return nodes.row("", nodes.entry("", nodes.paragraph("", "", *content), morecols=columns - 1), **attributes)


def table(header: Sequence[str], rows: list[nodes.row], widths: Sequence[int], *classes: str) -> nodes.table:
    """Make a table of finished rows."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(header))
    group += [nodes.thead("", row(header)), nodes.tbody("", *rows)]
    return nodes.table("", group, classes=list(classes))


def fold(name: str, summary: str, content: list[nodes.Node]) -> list[nodes.Node]:
    """Return what unfolds at a line of summary."""
    start = f'<details class="{name}"><summary>{summary}</summary>'
    return [nodes.raw("", start, format="html"), *content, nodes.raw("", "</details>", format="html")]


def save(drawn, path: Path) -> Path:
    """Write a drawn figure as SVG, and what is downloaded of it beside that; return the picture's path."""
    from analysis.plotting.figure_data import bundle

    picture = path.with_suffix(".svg")
    picture.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(picture, format="svg", metadata={"Date": None})
    for ending, packed in bundle(drawn).items():
        path.with_suffix(f".{ending}").write_bytes(base64.b64decode(packed))
    return picture
