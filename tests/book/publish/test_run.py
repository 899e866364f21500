"""One chapter executed with another model or texts: into a folder of its own, and the book stays as it is."""

import copy
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from myst_nb.core.read import read_myst_markdown_notebook

from analysis.core.files import MARK
from book.__main__ import main
from book.publish import execution
from book.publish import run as runs
from tests.book.publish.test_execution import HEADER, ROOT, edit, python, recorded  # noqa: F401

CHAPTER = (
    HEADER
    + """
# Tiny

```{code-cell} ipython3
WIDTH = 3
```

```{code-cell} ipython3
:tags: [parameters]
MODEL = "its own"   # any GPT-2
TEXTS = None
DEVICE = "auto"
```

```{code-cell} ipython3
print(MODEL, TEXTS)
```

```{code-cell} ipython3
from analysis.formula import double
print(double(21))
```
"""
)
RUN = (
    "import json, sys; from pathlib import Path; from book.publish import run\n"
    "run.run('my-tiny', Path(sys.argv[1]), json.loads(sys.argv[2]), html=False)"
)


@pytest.fixture
def book(recorded, tmp_path) -> Path:  # noqa: F811
    """Return a copy of the recorded book with a chapter that prints its parameters."""
    copy = shutil.copytree(recorded, tmp_path / "copy")
    (copy / "book" / "my-tiny.md").write_text(CHAPTER)
    return copy


def execute(book: Path, out: Path, **values: str) -> subprocess.CompletedProcess:
    return python(book, "-c", RUN, str(out), json.dumps(values))


def contents(book: Path) -> dict[str, str]:
    return {
        str(p.relative_to(book)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(book.rglob("*"))
        if p.is_file() and "__pycache__" not in p.parts
    }


def printed(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(out["text"]) for cell in cells for out in cell.get("outputs", []) if "text" in out]


@pytest.mark.slow
def test_a_chapter_is_executed_with_its_parameters_and_the_book_is_not_touched(book, tmp_path):
    before, out = contents(book), tmp_path / "out"
    result = execute(book, out, MODEL="/my/model", TEXTS="/my/texts.txt")
    assert result.returncode == 0, result.stderr
    assert contents(book) == before
    assert sorted(p.name for p in out.iterdir()) == [MARK, "my-tiny.ipynb", "run.json"]
    assert printed(out / "my-tiny.ipynb") == ["/my/model /my/texts.txt\n", "42\n"]
    settings = json.loads((out / "run.json").read_text())
    told = [settings[name] for name in ("chapter", "model", "texts", "device")]
    assert told == ["my-tiny", "/my/model", "/my/texts.txt", None]
    assert {"python", "torch"} <= set(settings["versions"])


@pytest.mark.slow
def test_a_cell_that_raises_is_named_and_what_was_there_before_stays(book, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / MARK).write_text("run of my-tiny\n")
    for name in ("my-tiny.ipynb", "run.json"):
        (out / name).write_text("of an earlier run")
    edit(book / "book" / "my-tiny.md", "double(21)", "double(None)")
    result = execute(book, out, DEVICE="cpu")
    assert result.returncode == 1
    assert "Failed: my-tiny, cell 5 of 5: TypeError" in result.stderr
    (out / MARK).unlink()
    left = {path.name: path.read_text() for path in out.iterdir()}
    assert left == dict.fromkeys(("my-tiny.ipynb", "run.json"), "of an earlier run")


@pytest.mark.slow
def test_the_page_is_rendered_apart_from_the_book_and_says_so(tmp_path):
    before = contents(ROOT / "book")
    result = python(ROOT, "-m", "book", "run", "variant-data", "--device", "cpu", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"Open {tmp_path / 'html' / 'index.html'}"
    assert contents(ROOT / "book") == before
    there = [MARK, "html", "run.json", "variant-data.ipynb"]
    assert sorted(p.name for p in tmp_path.iterdir()) == there
    page = (tmp_path / "html" / "book" / "evidence" / "variant-data.html").read_text()
    assert "Executed apart from the book" in page
    assert "With device <code" in page


def test_a_chapter_is_found_by_its_first_or_last_words(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    (tmp_path / "book").mkdir()
    for name in ("bert-gates", "gates", "my-rank", "your-rank", "words"):
        (tmp_path / "book" / f"{name}.md").write_text("# no cells" if name == "words" else CHAPTER)
    assert execution.chapter("gates") == "gates"
    assert execution.chapter("bert-gates") == "bert-gates"
    assert execution.chapter("bert") == "bert-gates"
    (tmp_path / "book" / "gates.md").unlink()
    assert execution.chapter("gates") == "bert-gates"
    (tmp_path / "book" / "evidence").mkdir()
    (tmp_path / "book" / "evidence" / "bert-gates.md").write_text(CHAPTER)
    assert execution.chapter("bert-gates") == "bert-gates"
    assert execution.chapter("bert-gates", evidence=True) == "evidence/bert-gates"
    (tmp_path / "book" / "evidence" / "bert-gates.md").unlink()
    with pytest.raises(LookupError, match="'rank' may be more than one chapter: my-rank, your-rank"):
        execution.chapter("rank")
    with pytest.raises(LookupError, match="no chapter 'words'; the chapters are bert-gates, my-rank"):
        execution.chapter("words")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["notation", "--model", "minilm"], "the chapter has no parameter MODEL"),
        (["notation", "--texts", __file__], "the chapter has no parameter TEXTS"),
        (["induction-head", "--texts", __file__], "the chapter has no parameter TEXTS"),
        (["bert-gates", "--model", "no-such"], "unknown model 'no-such'"),
        (["bert-gates", "--texts", "/no/such.txt"], "no text at /no/such.txt"),
        (["bert-gates", "--out", str(ROOT / "book" / "here")], "lies in the book itself"),
        (["bert-gates", "--out", str(ROOT / "_build")], "lies in the book itself"),
        (["bert-gates", "--out", str(ROOT / "tests" / "new")], "lies in the book itself"),
        (["bert-gates", "--device", "tpu"], "device must be"),
        (["glossary"], "there is no chapter 'glossary'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(options, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["a`b", "``", "x`<script>alert(1)</script>`y", "one\n```\n# two", "a{evidence}`K-15`"])
def test_a_path_is_text_on_the_page_and_marks_nothing_up(path):
    from docutils.core import publish_doctree
    from myst_parser.parsers.docutils_ import Parser

    notebook = SimpleNamespace(cells=[SimpleNamespace(source="# Title\nmore")])
    runs.announce(notebook, {"TEXTS": path})
    tree = publish_doctree(notebook.cells[0].source, parser=Parser(), settings_overrides={"report_level": 5})
    code = [node.astext() for node in tree.findall() if node.tagname == "literal"]
    assert code == [" ".join(path.splitlines())]
    assert [node.tagname for node in tree.findall() if node.tagname in ("raw", "problematic", "literal_block")] == []


@pytest.fixture
def notebook():
    return read_myst_markdown_notebook(CHAPTER, path="tiny.md")


def test_names_are_those_of_the_tagged_cell(notebook):
    assert runs.parameters(notebook) == ["MODEL", "TEXTS", "DEVICE"]
    notebook.cells[2].metadata.pop("tags")
    assert runs.parameters(notebook) == []


def test_values_are_set_in_a_cell_of_their_own_after_the_tagged_one(notebook):
    before = copy.deepcopy(notebook)
    injected = runs.inject(notebook, {"MODEL": "my \"own\" 'model'", "DEVICE": "cpu"})
    assert notebook == before, "the notebook itself was changed"
    assert [cell.source for cell in injected.cells if cell.cell_type == "code"][:2] == [
        cell.source for cell in notebook.cells if cell.cell_type == "code"
    ][:2]
    new = injected.cells[3]
    assert new.metadata["tags"] == ["injected-parameters"]
    variables = {}
    exec(new.source, variables)
    assert {name: variables[name] for name in ("MODEL", "DEVICE")} == {"MODEL": "my \"own\" 'model'", "DEVICE": "cpu"}
    assert "TEXTS" not in variables
    nbformat.validate(injected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"WIDTH": "3"}, "no parameter WIDTH, .* it has MODEL, TEXTS, DEVICE"),
        ({"MODEL": "x", "SEED": "1", "DEPTH": "2"}, "no parameter DEPTH, SEED, so setting it would have no effect"),
    ],
)
def test_a_parameter_that_the_chapter_has_not_is_refused_by_name(notebook, values, message):
    with pytest.raises(LookupError, match=message):
        runs.inject(notebook, values)
