"""Sphinx directive ``table-filter``: a search box for the next table, which shows its first rows until then.

The argument is how many rows stand there without a search, and the content is the label of the box. Without scripts,
and on the single page, the whole table stands.
"""

import html

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

SCRIPT = "table-filter.js"
FORM = (
    '<form class="table-filter" role="search" aria-label="Filter the table" data-first="{first}" hidden>'
    '<label>{label} <input type="search" name="words" autocomplete="off"/></label>'
    '<label class="all"><input type="checkbox" name="all"/> all rows</label>'
    '<output aria-live="polite"></output></form>'
)


class TableFilter(SphinxDirective):
    """Write the form; the script shows it."""

    required_arguments = 1
    has_content = True

    def run(self):
        """Put the form on the page."""
        form = FORM.format(first=int(self.arguments[0]), label=html.escape(" ".join(self.content)))
        return [nodes.raw("", form, format="html")]


def add_script(app, pagename, templatename, context, doctree):
    """Give the script to a page that has the form."""
    if doctree is not None and 'class="table-filter"' in context.get("body", ""):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app):
    """Register the directive and its script."""
    app.add_directive("table-filter", TableFilter)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
