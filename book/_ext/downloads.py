"""What a reader can take home from a page: its text, the notebook without and with outputs, and for each figure the
picture as SVG and PNG with the numbers behind it as NPZ, and as CSV and JSON where they are few.

A figure's PNG and numbers travel in its output (``analysis.plotting.figure_data``); here they become files. The links
stand at the end of the page and below each figure.
"""

import base64
import copy
import html
import io
import re
from pathlib import Path

import nbformat
import numpy as np

from analysis.plotting.figure_data import MIME, to_csv, to_json
from book._ext import readable
from book._ext.shared import DRAWN
from book.publish import execution

FOLDER = "_downloads"
MENU = (
    '<details class="downloads"><summary title="This figure, larger or as a file">'
    '<svg viewBox="0 0 16 16" width="16" height="16" role="img" aria-label="This figure, larger or as a file">'
    '<path d="M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    "</summary><p>{}</p></details>"
)
"""What stands below a figure: an icon that unfolds the links."""
FEW = 5_000
"""Numbers of a figure beyond which NPZ alone is offered."""
CAPTION = re.compile(r'(<figure[^>]*\bid="([^"]+)".*?)(</figcaption>)', re.DOTALL)


def executed(app, docname: str):
    """Return the executed notebook that the page was made of, or ``None`` where the page has no cells."""
    source = Path(app.env.doc2path(docname))
    if source.suffix == ".ipynb":
        return nbformat.read(source, as_version=4)
    text = source.read_text(encoding="utf-8") if source.suffix == ".md" else ""
    if "```{code-cell}" not in text:
        return None
    from jupyter_cache import get_cache
    from myst_nb.core.read import read_myst_markdown_notebook

    notebook = read_myst_markdown_notebook(text, path=str(source))
    try:
        return get_cache(str(execution.CACHE)).merge_match_into_notebook(notebook)[1]
    except KeyError:  # executed while it was read, into no cache
        return notebook


def figures(notebook) -> dict[str, dict[str, bytes]]:
    """Return the files of each named figure: name to ending to content."""
    found = {}
    for cell in notebook.cells:
        name = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
        for out in cell.get("outputs", []) if name else []:
            drawn = out.get("data", {})
            files = {ending: base64.b64decode(text) for ending, text in (drawn.get(MIME) or {}).items()}
            if svg := drawn.get("image/svg+xml"):
                files["svg"] = ("".join(svg) if isinstance(svg, list) else svg).encode()
            if files:
                found[name] = files
    return found


def kept(folder: Path) -> dict[str, dict[str, bytes]]:
    """Return the files of the figures that a directive drew while the book was read: name to ending to content."""
    found = {}
    for path in sorted(folder.glob("fig-*.*")):
        found.setdefault(path.stem, {})[path.suffix[1:]] = path.read_bytes()
    return found


def plain(notebook, outputs: bool):
    """Return a copy for a reader: with or without outputs, and without what only the build wants.

    nbval is told to run a cell that draws and not to compare the picture, whose ids are drawn anew.
    """
    plain = copy.deepcopy(notebook)
    for cell in plain.cells:
        if cell.cell_type == "code" and not outputs:
            cell.outputs, cell.execution_count = [], None
        for out in cell.get("outputs", []):
            out.get("data", {}).pop(MIME, None)
            if any(kind.startswith("image/") for kind in out.get("data", {})):
                cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), "nbval-ignore-output"})
    plain.metadata.pop("widgets", None)
    return plain


def in_words(notebook, env, macros: str = "", address: str = ""):
    """Return a copy whose text has its numbers and references in words, and which says how it can be run."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    said, install = readable.how_to_run(code, address)
    worded, glued = copy.deepcopy(notebook), readable.numbers(notebook)
    for cell in worded.cells:
        if cell.cell_type == "markdown":
            cell.source = readable.readable(cell.source, env, glued)
    note = "\n\n".join(filter(None, [said, macros]))
    worded.cells[1:1] = [nbformat.v4.new_markdown_cell(note), nbformat.v4.new_code_cell(install)]
    return worded


def write(path: Path, content: bytes) -> None:
    """Write a file if it is another one than was there."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def offer(app, pagename, templatename, context, doctree):
    """Write the files of a page and add the links to it."""
    if doctree is None or not context.get("body") or app.builder.format != "html":
        return
    up, out = "../" * pagename.count("/"), Path(app.outdir) / FOLDER
    links = []
    if context.get("sourcename") and Path(app.env.doc2path(pagename)).suffix == ".md":
        links.append(link(f"{up}_sources/{context['sourcename']}", "text (.md)"))
    if (notebook := executed(app, pagename)) is not None:
        address = app.config.html_theme_options.get("repository_url", "")
        text = in_words(notebook, app.env, readable.macros(app.config.mathjax3_config), address)
        for outputs, ending, said in ((False, "", "notebook (.ipynb)"), (True, "-executed", "notebook with outputs")):
            name = f"{pagename}{ending}.ipynb"
            write(out / name, nbformat.writes(plain(text, outputs)).encode())
            links.append(link(f"{up}{FOLDER}/{name}", said))
    drawn = kept(Path(app.srcdir) / DRAWN) | (figures(notebook) if notebook is not None else {})
    context["body"] = below_figures(context["body"], drawn, up, out)
    if links:
        context["body"] += f'\n<p class="downloads">This page to take home: {", ".join(links)}.</p>\n'


def below_figures(body: str, drawn: dict[str, dict[str, bytes]], up: str, out: Path) -> str:
    """Write each figure's files and put links to them at the end of its caption."""
    said = {"svg": "SVG", "png": "PNG", "npz": "data (NPZ)", "csv": "CSV", "json": "JSON"}

    def add(match: re.Match) -> str:
        start, name, end = match.groups()
        files = with_tables(drawn.get(name, {}))
        for ending, content in files.items():
            write(out / "figures" / f"{name}.{ending}", content)
        links = [
            link(f"{up}{FOLDER}/figures/{name}.{ending}", word, f"Figure {name} as {word}")
            for ending, word in said.items()
            if ending in files
        ]
        return f"{start}{MENU.format(' · '.join(links))}{end}" if links else match[0]

    return CAPTION.sub(add, body)


def with_tables(files: dict[str, bytes]) -> dict[str, bytes]:
    """Add the numbers of a figure as CSV and JSON, where they are few enough to be read so."""
    if "npz" not in files:
        return files
    with np.load(io.BytesIO(files["npz"]), allow_pickle=False) as packed:
        arrays = dict(packed)
    if sum(array.size for array in arrays.values()) > FEW:
        return files
    return files | {"csv": to_csv(arrays).encode(), "json": to_json(arrays).encode()}


def link(address: str, text: str, label: str = "") -> str:
    """Write a link that saves instead of opening."""
    named = f' title="{html.escape(label)}"' if label else ""
    return f'<a href="{html.escape(address)}" download{named}>{html.escape(text)}</a>'


def setup(app):
    """Connect; after the theme's own changes of the body."""
    app.connect("html-page-context", offer, priority=800)
