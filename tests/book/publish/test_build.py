"""The build: what a failed or interrupted one leaves is read again, and nothing of an older book stays."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from book.publish import build, execution


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Build into a temporary folder, with Sphinx replaced by a status that the test sets."""
    monkeypatch.setattr(execution, "BUILD", tmp_path)
    for name in ("HTML", "UNFINISHED", "RENDERED"):
        monkeypatch.setattr(build, name, tmp_path / getattr(build, name).name)
    monkeypatch.setattr(execution, "digest", lambda: "one")
    outcome = SimpleNamespace(returncode=0, calls=[])

    def run(command, **_):
        outcome.calls.append(command)
        return outcome

    monkeypatch.setattr(build.subprocess, "run", run)
    outcome.path = tmp_path
    return outcome


def leave(path, *names):
    for name in names:
        (path / name).mkdir(exist_ok=True)


def test_what_a_failed_build_read_is_read_again(folder):
    assert build.render() == 0
    leave(folder.path, ".doctrees", "html")
    folder.returncode = 1
    assert build.render() == 1
    assert (folder.path / ".doctrees").exists()
    folder.returncode = 0
    assert build.render() == 0
    assert not (folder.path / ".doctrees").exists(), "the warnings of the failed build would not be seen"
    assert (folder.path / "html").exists()


def test_a_build_that_is_up_to_date_keeps_what_it_has(folder):
    build.render()
    leave(folder.path, ".doctrees", "html", "jupyter_execute")
    build.render()
    assert (folder.path / ".doctrees").exists()
    assert (folder.path / "html").exists()


def test_pages_of_an_older_book_do_not_stay(folder, monkeypatch):
    build.render()
    leave(folder.path, ".doctrees", "html", "jupyter_execute")
    monkeypatch.setattr(execution, "digest", lambda: "two")
    build.render()
    assert not any((folder.path / name).exists() for name in (".doctrees", "html", "jupyter_execute"))


def test_warnings_fail_the_build(folder):
    build.render()
    assert {"-W", "--keep-going"} <= set(folder.calls[0])


@pytest.mark.parametrize(("compare", "flag"), [(True, "--nbval"), (False, "--nbval-lax")])
def test_chapters_are_compared_only_when_asked(folder, compare, flag):
    assert build.execute(compare, again=False, names=[]) == 0
    assert flag in folder.calls[0]
    assert "--again" not in folder.calls[0]


def test_a_book_without_code_is_no_failure(folder):
    folder.returncode = 5  # pytest: nothing was collected
    assert build.execute(True, again=False, names=[]) == 0


def test_an_unknown_chapter_is_refused_by_name(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["build.py", "--chapter", "no-such"])
    with pytest.raises(SystemExit):
        build.main()
    assert "no chapter 'no-such'; the pages are" in capsys.readouterr().err


def called(monkeypatch, *options):
    for name in ("ANALYSIS_DEVICE", "PYTHONPATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr("sys.argv", ["build.py", *options])
    return build.main()


def test_on_the_pretended_gpu_chapters_are_compared_and_no_page_is_made(folder, monkeypatch):
    monkeypatch.setattr(build, "prepare", lambda: None)
    assert called(monkeypatch, "--pretended", "--chapter", "notation", "--chapter", "gates") == 0
    (command,) = folder.calls
    assert command[-2:] == ["book/notation.md", "book/bert-gates.md"]
    assert {"--nbval", "--again"} <= set(command)
    assert os.environ["ANALYSIS_DEVICE"] == "pretended"
    assert (Path(os.environ["PYTHONPATH"]) / "sitecustomize.py").is_file()


def test_what_a_pretended_gpu_costs_is_not_recorded(folder, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        called(monkeypatch, "--pretended", "--costs")
    assert "nobody's measurement" in capsys.readouterr().err
    assert not folder.calls
