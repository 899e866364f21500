"""Sphinx directive ``conformance-table``: what other libraries give for the same models, of the suite's last results.

The suite writes ``book/_data/conformance.json``: a list of ``{library, version, quantity, exact, off, not_offered,
note}``. ``exact`` and ``not_offered`` are true or false, ``off`` is the largest error or null, and ``note`` says what a
library documents. The content of the directive stands above the table; without the file both are left out.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).parents[1] / "_data" / "conformance.json"


def cell(result: dict | None) -> str:
    """Say in a few words what a library gives.

    >>> cell({"exact": False, "off": 0.0123, "not_offered": False, "note": "centred, as documented"})
    'in part (error up to 1e-02): centred, as documented'
    >>> cell({"exact": True, "off": 1e-16, "not_offered": False, "note": ""}), cell(None)
    ('exact', 'not offered')
    """
    if result is None or result["not_offered"]:
        said = "not offered"
    else:
        said = "exact" if result["exact"] else f"in part (error up to {result['off']:.0e})"
    note = (result or {}).get("note")
    return f"{said}: {note}" if note else said


class ConformanceTable(SphinxDirective):
    """A row per quantity, a column per library and version."""

    has_content = True

    def run(self):
        """Build the table, if the suite has left results."""
        self.env.note_dependency(str(RESULTS))
        if not RESULTS.is_file():
            return []
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        found = {(one["quantity"], f"{one['library']} {one['version']}"): one for one in results}
        quantities, libraries = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
        lines = [
            ["quantity", *libraries],
            *([name, *(cell(found.get((name, of))) for of in libraries)] for name in quantities),
        ]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in lines[0]), cols=len(lines[0]))
        head, *body = (nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in line)) for line in lines)
        group += [nodes.thead("", head), nodes.tbody("", *body)]
        above = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, above)
        return [*above.children, nodes.table("", group, classes=["conformance"])]


def setup(app):
    """Register the directive."""
    app.add_directive("conformance-table", ConformanceTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
