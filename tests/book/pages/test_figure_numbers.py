"""References to figures have the right numbers, and a page is loaded once for all of them."""

import re

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

CONFIG = {
    "source_suffix": {".md": "markdown"},
    "extensions": ["myst_parser", "book._ext.figure_numbers"],
    "root_doc": "one",
    "html_theme": "basic",
    "numfig": True,
}
FIGURE = "```{{figure}} a.svg\n:name: {}\nA caption.\n```\n"
TOC = "# One\n\n```{toctree}\ntwo\n```\n\n"


def test_a_page_is_loaded_once_for_all_references_to_its_figures(tmp_path, monkeypatch):
    names = ("fig-a", "fig-b", "fig-c")
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "one.md").write_text(TOC + "\n".join(f"{{numref}}`{name}`" for name in names))
    (tmp_path / "two.md").write_text("# Two\n\n" + "\n".join(map(FIGURE.format, names)))
    loaded, load = [], BuildEnvironment.get_doctree
    monkeypatch.setattr(
        BuildEnvironment, "get_doctree", lambda env, docname: loaded.append(docname) or load(env, docname)
    )
    Sphinx(
        str(tmp_path),
        None,
        str(tmp_path / "html"),
        str(tmp_path / "doctrees"),
        "html",
        status=None,
        warning=None,
        confoverrides=CONFIG,
    ).build()
    page = (tmp_path / "html" / "one.html").read_text()
    assert re.findall(r'<span class="std std-numref">(.*?)</span>', page) == ["Fig. 1", "Fig. 2", "Fig. 3"]
    assert loaded.count("two") == loaded.count("one") + 1, "and besides to be numbered and written, as is every page"
