"""Addresses of pages that are no more: each leads on to the page that holds what it held (``moved_pages``)."""

import html
import os
from pathlib import Path

from analysis.core.files import write_atomically

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>This page has moved</title><meta name="robots" content="noindex">
<meta http-equiv="refresh" content="0; url={address}"></head>
<body><main><h1>This page has moved</h1><p>Read on in <a href="{address}">{title}</a>.</p></main></body></html>
"""


def write(app, error):
    """Write a short page at each old address."""
    if error is not None or app.builder.format != "html":
        return
    for old, new in app.config.moved_pages.items():
        if new not in app.env.found_docs:  # of a book of a few pages
            continue
        address = f"{os.path.relpath(new, Path(old).parent)}.html"
        page = PAGE.format(address=html.escape(address), title=html.escape(app.env.titles[new].astext()))
        write_atomically(Path(app.outdir) / f"{old}.html", page)


def setup(app):
    """Connect."""
    app.add_config_value("moved_pages", {}, "html")
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
