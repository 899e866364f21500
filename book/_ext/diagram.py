"""Sphinx directive ``diagram``: a picture of a transformer, in the colours of the page; its argument lights parts.

The picture is ``book/assets/transformer.svg``, whose groups are called after what they draw: ``embedding``, ``stream``,
``norm``, ``heads``, ``mlp``, ``unembedding``. With parts that are lit it stands small beside the text, above the words
of its body; without, it is a figure with its body as the caption.
"""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from book.publish import execution

FILE = execution.ROOT / "book" / "assets" / "transformer.svg"
PARTS = ("embedding", "stream", "norm", "heads", "mlp", "unembedding")


class Diagram(SphinxDirective):
    """Put the picture on the page."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged, "alt": directives.unchanged_required}

    def run(self):
        """Draw it with some parts lit, or all."""
        lit = self.arguments[0].split() if self.arguments else list(PARTS)
        if unknown := sorted(set(lit) - set(PARTS)):
            raise self.error(f"a transformer has no part {unknown[0]!r}; its parts are {', '.join(PARTS)}")
        self.env.note_dependency(str(FILE))
        svg = FILE.read_text(encoding="utf-8").replace("<svg ", f'<svg aria-label="{self.options["alt"]}" ', 1)
        for part in lit:
            svg = svg.replace(f'class="part {part}"', f'class="part {part} lit"')
        picture = nodes.raw("", svg, format="html")
        parsed, messages = self.state.inline_text(" ".join(self.content), self.lineno)
        if self.arguments:
            words = nodes.inline("", "", *parsed)
            return [nodes.container("", picture, words, classes=["transformer", "small"]), *messages]
        figure = nodes.figure("", picture, nodes.caption("", "", *parsed), classes=["transformer"])
        self.add_name(figure)
        return [figure, *messages]


def setup(app):
    """Register the directive."""
    app.add_directive("diagram", Diagram)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
