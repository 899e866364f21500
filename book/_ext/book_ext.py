"""Sphinx extension of the book: the cache of executed chapters and which pages are read again for it, MathJax without a
network, old addresses of pages, numbers of figures, small mends of the theme.
"""

import re
import shutil
from importlib import metadata
from pathlib import Path

from book.publish import execution

MATHJAX = ("sphinx-mathjax-offline", "sphinx-mathjax-offline/static/mathjax/")
MATHJAX_PARTS = ("startup.js", "core.js", "input/tex.js", "input/tex/extensions/", "output/chtml", "a11y/assistive")
DROPPED = re.compile(
    r' id="(?:proof|proof-content|exercise-content|solution-content)"'  # all have the same, and none refers to it
    r'| role="doc-biblioentry"| role="list"(?= class="citation-list")'  # outdated; a list without items
)


def use_cache(app, config):
    """Render the stored executions."""
    execution.environment()
    config.nb_execution_cache_path = str(execution.CACHE)


def outdated_pages(app, env, added, changed, removed) -> list[str]:
    """Name the pages to read again although their sources are the same, because of what was executed since.

    These are the pages whose own execution is another than when they were last read, and if any is, those that show
    the verdicts of other pages.
    """
    present, last = execution.executions(), getattr(env, "executions_read", {})
    env.executions_read = present
    pages = {f"book/{page}" for page in present.keys() | last.keys() if present.get(page) != last.get(page)}
    if pages:
        pages |= getattr(env, "evidence_pages", set())
    return sorted(pages & env.found_docs)


def copy_mathjax(app, error):
    """Copy the part of MathJax that pages use from its wheel into the built HTML."""
    if error is not None or app.builder.format != "html":
        return
    package, prefix = MATHJAX
    for file in metadata.files(package) or ():
        name = file.as_posix()
        if name.startswith(prefix) and name.removeprefix(prefix).startswith(MATHJAX_PARTS):
            target = Path(app.outdir) / "_static/vendor/mathjax" / name.removeprefix(prefix)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)


def lead_on(app):
    """Give a short page to each address that is no more (``moved_pages``), which leads on to what it held."""
    there = {old: new for old, new in app.config.moved_pages.items() if new in app.env.titles}  # a part of the book
    return [
        (old, {"address": app.builder.get_relative_uri(old, new), "to": app.env.titles[new].astext()}, "moved.html")
        for old, new in there.items()
    ]


def mend(app, pagename, templatename, context, doctree):
    """Drop repeated ids and outdated roles; leave out sphinx-thebe, whose inline script throws on every page."""
    if context.get("body"):
        context["body"] = DROPPED.sub("", context["body"])

    def is_thebe(script) -> bool:
        body = getattr(script, "attributes", {}).get("body") or ""
        return "THEBE_JS_URL" in body or "thebe" in str(getattr(script, "filename", ""))

    context["script_files"] = [s for s in context.get("script_files", []) if not is_thebe(s)]


def name_folds(app, pagename, templatename, context, doctree):
    """Say what the folds of the contents unfold, for screen readers: the theme's have a picture alone."""
    make = context.get("generate_toctree_html")

    def named(*options, **keywords):
        return str(make(*options, **keywords)).replace("<summary>", '<summary aria-label="Pages below">')

    if make:
        context["generate_toctree_html"] = named


def lead_along(app, pagename, templatename, context, doctree):
    """Lead from a page to the next one that is not evidence, and back: a reader who turns pages stays on the path."""
    around = app.builder.relations
    if "/evidence/" in pagename or pagename not in around:
        return
    for name, step in (("prev", 1), ("next", 2)):
        page = around[pagename][step]
        while page and "/evidence/" in page:
            page = around[page][step]
        title = page and app.builder.render_partial(app.env.titles[page])["title"]
        context[name] = {"link": app.builder.get_relative_uri(pagename, page), "title": title} if page else None


def number_in_chapters(app, env):
    """Take the numbers from figures of pages without a chapter's: counted through the book, they read as chapters'."""
    for page, numbers in env.toc_fignumbers.items():
        if not any(env.toc_secnumbers.get(page, {}).values()):
            numbers.pop("figure", None)
    return []


def leave_out_builtins(app):
    """Keep Python's own module, whose source cannot be shown, out of the index of sources."""
    getattr(app.env, "_viewcode_modules", {}).pop("builtins", None)
    return []


def setup(app):
    """Connect the above; a kernel that holds torch would take three seconds to leave politely."""
    from nbclient import NotebookClient

    NotebookClient.shutdown_kernel.default_value = "immediate"
    app.add_config_value("moved_pages", {}, "html")
    app.connect("config-inited", use_cache, priority=100)
    app.connect("env-get-outdated", outdated_pages)
    app.connect("env-get-updated", number_in_chapters, priority=900)  # after Sphinx has numbered
    app.connect("html-page-context", mend, priority=900)
    app.connect("html-page-context", name_folds, priority=900)
    app.connect("html-page-context", lead_along)
    app.connect("html-collect-pages", leave_out_builtins, priority=100)  # before viewcode's own
    app.connect("build-finished", copy_mathjax)
    app.connect("html-collect-pages", lead_on)
