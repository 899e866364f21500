"""The whole book on one page, ``one-page.html``, for the printer: made of the built pages when the HTML is done.

Every id gets the name of its page before it, so that links inside and between the chapters stay inside the one page.
The pages of the package are left out: they are not for print.
"""

import html
import re
from pathlib import Path

from book.publish import execution

NAME = "one-page.html"
LEFT_OUT = ("book/api",)
THEME = """(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const set = name => { document.documentElement.dataset.theme = name; };
  const follow = () => set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", follow);
  addEventListener("beforeprint", () => set("light"));
  addEventListener("afterprint", follow);
  follow();
})();"""
ARTICLE = re.compile(r'<article class="bd-article"[^>]*>(.*)</article>', re.DOTALL)
SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
HEAD = re.compile(
    r'<link[^>]*rel="(?:stylesheet|icon|shortcut icon)"[^>]*>|<script>window\.MathJax.*?</script>|'
    r"<script[^>]*mathjax[^>]*></script>",
    re.DOTALL,
)
HEADING = re.compile(r"<h1>((?:(?!</h1>|<a class=\"headerlink).)*)", re.DOTALL)  # the last has the chapter's number
IDS = re.compile(r'(?<![\w-])(id|for|aria-labelledby|aria-describedby|aria-controls)="([^"]+)"')
LINKS = re.compile(r'(?<![\w-])(href|src)="([^"]*)"')


def name(page: str, anchor: str = "") -> str:
    """Return the id of a page, or of an anchor in it, on the one page."""
    short = page.removeprefix("book/").replace("/", "-")
    return f"{short}--{anchor}" if anchor else f"page-{short}"


def included(pages: list[str]) -> list[str]:
    """Return the pages that are printed."""
    return [page for page in pages if not page.startswith(LEFT_OUT)]


def body(text: str, page: str, pages: list[str]) -> str:
    """Return a page's article with ids and addresses as they are on the one page."""
    found = ARTICLE.search(text)
    if found is None:
        raise ValueError(f"the page {page} has no article")
    folder = page.rpartition("/")[0]

    def address(match: re.Match) -> str:
        kind, given = match.groups()
        path, _, anchor = given.partition("#")
        if ":" in path.partition("/")[0] or path.startswith("//"):
            return match[0]
        if not path:
            return f'{kind}="#{name(page, anchor)}"'
        target = (Path("/", folder, path)).as_posix()
        parts = []
        for part in target.split("/"):
            parts = parts[:-1] if part == ".." else [*parts, part] if part else parts
        target = "/".join(parts)
        if target.removesuffix(".html") in pages:
            return f'{kind}="#{name(target.removesuffix(".html"), anchor)}"'
        return f'{kind}="{target}{"#" + anchor if anchor else ""}"'

    article = SCRIPT.sub("", found[1])
    article = IDS.sub(lambda m: f'{m[1]}="{" ".join(name(page, one) for one in m[2].split())}"', article)
    return LINKS.sub(address, article)


def write(folder: Path, pages: list[str], title: str) -> Path:
    """Write the one page beside the others."""
    pages = included(pages)
    texts = {page: (folder / f"{page}.html").read_text(encoding="utf-8") for page in pages}
    head = "\n".join(HEAD.findall(texts[pages[0]])).replace('"../', '"')
    headings = {page: re.sub(r"<[^>]+>", "", HEADING.findall(text)[-1]) for page, text in texts.items()}
    contents = "".join(f'<li><a href="#{name(page)}">{headings[page].strip()}</a></li>' for page in pages)
    parts = "\n".join(
        f'<section class="one-page" id="{name(page)}" aria-label="{html.escape(headings[page].strip())}">'
        f"{body(text, page, pages)}</section>"
        for page, text in texts.items()
    )
    path = folder / NAME
    path.write_text(
        f"""<!DOCTYPE html>
<html lang="en" data-theme="light"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/><title>{html.escape(title)}: the whole book</title>
<script>{THEME}</script>
{head}
<script src="_static/scrolling.js"></script>
</head><body class="one-page"><main class="bd-article bd-content">
<nav aria-label="Contents"><p><a href="index.html">{html.escape(title)}</a>, the whole book on one page</p>
<ul class="numbered-by-chapter">{contents}</ul></nav>
{parts}
</main></body></html>
""",
        encoding="utf-8",
    )
    return path


def build(app, error):
    """Write it when the pages are there."""
    if error is None and app.builder.name == "html":
        pages = execution.listed(Path(app.srcdir))
        if all((Path(app.outdir) / f"{page}.html").exists() for page in pages):
            write(Path(app.outdir), pages, app.config.html_title or "The book")


def setup(app):
    """Connect."""
    app.connect("build-finished", build, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
