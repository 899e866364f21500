"""A stranger's CI runs the script that developers run, under each Python that make looks for, and keeps the pages."""

import os
import re

import yaml

from book.publish import build, execution

ROOT = execution.ROOT


def test_the_workflow_runs_the_checks_under_each_python_and_keeps_the_pages():
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))["jobs"]["check"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert sorted(job["strategy"]["matrix"]["python"]) == sorted(set(re.findall(r"\bpython(3\.\d+)\b", makefile)))
    (script,) = [step["run"] for step in job["steps"] if "run" in step]
    assert os.access(ROOT / script, os.X_OK)
    (pages,) = [step["with"]["path"] for step in job["steps"] if "path" in step.get("with", {})]
    assert ROOT / pages == build.HTML


def test_actions_are_named_by_commit_in_what_others_copy_too():
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "claims" / "claims_kit" / "template" / "ci.yml"]
    actions = [action for path in files for action in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))]
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
