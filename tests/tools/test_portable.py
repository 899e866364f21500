"""Executions under other settings: each sees its own environment, in a copy of the tree, and a failure is named."""

import os
import re
import sys

import pytest

from book.publish import execution
from tools import portable

NUMBER = "  tiny, t-low: recorded 1, found 2\n"
DIFFERS = f"The numbers differ:\n{NUMBER}Traceback:\n{NUMBER}FAILED book/tiny.md::Cell 3 - \x1b[91mNo\x1b[0m\n"


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Let the copy of the tree hold a book whose build runs what the test puts in."""
    monkeypatch.setattr(portable, "COPY", tmp_path / "a copy")
    module = tmp_path / "a copy" / "book" / "__main__.py"
    module.parent.mkdir(parents=True)
    return module


def test_a_setting_reaches_the_execution_and_nothing_of_this_tree_does(copy, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(portable.execution.ROOT))
    monkeypatch.setitem(portable.SETTINGS, "one", {"ATEN_CPU_CAPABILITY": "default", "HOME": None})
    copy.write_text(
        "import json, os, pathlib, sys\n"
        "pathlib.Path('seen.json').write_text(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    )
    assert portable.execute("one", ["tiny"])
    arguments, environment = execution.json.loads((copy.parents[1] / "seen.json").read_text())
    assert arguments == ["build", "--compare", "--again", "--chapter", "tiny"]
    assert environment["ATEN_CPU_CAPABILITY"] == "default"
    assert not {"HOME", "PYTHONPATH"} & set(environment)
    assert environment["PATH"] == os.environ["PATH"]


def test_each_setting_has_its_line_and_a_failure_its_cells_and_numbers(copy, capsys):
    first, second, *_ = portable.SETTINGS
    copy.write_text(f"import os, sys\nif os.environ['OMP_NUM_THREADS'] == '4': print({DIFFERS!r}); sys.exit(1)")
    assert portable.execute(first, [])
    assert not portable.execute(second, [])
    passed, failed, *lines = capsys.readouterr().out.splitlines()
    assert passed.startswith(f"passed: {first}")
    assert failed.startswith(f"FAILED: {second}")
    assert lines[:2] == ["    tiny, t-low: recorded 1, found 2", "  FAILED book/tiny.md::Cell 3"]
    assert len(lines) == 3
    assert "The numbers differ" in (portable.COPY.parent / lines[2].split("/")[-1]).read_text()


def test_a_failure_of_another_kind_shows_its_last_lines():
    assert portable.told("one\nModuleNotFoundError: no module") == ["one", "ModuleNotFoundError: no module"]


@pytest.mark.parametrize("fails", [None, *portable.SETTINGS])
def test_all_settings_are_tried_and_one_failure_fails(monkeypatch, fails):
    tried = []
    monkeypatch.setattr(portable, "copy_tree", lambda *_: None)
    monkeypatch.setattr(portable, "possible", lambda _: True)
    monkeypatch.setattr(portable, "execute", lambda setting, names: tried.append((setting, names)) or setting != fails)
    assert portable.main(["gates"]) == (1 if fails else 0)
    assert tried == [(setting, ["bert-gates"]) for setting in portable.SETTINGS]


def test_what_the_machine_cannot_is_left_out(monkeypatch, capsys):
    tried = []
    monkeypatch.setattr(portable, "copy_tree", lambda *_: None)
    monkeypatch.setattr(portable.torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    monkeypatch.setattr(portable, "execute", lambda setting, _: tried.append(setting) or True)
    assert portable.main([]) == 0
    (out,) = set(portable.SETTINGS) - set(tried)
    assert capsys.readouterr().out == f"left out, since this machine cannot: {out}\n"
    assert "AVX2" in out


def test_the_settings_differ_in_instruction_set_threads_and_surroundings():
    settings = portable.SETTINGS.values()
    for name in (*execution.INSTRUCTIONS, "OMP_NUM_THREADS"):
        assert len({setting[name] for setting in settings}) == len(settings)
    assert {"LC_ALL", "TZ", "HOME"} < {name for setting in settings for name in setting}


@pytest.mark.slow
def test_the_copy_is_made_anew_and_chapters_can_be_executed_from_it(tmp_path):
    copy = tmp_path / "a copy"
    (copy / "book").mkdir(parents=True)
    (copy / "book" / "old.md").touch()
    portable.copy_tree(execution.ROOT, copy)
    assert not (copy / "book" / "old.md").exists()
    names = "from book.publish import execution; import analysis; print(execution.ROOT, len(execution.out_of_date()))"
    done = portable.run_child(
        [sys.executable, "-c", names], cwd=copy, env=portable.changed(dict(os.environ), {}), stdout=-1
    )
    chapters = [page for page in execution.pages().values() if execution.is_notebook(page)]
    assert done.stdout == f"{copy} {len(chapters)}\n"


def test_ci_executes_under_the_baseline_instruction_set():
    script = (execution.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (exported,) = re.findall(r"^export (ATEN.*)$", script, re.MULTILINE)
    assert dict(pair.split("=") for pair in exported.split()) == portable.BASELINE
    assert script.index(exported) < script.index("exec make test")
