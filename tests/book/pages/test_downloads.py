"""What can be taken home: whole, linked, and without what only the build wants."""

import json
import re
import shutil
import subprocess
import sys

import nbformat
import numpy as np
import pytest

from analysis.plotting.figure_data import MIME
from book._ext import readable
from tests.book.pages import stories
from tests.book.pages.book_pages import ROOT


def test_every_figure_of_a_page_can_be_taken_home(page, html):
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    for name in re.findall(r'<figure(?! class="transformer)[^>]*\bid="([^"]+)"', text):
        for ending in ("svg", "png", "npz", "csv", "json"):
            there = (html / "_downloads" / "figures" / f"{name}.{ending}").exists()  # long numbers come as NPZ alone
            assert there == (f'_downloads/figures/{name}.{ending}" download' in text)
            assert there or ending in ("csv", "json")


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
def test_a_story_taken_home_says_the_same_in_any_folder(html, tmp_path):
    shutil.copy(html / "_downloads" / "book" / "notation-executed.ipynb", tmp_path)
    options = "-q --nbval --nbval-current-env -p no:cacheprovider --nbval-kernel-startup-timeout 180"
    command = [sys.executable, "-m", "pytest", *options.split()]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_every_page_offers_its_text_and_every_chapter_its_notebooks(page, html):
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    assert f"_sources/{page}.md" in text
    if "```{code-cell}" in (ROOT / f"{page}.md").read_text(encoding="utf-8"):
        for ending in ("", "-executed"):
            found = nbformat.read(html / "_downloads" / f"{page}{ending}.ipynb", as_version=4)
            nbformat.validate(found)
            outputs = [output for c in found.cells if c.cell_type == "code" for output in c.outputs]
            assert bool(outputs) == bool(ending)
            for cell in found.cells:
                if any(kind.startswith("image/") for out in cell.get("outputs", []) for kind in out.get("data", {})):
                    assert "nbval-ignore-output" in cell.metadata.tags
            assert not [output for output in outputs if MIME in output.get("data", {})], "what the build alone wants"
            assert bool(ending) or not any(c.execution_count for c in found.cells if c.cell_type == "code")
            assert f"_downloads/{page}{ending}.ipynb" in text


def test_every_numbered_picture_of_a_chapter_has_its_numbers(page, html):
    if not page.startswith("book/") or page == "book/intro":
        return
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    figures = [figure.split("</figure>")[0] for figure in text.split("<figure")[1:]]
    without = [figure[:80] for figure in figures if "<img" in figure and ".npz" not in figure]
    assert not without


def test_numbers_need_no_pickle(html):
    for path in sorted((html / "_downloads" / "figures").glob("*.npz")):
        with np.load(path, allow_pickle=False) as found:
            assert len(found["contents"])
            assert all(found[name].size for name in found.files)
            if path.with_suffix(".json").exists():
                same = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
                for name in found.files:
                    np.testing.assert_array_equal(np.array(same[name], dtype=found[name].dtype), found[name])
