"""What an image of the book is made of: the files that it names are there, and what it copies is what git has."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
