"""What a story shows of its evidence: a number (role ``number``) and a figure (directive ``picture``).

A story runs no study. What a page of evidence has computed stands in the story with a link to the place that computed
it: ``{number}`semi-bias/sb-rising:.0f``` writes the number of that name, and ``picture semi-bias/fig-...`` shows
the figure, with a caption of the story's own.
"""

import json
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective, SphinxRole

from book._ext import downloads
from book.publish import execution, recorded

DRAWN = "_build/.figures"


def numbers(page: str) -> dict[str, object]:
    """Return the numbers that a page's last execution showed, by name; where it has none, the recorded ones."""
    path = execution.executed_path(page)
    if not path.exists():
        return recorded.read(execution.RECORDED / f"{page}.json")["numbers"]
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {out["name"]: out["value"] for cell in cells for out in cell["outputs"] if out["output_type"] == "glued"}


def note(env) -> None:
    """Have this page read again whenever another one was executed."""
    env.evidence_pages = {*getattr(env, "evidence_pages", ()), env.docname}


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
        value = found[match[2]]
        return [nodes.Text(format(value, match[3] or ""))], []


class Picture(SphinxDirective):
    """A figure that a page of evidence draws, under a name and a caption of this page; the caption links to it."""

    required_arguments, has_content = 1, True
    option_spec: ClassVar = {"name": directives.unchanged_required, "alt": directives.unchanged_required}

    def run(self):
        """Take the files of the figure from the stored execution."""
        note(self.env)
        evidence, _, drawn = self.arguments[0].partition("/")
        if missing := [option for option in self.option_spec if not self.options.get(option)]:
            raise self.error(f"the picture {drawn} lacks {' and '.join(missing)}")
        page = f"book/evidence/{evidence}"
        notebook = downloads.executed(self.env.app, page) if page in self.env.found_docs else None
        files = downloads.figures(notebook).get(drawn) if notebook is not None else None
        if not files:
            raise self.error(f"{page} draws no figure {drawn}")
        place = Path(self.env.srcdir) / DRAWN / self.options["name"]
        for ending, content in files.items():
            downloads.write(place.with_suffix(f".{ending}"), content)
        parsed, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        caption = nodes.caption("", "", *parsed, *messages)
        caption.source, caption.line = self.state_machine.get_source_and_line(self.lineno)
        image = nodes.image(uri=f"/{place.relative_to(self.env.srcdir).as_posix()}.svg", alt=self.options["alt"])
        figure = nodes.figure("", image, caption, classes=["align-default"])
        figure["names"].append(self.options["name"])
        self.state.document.note_explicit_target(figure, figure)
        return [figure]


def setup(app):
    """Register the role and the directive."""
    app.add_role("number", Number())
    app.add_directive("picture", Picture)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
