"""One chapter executed with another model or texts: into a folder of its own, and the book stays as it is."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from analysis.commands import run as command
from single import reason
from test_execution import HEADER, ROOT, edit, recorded  # noqa: F401

CHAPTER = HEADER + """
# Tiny

```{code-cell} ipython3
import os
print(os.environ.get("ANALYSIS_MODEL"), os.environ.get("ANALYSIS_TEXTS"))
```

```{code-cell} ipython3
from analysis import double
print(double(21))
```
"""


@pytest.fixture
def book(recorded, tmp_path) -> Path:  # noqa: F811
    """Return a copy of the recorded book whose chapter says what it was asked for."""
    import shutil
    copy = shutil.copytree(recorded, tmp_path / "copy")
    (copy / "book" / "my-tiny.md").write_text(CHAPTER)
    return copy


def single(book: Path, *options: str, out: Path, chapter: str = "tiny") -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ANALYSIS_", "PYTEST_", "PYTHONPATH"))}
    return subprocess.run([sys.executable, "book/_ext/single.py", chapter, "--out", str(out), *options],
                          cwd=book, env=environment, capture_output=True, text=True, check=False)


def contents(book: Path) -> dict[str, str]:
    return {str(p.relative_to(book)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(book.rglob("*")) if p.is_file() and "__pycache__" not in p.parts}


def printed(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(out["text"]) for cell in cells for out in cell.get("outputs", []) if "text" in out]


def test_a_chapter_is_executed_as_asked_and_the_book_is_not_touched(book, tmp_path):
    (book / "book" / "tiny.md").unlink()
    before = contents(book)
    result = single(book, "--model", "/my/model", "--texts", "/my/texts.txt", "--no-html", out=tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert contents(book) == before
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["my-tiny.ipynb", "run.json"]
    assert printed(tmp_path / "out" / "my-tiny.ipynb") == ["/my/model /my/texts.txt\n", "42\n"]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["model"] == "/my/model"


def test_the_page_is_rendered_apart_from_the_book_and_says_so(tmp_path):
    before = contents(ROOT / "book")
    result = single(ROOT, "--texts", "/my/texts.txt", out=tmp_path, chapter="notation")
    assert result.returncode == 0, result.stderr
    assert contents(ROOT / "book") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["html", "notation.ipynb", "run.json"]
    page = (tmp_path / "html" / "book" / "notation.html").read_text()
    assert "one-page" not in page
    assert not (tmp_path / "html" / "one-page.html").exists()
    assert "Executed apart from the book" in page
    assert "/my/texts.txt" in page


def test_a_cell_that_raises_is_named_and_what_was_there_before_stays(book, tmp_path):
    (book / "book" / "tiny.md").unlink()
    assert single(book, "--no-html", out=tmp_path / "out").returncode == 0
    before = contents(tmp_path / "out")
    edit(book / "book" / "my-tiny.md", "double(21)", "double(None)")
    result = single(book, "--no-html", out=tmp_path / "out")
    assert result.returncode == 2
    assert "my-tiny, cell 2 of 2: TypeError" in result.stderr
    assert contents(tmp_path / "out") == before



def test_what_fails_while_a_figure_is_drawn_is_named_too():
    drawn = SimpleNamespace(ename="NoneType", evalue="None", traceback="...\n\x1b[31mTypeError\x1b[39m: no picture\n\n")
    assert reason(drawn) == "TypeError: no picture"
    assert reason(SimpleNamespace(ename="ValueError", evalue="x", traceback="...")) == "ValueError: x"


def test_a_chapter_is_found_by_its_last_words(tmp_path):
    for name in ("bert-gates", "gates", "my-rank", "your-rank", "words"):
        text = "# no cells" if name == "words" else CHAPTER
        (tmp_path / f"{name}.md").write_text(text)
    assert command.find("gates", tmp_path).stem == "gates"
    assert command.find("bert-gates", tmp_path).stem == "bert-gates"
    assert command.find("bert", tmp_path).stem == "bert-gates"
    (tmp_path / "gates.md").unlink()
    assert command.find("gates", tmp_path).stem == "bert-gates"
    with pytest.raises(LookupError, match="more than one chapter is called 'rank'"):
        command.find("rank", tmp_path)
    with pytest.raises(LookupError, match=r"no chapter is called 'words'.*bert-gates, my-rank"):
        command.find("words", tmp_path)


@pytest.mark.parametrize(("options", "message"), [
    (["notation", "--model", "minilm"], "computes with no model"),
    (["notation", "--texts", __file__], "reads no passages of text"),
    (["induction-head", "--texts", __file__], "reads no passages of text"),
    (["variant-data", "--texts", __file__], "reads no passages of text"),
    (["bert-gates", "--model", "no-such"], "unknown model 'no-such'"),
    (["bert-gates", "--texts", "/no/such.txt"], "no text at /no/such.txt"),
    (["bert-gates", "--out", str(ROOT / "book" / "here")], "lies in the book itself"),
    (["bert-gates", "--device", "tpu"], "device must be"),
])
def test_what_cannot_be_is_refused_before_anything_runs(options, message, capsys, monkeypatch):
    from analysis.__main__ import main
    monkeypatch.setenv("ANALYSIS_DEVICE", "cpu")  # restored afterwards: the command line sets it
    monkeypatch.setattr(command.subprocess, "run", lambda *_, **__: pytest.fail("was executed"))
    assert main(["run", *options]) == 2
    assert message in capsys.readouterr().err
