"""A stranger's CI and image of the book: the script that developers run, each Python, the files that are named."""

import os
import re
import subprocess

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


def test_a_binder_installs_what_the_book_pins():
    for line in (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if named := re.match(r"-[rc] (\S+)", line):
            assert (ROOT / "binder" / named[1]).exists()
    subprocess.run(["bash", "-n", str(ROOT / "binder" / "postBuild")], check=True)


def test_the_image_runs_targets_that_are_there_and_leaves_out_what_is_made():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in re.findall(r"\bmake (\w+)$", text, re.M))
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", "_build", ".venv*"} <= set(left_out)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in tracked if name.split("/")[0] in left_out]
