"""The seeds of gpt2-mini: found where they lie, trained where they do not, and nobody else's folder is touched."""

import shutil

import pytest

from analysis.core.files import Refused
from analysis.models import checkpoints
from book.lab import gpt2_mini_runs


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(gpt2_mini_runs.RUNS, raising=False)


def test_a_folder_of_that_name_with_something_else_in_it_stays(tmp_path):
    letter = tmp_path / "runs" / "gpt2-mini-1" / "letter.txt"
    letter.parent.mkdir(parents=True)
    letter.write_text("dear")
    with pytest.raises(Refused, match=r"not written here: letter\.txt"):
        gpt2_mini_runs.find_run(1)
    assert letter.read_text() == "dear"


def test_a_finished_run_of_another_seed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(gpt2_mini_runs.RUNS, str(tmp_path / "there"))
    shutil.copytree(checkpoints.find("gpt2-mini").folder, tmp_path / "there" / "gpt2-mini-1")
    with pytest.raises(ValueError, match=r"holds seed 0 after 3000 steps, not seed 1"):
        gpt2_mini_runs.find_run(1)
