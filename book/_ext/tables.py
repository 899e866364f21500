"""Tables of the page *Exact, and how one knows*: a search box for one, and what other libraries give, as another."""

import html
import json
from pathlib import Path

from docutils import nodes

from book._ext.shared import Directive, give_scripts, row, table

FORM = (
    '<form class="table-filter" role="search" aria-label="Filter the table" data-first="{first}" hidden>'
    '<label>{label} <input type="search" name="words" autocomplete="off"/></label>'
    '<label class="all"><input type="checkbox" name="all"/> all rows</label>'
    '<output aria-live="polite"></output></form>'
)
RESULTS = Path(__file__).parents[1] / "_data" / "conformance.json"


class TableFilter(Directive):
    """``table-filter``: a search box for the next table, which shows its first rows until then; the body is its label.

    The argument is how many rows those are. Without scripts, and on the single page, the whole table stands.
    """

    required_arguments = 1

    def run(self):
        """Put the form on the page; the script shows it."""
        form = FORM.format(first=int(self.arguments[0]), label=html.escape(" ".join(self.content)))
        return [nodes.raw("", form, format="html")]


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


class ConformanceTable(Directive):
    """``conformance-table``: a row per quantity, a column per library, of the last results that the suite has written.

    Each is ``{library, version, quantity, exact, off, not_offered, note}``: ``off`` is the largest error or null, and
    ``note`` what a library documents. The body stands above the table; without results both are left out.
    """

    def run(self):
        """Build the table, if the suite has left results."""
        self.env.note_dependency(str(RESULTS))
        if not RESULTS.is_file():
            return []
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        found = {(one["quantity"], f"{one['library']} {one['version']}"): one for one in results}
        quantities, libraries = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
        rows = [row([name, *(cell(found.get((name, of))) for of in libraries)]) for name in quantities]
        shown = table(["quantity", *libraries], rows, [1] * (1 + len(libraries)), "conformance")
        return [*self.parse(self.content).children, shown]


def setup(app):
    """Register the directives and the script."""
    app.add_directive("table-filter", TableFilter)
    app.add_directive("conformance-table", ConformanceTable)
    give_scripts(app, 'class="table-filter"', "table-filter.js")
