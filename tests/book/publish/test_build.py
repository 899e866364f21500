"""The build: what a failed or interrupted one leaves is read again, and nothing of an older book stays."""

import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from book.__main__ import main
from book.publish import build, execution, reports


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Build into a temporary folder, with Sphinx replaced by a status that the test sets."""
    monkeypatch.setattr(execution, "BUILD", tmp_path)
    for name in ("HTML", "UNFINISHED", "RENDERED"):
        monkeypatch.setattr(build, name, tmp_path / getattr(build, name).name)
    monkeypatch.setattr(execution, "machinery", lambda: "one")
    outcome = SimpleNamespace(returncode=0, calls=[])

    def run(command, **_):
        outcome.calls.append(command)
        return outcome

    monkeypatch.setattr(build.subprocess, "run", run)
    monkeypatch.setattr(build, "run_child", run)
    outcome.path = tmp_path
    return outcome


@pytest.fixture
def book(folder, monkeypatch):
    """Build with nothing to prepare and no report to make."""
    monkeypatch.setattr(build, "prepare", lambda: None)
    folder.reports = []
    monkeypatch.setattr(build.reports, "out_of_date", list)
    monkeypatch.setattr(build.reports, "place_reports", folder.reports.append)
    monkeypatch.setattr(build, "lock", lambda path: nullcontext())
    monkeypatch.setattr(execution, "ROOT", folder.path)
    monkeypatch.setattr(execution, "out_of_date", lambda: ["notation", "peers"])
    for name in ("_toc.yml", "_config.yml"):
        (folder.path / name).write_text("x: 1")
    return folder


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
    monkeypatch.setattr(execution, "machinery", lambda: "two")
    build.render()
    assert not any((folder.path / name).exists() for name in (".doctrees", "html", "jupyter_execute"))


def test_what_is_out_of_date_is_executed_and_then_the_whole_book_rendered(book, capsys):
    assert build.build([]) == 0
    execution_, rendering = book.calls
    assert "--nbval-lax" in execution_
    assert execution_[-2:] == ["book/notation.md", "book/peers.md"]
    assert "--again" not in execution_
    assert "build" in rendering
    assert book.reports == [build.HTML]
    assert "index.html" in capsys.readouterr().out


@pytest.mark.parametrize(("made", "rendered", "status"), [(0, 0, 0), (3, 0, 3), (0, 1, 1)])
def test_reports_are_made_in_another_process_and_placed_where_both_succeed(book, monkeypatch, made, rendered, status):
    monkeypatch.setattr(build.reports, "out_of_date", lambda: ["minilm"])
    monkeypatch.setattr(build, "render", lambda: rendered)
    monkeypatch.setattr(build, "MAKE_REPORTS", [sys.executable, "-c", f"import sys; sys.exit({made})"])
    assert build.build([]) == status
    assert book.reports == ([] if status else [build.HTML])


def test_an_interrupted_rendering_ends_the_making_of_reports(book, monkeypatch):
    children, popen = [], subprocess.Popen
    monkeypatch.setattr(build.subprocess, "Popen", lambda *a, **k: children.append(popen(*a, **k)) or children[0])
    monkeypatch.setattr(build.reports, "out_of_date", lambda: ["minilm"])
    monkeypatch.setattr(build, "MAKE_REPORTS", [sys.executable, "-c", "import time; time.sleep(60)"])

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "render", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build.build([])
    assert children[0].wait(30) != 0


def test_a_report_is_out_of_date_where_the_library_or_the_model_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "MADE", tmp_path)
    monkeypatch.setattr(reports, "digest", lambda name: f"of {name}")
    for name in reports.MODELS[1:]:
        (tmp_path / f"{name}.digest").write_text(f"of {name}")
    assert reports.out_of_date() == [reports.MODELS[0]]


def test_what_fails_to_execute_is_not_rendered(book):
    book.returncode = 1
    assert build.build([]) == 1
    assert len(book.calls) == 1
    assert book.reports == []


def test_an_unknown_chapter_is_refused_by_name(monkeypatch, capsys):
    monkeypatch.setattr(build, "build", lambda *_, **__: pytest.fail("was built"))
    assert main(["build", "--chapter", "no-such"]) == 2
    assert "there is no chapter 'no-such'; the chapters are" in capsys.readouterr().err
