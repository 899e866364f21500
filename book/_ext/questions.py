"""Sphinx directive ``question <name>``: a picture and a question, both of which lead to the story that answers it.

The picture is drawn by the function of that name in ``book.viewers.questions`` while the page is read; the body
says what one will see. ``questions`` around them sets them side by side.
"""

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective

DRAWN = "_build/.figures"


class Question(SphinxDirective):
    """A card: the picture, the question as a link, a sentence."""

    required_arguments, has_content = 1, True
    option_spec: ClassVar = dict.fromkeys(("to", "asks", "alt"), directives.unchanged_required)

    def run(self):
        """Draw the picture and write the card."""
        if missing := [option for option in self.option_spec if not self.options.get(option)]:
            raise self.error(f"the question {self.arguments[0]} lacks {' and '.join(missing)}")
        file = f"{DRAWN}/question-{self.arguments[0]}.svg"
        draw(self.arguments[0], Path(self.env.srcdir) / file)
        words, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        image = nodes.image(uri=f"/{file}", alt=self.options["alt"])
        asked = nodes.paragraph("", "", self.link(), classes=["asks"])
        return [nodes.container("", image, asked, nodes.paragraph("", "", *words), *messages, classes=["question"])]

    def link(self) -> pending_xref:
        """Refer to the story, in the words of the question."""
        return pending_xref(
            "",
            nodes.inline(text=self.options["asks"]),
            refdomain="std",
            reftype="doc",
            refexplicit=True,
            reftarget=f"/book/{self.options['to']}",
            refwarn=True,
            refdoc=self.env.docname,
        )


class Questions(SphinxDirective):
    """The cards, side by side where there is room."""

    has_content = True

    def run(self):
        """Parse them."""
        around = nodes.container("", classes=["questions"])
        self.state.nested_parse(self.content, self.content_offset, around)
        return [around]


def draw(name: str, path: Path) -> None:
    """Draw the picture of a question."""
    from book.viewers import questions

    path.parent.mkdir(parents=True, exist_ok=True)
    getattr(questions, name.replace("-", "_"))().savefig(path, format="svg", metadata={"Date": None})


def setup(app):
    """Register the directives."""
    app.add_directive("question", Question)
    app.add_directive("questions", Questions)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
