"""Sphinx directive ``exercise-list``: every exercise of the book, chapter by chapter, read from the pages.

An exercise is named by its number and by the title that its directive has; the build refuses one without a title or
without a label, since the list could not name it.
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from book.publish import execution

EXERCISE = re.compile(r"^`{3,}\{exercise\}[ \t]*(?P<title>.*)\n(?::label: (?P<label>\S+))?", re.MULTILINE)


def exercises(text: str) -> list[tuple[str, str]]:
    """Return label and title of each exercise of a page.

    Examples
    --------
    >>> exercises("```{exercise} Two rows\\n:label: ex-rows\\nAdd them.\\n```")
    [('ex-rows', 'Two rows')]
    """
    return [(match["label"] or "", match["title"].strip()) for match in EXERCISE.finditer(text)]


def by_page(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the exercises of every page of the table of contents that has any, in its order."""
    found = {page: exercises((root / f"{page}.md").read_text(encoding="utf-8")) for page in execution.listed(root)}
    return {page: labelled for page, labelled in found.items() if labelled}


class ExerciseList(SphinxDirective):
    """For each page its link, and below it number and title of its exercises, each a link."""

    def run(self):
        """Write the list as Markdown, whose references find the numbers and the addresses."""
        root, lines = Path(self.env.srcdir), []
        for page, labelled in by_page(root).items():
            self.env.note_dependency(str(root / f"{page}.md"))
            if page not in self.env.found_docs:
                continue
            if nameless := [label or title for label, title in labelled if not (label and title)]:
                raise self.error(f"{page}: an exercise has no title or no label: {nameless[0] or 'neither'}")
            lines += [f"{{doc}}`/{page}`", *(f": {{numref}}`{label}`. {title}" for label, title in labelled), ""]
        self.env.note_dependency(str(root / "_toc.yml"))
        parsed = nodes.container(classes=["exercise-list"])
        source = StringList("\n".join(lines).split("\n"), str(root / self.env.docname))
        self.state.nested_parse(source, self.content_offset, parsed)
        return [parsed]


def name_solutions(app, doctree):
    """Take the slash of the page from the anchors of solutions: a script that looks a link up by it would stop."""
    for node in doctree.findall(lambda node: isinstance(node, nodes.Element) and "-solution-" in str(node.get("ids"))):
        node["ids"] = [name.replace("/", "-") for name in node["ids"]]


def setup(app):
    """Register the directive."""
    app.add_directive("exercise-list", ExerciseList)
    app.connect("doctree-read", name_solutions)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
