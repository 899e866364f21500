"""What a page shows that its own cells didn't make: numbers and figures of the evidence, questions, a transformer.

A story runs no study. What a page of evidence has computed stands in the story with a link to the place that computed
it: ``{number}`semi-bias/sb-rising:.0f``` writes the number of that name, and ``picture semi-bias/fig-...`` shows
the figure, with a caption of the story's own.
"""

import json
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxRole

from book._ext import downloads
from book._ext.shared import DRAWN, Directive, note, save, xref
from book.publish import execution, recorded

TRANSFORMER = execution.ROOT / "book" / "assets" / "transformer.svg"
PARTS = ("embedding", "stream", "norm", "heads", "mlp", "unembedding")
"""The groups of that picture, called after what they draw."""


def numbers(page: str) -> dict[str, object]:
    """Return the numbers that a page's last execution showed, by name; where it has none, the recorded ones."""
    path = execution.executed_path(page)
    if not path.exists():
        return recorded.read(execution.RECORDED / f"{page}.json")["numbers"]
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {out["name"]: out["value"] for cell in cells for out in cell["outputs"] if out["output_type"] == "glued"}


class Number(SphinxRole):
    """``{number}`semi-bias/sb-rising:.0f```: a number of the evidence, in that format."""

    def run(self):
        """Write it."""
        note(self.env)
        match = recorded.BORROWED.fullmatch(f"{{number}}`{self.text}`")
        found = numbers(f"evidence/{match[1]}") if match else {}
        if match is None or match[2] not in found:
            message = f"{self.text!r} is no evidence/name:format of a number that was computed there"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        return [nodes.Text(format(found[match[2]], match[3] or ""))], []


class Picture(Directive):
    """A figure that a page of evidence draws, under a name and a caption of this page; the caption links to it."""

    required_arguments = 1
    option_spec: ClassVar = {"name": directives.unchanged_required, "alt": directives.unchanged_required}

    def run(self):
        """Take the files of the figure from the stored execution."""
        note(self.env)
        evidence, _, drawn = self.arguments[0].partition("/")
        self.require(f"the picture {drawn}")
        page = f"book/evidence/{evidence}"
        notebook = downloads.executed(self.env.app, page) if page in self.env.found_docs else None
        files = downloads.figures(notebook).get(drawn) if notebook is not None else None
        if not files:
            raise self.error(f"{page} draws no figure {drawn}")
        place = Path(self.env.srcdir) / DRAWN / self.options["name"]
        for ending, content in files.items():
            downloads.write(place.with_suffix(f".{ending}"), content)
        return [self.figure(place.with_suffix(".svg"), self.options["name"], self.options["alt"])]


class Question(Directive):
    """``question <name>``: a picture and a question, both of which lead to the story that answers it, and a sentence.

    The picture is drawn by the function of that name in ``book.viewers.questions``; the body says what one will see.
    """

    required_arguments = 1
    option_spec: ClassVar = dict.fromkeys(("to", "asks", "alt"), directives.unchanged_required)

    def run(self):
        """Draw the picture and write the card."""
        from book.viewers import questions

        (name,) = self.arguments
        self.require(f"the question {name}")
        file = save(getattr(questions, name.replace("-", "_"))(), Path(self.env.srcdir, DRAWN, f"question-{name}"))
        image = nodes.image(uri=f"/{file.relative_to(self.env.srcdir).as_posix()}", alt=self.options["alt"])
        link = xref(self.env.docname, "doc", f"/book/{self.options['to']}", self.options["asks"])
        words = nodes.paragraph("", "", *self.inline(" ".join(self.content)))
        asked = nodes.paragraph("", "", link, classes=["asks"])
        return [nodes.container("", image, asked, words, classes=["question"])]


class Diagram(Directive):
    """``diagram``: a picture of a transformer, in the colours of the page; its argument lights parts.

    With parts that are lit it stands small beside the text, above the words of its body; without, it is a figure with
    its body as the caption.
    """

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {"name": directives.unchanged, "alt": directives.unchanged_required}

    def run(self):
        """Draw it with some parts lit, or all."""
        lit = self.arguments[0].split() if self.arguments else list(PARTS)
        if unknown := sorted(set(lit) - set(PARTS)):
            raise self.error(f"a transformer has no part {unknown[0]!r}; its parts are {', '.join(PARTS)}")
        self.env.note_dependency(str(TRANSFORMER))
        svg = TRANSFORMER.read_text(encoding="utf-8").replace("<svg ", f'<svg aria-label="{self.options["alt"]}" ', 1)
        for part in lit:
            svg = svg.replace(f'class="part {part}"', f'class="part {part} lit"')
        picture, words = nodes.raw("", svg, format="html"), self.inline(" ".join(self.content))
        if self.arguments:
            return [nodes.container("", picture, nodes.inline("", "", *words), classes=["transformer", "small"])]
        figure = nodes.figure("", picture, nodes.caption("", "", *words), classes=["transformer"])
        self.add_name(figure)
        return [figure]


def setup(app):
    """Register the role and the directives."""
    app.add_role("number", Number())
    app.add_directive("picture", Picture)
    app.add_directive("question", Question)
    app.add_directive("diagram", Diagram)
