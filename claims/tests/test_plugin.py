"""The pytest plugin: a test of every claim, and a count of the forged measurements."""

import os
import subprocess
import sys
from pathlib import Path

from claims_kit.__main__ import new

KIT = str(Path(__file__).parents[1])


def ran(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "claims_kit.plugin", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "PYTHONPATH": KIT}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_every_claim_and_every_file_that_judges_is_a_test(tmp_path):
    new("A paper", tmp_path)
    status, out = ran(tmp_path, "--claims", "-v")
    assert status == 0, out
    assert "claims: 2 judged, 2 forged measurements refused" in out
    assert "3 passed" in out
    assert ran(tmp_path)[0] == 5, "without the option nothing is judged"


def test_a_counterfeit_that_passes_fails_its_claim_alone(tmp_path):
    new("A paper", tmp_path)
    judge = tmp_path / "judge.py"
    judge.write_text(judge.read_text().replace('{"at_100": 0.2}', '{"at_100": 0.1}'))
    status, out = ran(tmp_path, "--claims")
    assert status == 1
    assert "C-1: 'reproduced' cannot fail by at_100" in out
    assert "1 failed, 2 passed" in out
    assert "Traceback" not in out
