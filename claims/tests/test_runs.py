"""A folder's judgements: each file runs in a process of its own, and what fails stops no other claim."""

import json

import pytest

from claims_kit import runs

LEDGER = "".join(f"- {{id: C-{n}, place: p, claim: It is.}}\n" for n in (1, 2, 3))
HEAD = "from claims_kit import judge\nfrom here import gap\n"
HOLDS = 'judge("C-{}", "reproduced", "Yes.", when=lambda gap: gap < 1, turned_by={{"gap": 2}})\n'
FAILS = HOLDS.replace("gap < 1", "gap > 1")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "claims.yml").write_text(LEDGER)
    (tmp_path / "here.py").write_text("gap = 0.5\n")
    return tmp_path


def test_what_fails_stops_no_other_claim(folder):
    (folder / "judge_one.py").write_text(HEAD + FAILS.format(1) + HOLDS.format(2) + "1 / 0\n" + HOLDS.format(3))
    found = runs.run(folder)
    assert list(found.verdicts) == ["C-2"]
    assert found.verdicts["C-2"].where == "judge_one.py:4"
    assert found.refused == 1
    assert found.problems == {
        "C-1": "C-1: 'reproduced' does not follow: gap > 1 is False; gap = 0.5",
        "C-3": "C-3 has no verdict",
        "judge_one.py": "judge_one.py stopped: judge_one.py, line 5, ZeroDivisionError: division by zero",
    }
    assert found.provenance.keys() == {"python", "claims.yml", "here.py", "judge_one.py"}


def test_a_counterfeit_that_breaks_a_condition_leaves_that_claim_open(folder):
    broken = HOLDS.format(1).replace('"gap": 2', '"gap": [2]')
    (folder / "judge.py").write_text(HEAD + broken + HOLDS.format(2) + HOLDS.format(3))
    found = runs.run(folder)
    assert list(found.verdicts) == ["C-2", "C-3"]
    assert list(found.problems) == ["C-1"]
    assert found.problems["C-1"].startswith("C-1: TypeError: ")


def test_a_notebook_is_one_program_whose_conditions_are_read_from_its_cells(folder):
    cells = [{"cell_type": "code", "source": code} for code in (HEAD, [HOLDS.format(1)])]
    (folder / "judge.ipynb").write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "text"}, *cells]}))
    (folder / "judge.py").write_text(HEAD + HOLDS.format(2) + HOLDS.format(3) + "raise SystemExit\n")
    found = runs.run(folder)
    assert [v.where for v in found.verdicts.values()] == ["judge.ipynb[2]:1", "judge.py:3", "judge.py:4"]
    assert {v.condition for v in found.verdicts.values()} == {"gap < 1\n# turned by gap = 2"}
    assert list(found.problems) == ["judge.py"]


def test_two_verdicts_on_a_claim_leave_that_claim_open(folder):
    (folder / "judge.py").write_text(HEAD + HOLDS.format(1) * 2 + HOLDS.format(2) + HOLDS.format(3))
    found = runs.run(folder)
    assert found.problems == {"C-1": "C-1 has two verdicts: in judge.py:3 and in judge.py:4"}
    assert list(found.verdicts) == ["C-2", "C-3"]


def test_a_verdict_on_no_claim_and_a_ledger_that_cannot_be_read_are_problems(folder):
    (folder / "judge.py").write_text(HEAD + "".join(map(HOLDS.format, (1, 9, 2, 3))))
    assert runs.run(folder).problems == {"judge.py": "C-9 is not in the ledger"}
    (folder / "claims.yml").write_text("[")
    assert list(runs.run(folder).problems) == ["claims.yml"]


def test_a_condition_that_is_no_function_is_said_so_and_what_is_never_forged_is_named(folder):
    unforged = HOLDS.format(2).replace("lambda gap: gap < 1", "lambda gap, n: gap < n")
    (folder / "judge.py").write_text(HEAD + "n = 1\n" + HOLDS.format(1).replace("lambda gap: ", "") + unforged)
    found = runs.run(folder)
    assert "C-1: TypeError: `when` must be a function of variables" in found.problems["C-1"]
    assert found.unforged == {"C-2": ["n"]}


def test_a_program_that_dies_and_a_broken_notebook_are_problems(folder):
    (folder / "judge.py").write_text("import os\nos._exit(3)\n")
    (folder / "judge.ipynb").write_text("{")
    problems = runs.run(folder).problems
    assert "exit status 3" in problems["judge.py"]
    assert "no whole notebook" in problems["judge.ipynb"]
