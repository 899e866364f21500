"""Execute the chapters as other machines would, against their record. ``make portable`` runs this.

Another instruction set or number of threads adds in another order; a locale, a time zone, a home folder and a path with
blanks have nothing to do with numbers. The executions take place in a copy of the tree, so that what ``make book``
renders stays as it is. One line says how each setting went; of one that failed, further lines name cells and numbers.
"""

import os
import re
import shutil
import sys
import time
from pathlib import Path

import torch

from analysis.core.processes import interrupt_on_signals, run_child
from book.publish import execution

COPY = execution.BUILD / "a path with blanks"
COPIED = ("analysis", "book", "tests", "conftest.py", "pyproject.toml", "requirements.txt")
BASELINE, AVX2, OWN = (
    dict(zip(execution.INSTRUCTIONS, values, strict=True))
    for values in (("default", "SSE4_2", "SSE41"), ("avx2", "AVX2", "AVX2"), (None, None, None))
)
SETTINGS: dict[str, dict[str, str | None]] = {  # what each sets in the environment; None removes
    "baseline instruction set, 1 thread, LC_ALL=C": BASELINE | {"OMP_NUM_THREADS": "1", "LC_ALL": "C"},
    "AVX2, 4 threads, another TZ": AVX2 | {"OMP_NUM_THREADS": "4", "TZ": "EAST-14"},
    "the machine's own instruction set, 2 threads, no HOME": OWN | {"OMP_NUM_THREADS": "2", "HOME": None},
}
TOLD = re.compile(r"^(?:FAILED|ERROR) \S+(?: \d+)?|^ +[\w-]+, [\w-]+: .*found .*", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[\d*m")


def copy_tree(root: Path, copy: Path) -> None:
    """Copy what chapters are executed from into a new folder."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, copy / name)


def changed(environment: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    """Return the environment with the changes, and without a path to the modules of the tree that was copied."""
    merged = {**environment, **changes, "PYTHONPATH": None}
    return {name: value for name, value in merged.items() if value is not None}


def told(output: str) -> list[str]:
    """Return what a failed execution says of cells and numbers, each once; else its last lines."""
    output = COLOUR.sub("", output)
    return list(dict.fromkeys(TOLD.findall(output))) or output.splitlines()[-5:]


def execute(setting: str, chapters: list[str]) -> bool:
    """Execute the chapters, by default all, under one setting; print how it went, and return whether it passed."""
    named = [argument for chapter in chapters for argument in ("--chapter", chapter)]
    command = [sys.executable, "-m", "book", "build", "--compare", "--again", *named]
    environment = changed(dict(os.environ), SETTINGS[setting])
    log, start = COPY.with_name(re.sub(r"\W+", "-", setting) + ".log"), time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        status = run_child(command, cwd=COPY, env=environment, stdout=file, stderr=file).returncode
    print(f"{'FAILED' if status else 'passed'}: {setting} ({time.monotonic() - start:.0f} s)", flush=True)
    if status:
        found = [*told(log.read_text(encoding="utf-8")), f"all of it: {log}"]
        print("\n".join(f"  {line}" for line in found), flush=True)
    return status == 0


def possible(setting: str) -> bool:
    """Say whether this machine has the instruction set; torch would believe that it has, and crash."""
    return SETTINGS[setting]["ATEN_CPU_CAPABILITY"] != "avx2" or torch.backends.cpu.get_cpu_capability() != "DEFAULT"


def main(chapters: list[str]) -> int:
    """Execute under every setting that this machine has; the exit status says whether one failed."""
    names = [execution.chapter(name) for name in chapters]
    execution.absolute_folders()  # the copy lies elsewhere
    copy_tree(execution.ROOT, COPY)
    for setting in SETTINGS:
        if not possible(setting):
            print(f"left out, since this machine cannot: {setting}")
    with interrupt_on_signals():
        passed = [execute(setting, names) for setting in SETTINGS if possible(setting)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
