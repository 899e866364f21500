"""The Makefile: environments are completed after an interruption and never mixed with other folders."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = """#!/bin/sh
# Stands in for Python: says what it was called with and creates environments of itself.
echo "$@" >> "$LOG"
test -z "$FAILS" || ! echo "$*" | grep -q -e "$FAILS" || exit 1
case "$*" in "-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/bin/pip" "$3/pyvenv.cfg" ;; esac
"""
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def make(tmp_path):
    """Run make in a folder of its own with a Python that installs nothing; return its status, output and the calls."""
    for name in ("requirements*.txt", "Makefile", "constraints.txt", "pyproject.toml"):
        for path in ROOT.glob(name):
            shutil.copy(path, tmp_path)
    python, log = tmp_path / "python", tmp_path / "calls"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def run(*arguments, **variables):
        log.write_text("")
        clean = {"PATH": os.environ["PATH"], "LOG": str(log)}  # nothing that `make test VENV=elsewhere` exports
        command = ["make", f"PYTHON={python}", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=clean | variables)
        return done.returncode, done.stdout + done.stderr, log.read_text()

    return run


def test_an_environment_is_created_once(make):
    status, _, calls = make("book")
    assert status == 0
    assert calls.startswith("-m venv .venv\n-m pip install")
    assert make("book")[2] == "-m book build\n"


def test_an_interrupted_installation_is_gone_through_again(make):
    assert make("book", FAILS="pip install")[0] != 0
    status, _, calls = make("book")
    assert status == 0
    assert "-m venv" not in calls
    assert calls.count("pip install") == 2


def test_a_folder_that_holds_something_else_is_no_place_for_an_environment(make, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    status, output, calls = make("book", "VENV=mine")
    assert (bool(status), calls) == (True, "")
    assert "mine is no environment" in output


@pytest.mark.parametrize(
    ("given", "called"),
    [
        (["C=gates"], "-m book build --chapter gates\n"),
        (["C=gates", "MODEL=my bert", "OUT=runs/a"], "-m book run gates --model my bert --out runs/a\n"),
    ],
)
def test_a_chapter_is_executed_in_the_book_or_on_a_readers_model(make, given, called):
    assert make("chapter", *given)[2].endswith(called)
