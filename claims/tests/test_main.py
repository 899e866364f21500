"""The command line: what is laid can be judged at once, and what fails is said."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from claims_kit.__main__ import main

KIT = Path(__file__).parents[1]


@pytest.mark.parametrize("notebook", [[], ["--notebook"]])
def test_what_is_laid_is_judged(tmp_path, capsys, notebook):
    assert main(["new", "1706.03762", "--into", str(tmp_path / "paper"), *notebook]) == 0
    assert len(capsys.readouterr().out.split()) == 4
    assert main(["check", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "2 claims: 1 reproduced, 1 corrected; 2 forged measurements refused" in capsys.readouterr().out
    paper = json.loads((tmp_path / "out" / "ledger.json").read_text())["paper"]
    assert (paper["title"], paper["link"]) == ("1706.03762", "https://arxiv.org/abs/1706.03762")


def test_over_several_ledgers_the_forged_measurements_are_summed_and_a_problem_fails(tmp_path, capsys):
    for name in ("one", "two"):
        main(["new", "A paper: “with” marks", "--into", str(tmp_path / name)])
    judge = tmp_path / "two" / "judge.py"
    judge.write_text(judge.read_text().replace('{"at_200": 0.05}', '{"at_200": at_200}'))
    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "C-2: 'corrected' cannot fail by at_200" in out
    assert "2 ledgers: 3 forged measurements refused" in out


def test_what_cannot_be_done_is_said_in_a_line(tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 2
    assert "no claims.yml with a judge" in capsys.readouterr().err
    for status in (0, 2):
        assert main(["new", "x", "--into", str(tmp_path)]) == status
    assert "is there already" in capsys.readouterr().err


def test_the_example_of_the_readme_is_a_judged_paper(tmp_path, capsys):
    readme = (KIT / "README.md").read_text(encoding="utf-8")
    ledger, judge = (re.search(rf"```{kind}\n(.*?)```", readme, re.DOTALL)[1] for kind in ("yaml", "python"))
    (tmp_path / "claims.yml").write_text(ledger)
    (tmp_path / "judge.py").write_text(judge)
    (tmp_path / "measure.py").write_text("def largest_gap_times_t(steps):\n    return 3.2\n")
    assert main(["check", str(tmp_path)]) == 0
    assert "1 claim: 1 reproduced; 1 forged measurements refused" in capsys.readouterr().out


@pytest.mark.slow
def test_installed_in_an_empty_place_it_judges_with_pyyaml_alone(tmp_path):
    shutil.copytree(KIT, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", ".")
    subprocess.run([*build, "./source"], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    refused = "book", "analysis", "torch", "numpy", "pytest", "IPython", "sphinx"
    program = f"import sys; sys.modules.update(dict.fromkeys({refused!r})); from claims_kit.__main__ import main; "
    program += "sys.exit(main(['new', 'toy', '--notebook']) or main(['check', 'toy', '--out', 'out']))"
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(tmp_path / "site")}, "text": True}
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    assert "2 forged measurements refused" in done.stdout
    assert (tmp_path / "out" / "index.html").exists()
