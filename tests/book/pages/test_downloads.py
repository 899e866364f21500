"""What can be taken home: whole, linked, and without what only the build wants."""

import io
import json
import re

import nbformat
import numpy as np
import pytest

from analysis.plotting import style
from analysis.plotting.figure_data import MIME
from book._ext import downloads, readable
from tests.book.pages.book_pages import ROOT
from tools import stories


@pytest.fixture
def notebook():
    fig, ax = style.new()
    ax.plot([1, 2], [3, 4])
    data = {"image/svg+xml": fig._repr_svg_(), "text/plain": "figure", **fig._repr_mimebundle_()}
    shown = nbformat.v4.new_output("display_data", data)
    cell = nbformat.v4.new_code_cell("draw()", outputs=[shown], execution_count=1)
    cell.metadata["mystnb"] = {"figure": {"name": "fig-one"}}
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A"), cell])


def test_a_figure_gives_svg_png_and_numbers(notebook):
    files = downloads.figures(notebook)["fig-one"]
    assert files["png"].startswith(b"\x89PNG")
    assert b"<svg" in files["svg"]
    np.testing.assert_array_equal(np.load(io.BytesIO(files["npz"]))["panel0.line0"], [[1, 2], [3, 4]])


def test_links_stand_below_the_figure_that_has_data(notebook, tmp_path):
    body = (
        '<figure id="fig-one"><img/><figcaption><p>A</p></figcaption></figure>'
        '<figure id="fig-two"><img/><figcaption><p>B</p></figcaption></figure>'
    )
    made = downloads.below_figures(body, downloads.figures(notebook), "../", tmp_path)
    first, second = made.split("</figure>")[:2]
    assert first.count("<a href=") == 5
    assert 'href="../_downloads/figures/fig-one.npz" download' in first
    assert "<a" not in second
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"fig-one.{ending}" for ending in ("svg", "png", "npz", "csv", "json")
    }
    name, *where, value = (tmp_path / "figures" / "fig-one.csv").read_text().splitlines()[1].split(",")
    assert (name, where, float(value)) == ("panel0.line0", ["0", "0", ""], 1.0)
    assert json.loads((tmp_path / "figures" / "fig-one.json").read_text())["panel0.line0"] == [[1, 2], [3, 4]]


def test_every_figure_of_a_page_can_be_taken_home(page, html):
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    for name in re.findall(r'<figure(?! class="transformer)[^>]*\bid="([^"]+)"', text):
        for ending in ("svg", "png", "npz"):
            assert f'_downloads/figures/{name}.{ending}" download' in text
            assert (html / "_downloads" / "figures" / f"{name}.{ending}").stat().st_size > 0


def test_notebooks_carry_no_build_data_and_the_bare_one_no_outputs(notebook):
    bare, full = downloads.plain(notebook, outputs=False), downloads.plain(notebook, outputs=True)
    assert not bare.cells[1].outputs
    assert bare.cells[1].execution_count is None
    assert set(full.cells[1].outputs[0].data) == {"image/svg+xml", "text/plain"}
    assert MIME in notebook.cells[1].outputs[0].data, "the original was changed"
    nbformat.validate(full)


ROLE_OR_DIRECTIVE = re.compile(r"\{[a-z:]+\}`|^`{3,}\{|^\([\w-]+\)=$|^:\w+:", re.MULTILINE)


def test_downloaded_notebooks_read_without_roles_and_directives(html):
    for path in sorted((html / "_downloads").rglob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert not ROLE_OR_DIRECTIVE.findall(text), path.name
        assert "*To run this notebook*" in text


def test_a_story_taken_home_needs_the_package_alone(html, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for page in stories.pages():
        cells = nbformat.read(html / "_downloads" / f"{page}.ipynb", as_version=4).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        assert code[0].startswith("import importlib.util")
        assert not readable.OF_THE_BOOK.search("\n".join(code))
        exec(code[0], {})  # the package is here, so nothing is installed


@pytest.mark.slow
def test_a_story_taken_home_runs_in_any_folder(html, tmp_path):
    from nbclient import NotebookClient

    notebook = nbformat.read(html / "_downloads" / "book" / "notation.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_every_page_offers_its_text_and_every_chapter_its_notebooks(page, html):
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    assert f"_sources/{page}.md" in text
    if "```{code-cell}" in (ROOT / f"{page}.md").read_text(encoding="utf-8"):
        for ending in ("", "-executed"):
            found = nbformat.read(html / "_downloads" / f"{page}{ending}.ipynb", as_version=4)
            nbformat.validate(found)
            assert any(c.outputs for c in found.cells if c.cell_type == "code") == bool(ending)
            assert f"_downloads/{page}{ending}.ipynb" in text


def test_every_numbered_picture_of_a_chapter_has_its_numbers(page, html):
    if not page.startswith("book/") or page == "book/intro":
        return
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    without = [
        f[:80]
        for f in text.split("<figure")[1:]
        if "<img" in f.split("</figure>")[0] and ".npz" not in f.split("</figure>")[0]
    ]
    assert not without


def test_numbers_need_no_pickle(html):
    for path in sorted((html / "_downloads" / "figures").glob("*.npz")):
        with np.load(path, allow_pickle=False) as found:
            assert len(found["contents"])
            assert all(found[name].size for name in found.files)
