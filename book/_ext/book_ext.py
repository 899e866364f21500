"""Sphinx extension of the book: the cache of executed chapters and which pages are read again for it, MathJax without a
network, small mends of the theme.
"""

import re
import shutil
from importlib import metadata
from pathlib import Path

from book.publish import execution

MATHJAX = ("sphinx-mathjax-offline", "sphinx-mathjax-offline/static/mathjax/")
REPEATED_IDS = re.compile(r' id="(?:proof|proof-content|exercise-content|solution-content)"')
FORMULA = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([,.;:!?)]+)')
PREFORMATTED = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
MATHJAX_PARTS = ("tex-chtml.js", "output/chtml/fonts/woff-v2/", "input/tex/extensions/")


def use_cache(app, config):
    """Render the stored executions; a change of the build's own code makes Sphinx read every page again."""
    execution.environment()
    config.nb_execution_cache_path = str(execution.cache_path())
    config.book_machinery = execution.machinery()


def outdated_pages(app, env, added, changed, removed) -> list[str]:
    """Name the pages to read again although their sources are the same, because of what was executed since.

    These are the pages whose own execution is another than when they were last read, and if any is, those that show
    the verdicts of other pages.
    """
    present, last = execution.executions(), getattr(env, "executions_read", {})
    env.executions_read = present
    pages = {f"book/{page}" for page in present.keys() | last.keys() if present.get(page) != last.get(page)}
    if pages:
        pages |= {*getattr(env, "claims_pages", ()), *getattr(env, "evidence_pages", ())}
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


def drop_thebe(app, pagename, templatename, context, doctree):
    """Leave out sphinx-thebe, which is off: its inline script is inserted twice and throws on every page."""

    def is_thebe(script) -> bool:
        body = getattr(script, "attributes", {}).get("body") or ""
        return "THEBE_JS_URL" in body or "thebe" in str(getattr(script, "filename", ""))

    context["script_files"] = [s for s in context.get("script_files", []) if not is_thebe(s)]


def mend_lists(app, pagename, templatename, context, doctree):
    """Drop the roles that docutils gives the bibliography: a list whose children are none, and one that is outdated."""
    if context.get("body"):
        context["body"] = (
            context["body"]
            .replace('<div role="list" class="citation-list">', '<div class="citation-list">')
            .replace(' role="doc-biblioentry"', "")
        )


def name_folds(app, pagename, templatename, context, doctree):
    """Say what the folds of the contents unfold, for screen readers: the theme's have a picture alone."""
    make = context.get("generate_toctree_html")

    def named(*options, **keywords):
        return str(make(*options, **keywords)).replace("<summary>", '<summary aria-label="Pages below">')

    if make:
        context["generate_toctree_html"] = named


def drop_repeated_ids(app, pagename, templatename, context, doctree):
    """Drop the ids that all proofs and exercises share: nothing refers to them, and an id may occur once."""
    if context.get("body"):
        context["body"] = REPEATED_IDS.sub("", context["body"])


def keep_together(body: str) -> str:
    """Keep a formula and the comma after it on one line, and a number and its per cent sign.

    >>> keep_together("at most 5 % <pre>f'{x} 5 %'</pre>")
    "at most 5\xa0% <pre>f'{x} 5 %'</pre>"
    """
    parts = PREFORMATTED.split(body)  # what is odd is preformatted
    parts[::2] = [
        re.sub(r"(\d) %", "\\1\u00a0%", FORMULA.sub(r'<span class="nobreak">\1\2</span>', part)) for part in parts[::2]
    ]
    return "".join(parts)


def set_lines(app, pagename, templatename, context, doctree):
    """Apply :func:`keep_together` to every page."""
    if context.get("body"):
        context["body"] = keep_together(context["body"])


def leave_out_builtins(app):
    """Keep Python's own module, whose source cannot be shown, out of the index of sources."""
    getattr(app.env, "_viewcode_modules", {}).pop("builtins", None)
    return []


def setup(app):
    """Connect the above; a kernel that holds torch would take three seconds to leave politely."""
    from nbclient import NotebookClient

    NotebookClient.shutdown_kernel.default_value = "immediate"
    app.add_config_value("book_machinery", "", "env")  # a change of it makes Sphinx read every page again
    app.connect("config-inited", use_cache, priority=100)
    app.connect("env-get-outdated", outdated_pages)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-collect-pages", leave_out_builtins, priority=100)  # before viewcode's own
    app.connect("html-page-context", name_folds, priority=900)
    app.connect("html-page-context", mend_lists)
    app.connect("html-page-context", drop_repeated_ids)
    app.connect("html-page-context", set_lines)
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
