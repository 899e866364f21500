"""The Makefile: environments that are whole or started over, and values that reach the commands as they were typed."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from sphinx.util.matching import Matcher

ROOT = Path(__file__).parents[3]
PYTHON = """#!/bin/sh
# Stands in for Python: says what it was called with, creates environments of itself, and knows no ensurepip if told so.
echo "$@" >> "$LOG"
test -z "$FAILS" || ! echo "$*" | grep -qxe "$FAILS" || exit 1
case "$*" in
  *ensurepip*) test -z "$NO_ENSUREPIP" ;;
  *python%d.%d-venv*) echo python3.11-venv ;;
  "-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip"*) test -z "$PIP" || eval "$PIP" ;;
esac
"""
INTERRUPTED = "kill -INT $PPID; exit 1"  # Ctrl-C reaches the shell too; pip itself ends with 1
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture(params=[name for name in ("sh", "bash") if shutil.which(name)])
def make(request, tmp_path):
    """Run make in a folder of its own with a Python that installs nothing; return its status, output and the calls."""
    for name in ("Makefile", "requirements.txt", "requirements-test.txt", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python, log = tmp_path / "python", tmp_path / "calls"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def run(*arguments, **variables):
        log.write_text("")
        clean = {"PATH": os.environ["PATH"], "LOG": str(log)}  # nothing that `make test VENV=elsewhere` exports
        command = ["make", f"SHELL={shutil.which(request.param)}", f"PYTHON={python}", *arguments]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=clean | variables,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # deaf in `make test &`
        return done.returncode, done.stdout + done.stderr, log.read_text()

    return run


def venv(tmp_path):
    return tmp_path / ".venv"


def age(path):
    """Make a file older than what it depends on."""
    os.utime(path, (0, 0))


def test_an_environment_is_created_once(make, tmp_path):
    assert make("book")[0] == 0
    assert (venv(tmp_path) / ".ready").exists()
    status, _, calls = make("book")
    assert (status, calls) == (0, "-m book build\n")


def test_what_the_make_that_runs_the_tests_exports_does_not_reach_the_make_that_they_run(make, tmp_path, monkeypatch):
    exported = {
        "MAKEFLAGS": "n -- VENV=elsewhere",
        "MAKEOVERRIDES": "VENV=elsewhere",
        "VENV": "elsewhere",
        "C": "gates",
    }
    for name, value in exported.items():
        monkeypatch.setenv(name, value)
    make("book")
    assert (venv(tmp_path) / ".ready").exists()
    assert not (tmp_path / "elsewhere").exists()
    assert "Name the chapter" in make("chapter")[1]


@pytest.mark.parametrize("target", ["book", "lint"])
def test_an_interrupted_installation_is_started_over(make, tmp_path, target):
    make("book")
    age(venv(tmp_path) / ".ready")
    (venv(tmp_path) / "half-installed").touch()
    status, _, _ = make(target, PIP=INTERRUPTED)
    assert status
    assert not (venv(tmp_path) / ".ready").exists()
    status, output, _ = make("book")
    assert status == 0
    assert "starting over" in output
    assert not (venv(tmp_path) / "half-installed").exists()


def test_a_failing_installation_leaves_what_was_there(make, tmp_path):
    make("book")
    status, _, _ = make("lint", PIP="exit 1")  # no network, and nothing that the checks need is installed
    assert status
    assert make("book")[2] == "-m book build\n"


def test_an_environment_of_someone_else_is_never_removed(make, tmp_path):
    (tmp_path / "mine" / "bin").mkdir(parents=True)
    shutil.copy(tmp_path / "python", tmp_path / "mine" / "bin" / "python")
    make("book", "VENV=mine", PIP=INTERRUPTED)
    status, output, calls = make("book", "VENV=mine")
    assert status == 0
    assert "starting over" not in output
    assert "-m venv" not in calls


def test_a_folder_that_holds_something_else_is_no_place_for_an_environment(make, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for _ in range(2):
        status, output, _ = make("book", "VENV=mine", PIP=INTERRUPTED)
        assert status
        assert "mine is neither empty nor an environment" in output
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("name", ["VENV", "PEERS", "NEWEST"])
@pytest.mark.parametrize("value", ["", "/", ".", "my folder"])
def test_an_environment_has_one_folder_of_its_own(make, name, value):
    status, output, calls = make("book", f"{name}={value}")
    assert (status, calls) == (2, "")
    assert f"{name} must name one folder, without blanks, got '{value}'" in output


def test_a_python_without_venv_gets_the_name_of_the_package(make, tmp_path):
    status, output, _ = make("book", NO_ENSUREPIP="1")
    assert status
    assert "apt install python3.11-venv" in output
    assert not venv(tmp_path).exists()
    assert make("book")[0] == 0


def test_values_reach_the_command_as_they_were_typed(make):
    status, _, calls = make("chapter", "C=gates", "MODEL=my bert", 'TEXTS=Anna\'s "own" texts.txt')
    assert status == 0
    assert calls.endswith('-m book run gates --model my bert --texts Anna\'s "own" texts.txt\n')


def test_a_chapter_without_other_inputs_is_executed_in_the_book(make):
    assert make("chapter", "C=gates")[2].endswith("-m book build --chapter gates\n")
    assert "Name the chapter" in make("chapter")[1]


@pytest.mark.parametrize(
    ("fails", "stages"),
    [
        ("", ["compare", "render", "unit", "pages"]),
        (".*--compare", ["compare"]),
        ("-m book build", ["compare", "render", "unit"]),
        (".*--doctest-modules.*", ["compare", "render", "unit"]),
    ],
)
def test_pages_are_rendered_beside_the_unit_tests_and_tested_if_both_succeed(make, tmp_path, fails, stages):
    make("book")
    (venv(tmp_path) / "bin" / "lint-imports").symlink_to("python")
    status, _, calls = make("test", FAILS=fails)
    assert bool(status) == bool(fails)
    ends = {
        "compare": "build --compare",
        "render": "book build",
        "unit": "tests/tools -m not slow",
        "pages": "tests/book/pages -m not slow",
    }
    order = [name for call in calls.splitlines() for name, end in ends.items() if call.endswith(end)]
    assert sorted(order) == sorted(stages)
    assert (order[0], order[-1]) == ("compare", "pages") if not fails else order[0] == "compare"


def test_the_book_does_not_read_what_make_installs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    names = re.findall(r"^(?:VENV|PEERS|NEWEST) \?= (\S+)$", makefile, re.MULTILINE)
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    excluded = Matcher(settings["exclude_patterns"])
    assert len(names) == 3
    assert [name for name in names if not excluded(name)] == []


@pytest.mark.parametrize("name", ["VENV", "C", "MODEL", "TEXTS", "DEVICE", "OUT", "PEERS", "SEEDS"])
@pytest.mark.parametrize("value", ["a$b", "$(HOME)", "$$x"])
def test_a_dollar_sign_in_a_value_is_refused_since_make_would_read_another(make, name, value):
    for given, variables in (((f"{name}={value}",), {}), ((), {name: value})):
        status, said, calls = make("chapter", *given, **variables)
        assert status == 2
        assert f"{name} holds a dollar sign" in said
        assert not calls


def test_slow_tests_run_after_the_pages_are_made(make, tmp_path):
    make("book")
    calls = make("slow")[2].splitlines()
    order = [call for call in calls if "-m book build" in call or "-m slow" in call]
    assert "-m book build" in order[0]
    assert [call.endswith("-m slow") for call in order[1:]] == [True, True]
    assert "tests/book/pages" in order[-1]
