"""The execution of chapters: what turns it red, what is executed again, and that nothing half-written stays.

Each run is pytest in a process of its own, on a book of one tiny chapter.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from book.publish import execution, kernels

ROOT = Path(__file__).parents[3]
FOLDERS = ("ANALYSIS_MODELS", "ANALYSIS_DATA")
PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "nbval.plugin")
HEADER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
CHAPTER = (
    HEADER
    + """
# Tiny

Half of it is {glue:text}`half:.3f`.

```{code-cell} ipython3
:tags: [parameters]
DEVICE = "auto"
```

```{code-cell} ipython3
from analysis.formula import double
print(double(21))
```

```{code-cell} ipython3
from myst_nb import glue
glue("half", double(21) / 7.8, display=False)
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]
import time
from ipykernel.kernelapp import IPKernelApp
assert DEVICE != "forbidden", f"the device is {DEVICE}"
assert IPKernelApp.instance().transport == "ipc", "at ports, two chapters that start at a time disturb each other"
print(time.time_ns())
```
"""
)
FORMULA = '"""One formula."""\n\n\ndef double(x):\n    return 2 * x\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Make a book of one chapter and record its outputs.

    It has what executes chapters and a package of one formula; ``book.publish`` imports nothing by itself there, which
    spares each execution the seconds that torch takes.
    """
    book = tmp_path_factory.mktemp("book")
    shutil.copytree(ROOT / "book" / "publish", book / "book" / "publish", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "analysis" / "core", book / "analysis" / "core")
    shutil.copyfile(ROOT / "conftest.py", book / "conftest.py")
    for package in ("analysis", "book", "book/publish"):
        (book / package / "__init__.py").write_text(f'"""The package {package}."""\n')
    (book / "analysis" / "formula.py").write_text(FORMULA)
    (book / "book" / "tiny.md").write_text(CHAPTER)
    (book / "pytest.ini").write_text("[pytest]\n")
    result = run(book, "--nbval", "--record")
    assert result.returncode == 0, result.stdout
    return book


@pytest.fixture
def book(recorded, tmp_path) -> Path:
    """Return a copy of the recorded book, with what was executed."""
    return shutil.copytree(recorded, tmp_path / "copy")


def environment() -> dict[str, str]:
    """Return the environment without this machine's inputs; plugins that a run does not use cost it two seconds."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("ANALYSIS_", "PYTEST_", "PYTHONPATH"))}
    return own | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    told = {"cwd": folder, "env": environment(), "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *arguments], check=False, **told)


def run(book: Path, *options: str) -> subprocess.CompletedProcess:
    return python(book, "-m", "pytest", *PYTEST, *options, "book")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def executed(book: Path) -> Path:
    return book / "_build" / "executed" / "tiny.json"


def stored(book: Path) -> dict:
    return json.loads(executed(book).read_text())


@pytest.mark.slow
def test_a_recorded_chapter_passes_and_is_not_executed_again(book):
    before = stored(book)
    assert run(book, "--nbval").returncode == 0
    assert stored(book) == before, "the clock was read again"
    assert run(book, "--nbval", "--again").returncode == 0
    assert stored(book) != before


@pytest.mark.slow
def test_the_record_holds_text_and_glued_values_but_nothing_exempt(recorded):
    record = json.loads((recorded / "book" / "recorded" / "tiny.json").read_text())
    _, printed, glued, exempt = record["cells"]
    assert printed["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "42\n"}]
    assert record["numbers"] == {"half": 5.384615384615385}
    assert glued["outputs"] == exempt["outputs"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("42\\n", "43\\n", "differ"),
        ("5.384615384615385", "5.36", "tiny, half: recorded 5.36, found 5.384615384615385"),
        ('"half"', '"whole"', "tiny, half: not recorded, found 5.384615384615385"),
        ('"half"', '"gone": 1, "half"', "numbers that the page does not show: gone"),
    ],
    ids=["printed", "third digit", "another name", "one too many"],
)
def test_a_tampered_record_fails_and_the_number_is_named(book, old, new, named):
    edit(book / "book" / "recorded" / "tiny.json", old, new)
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert named in result.stdout
    assert "--record" in result.stdout


@pytest.mark.slow
def test_the_run_of_another_machine_is_held_to_the_record_and_not_stored(book, monkeypatch):
    (book / "tools").mkdir()
    changed = "import analysis.formula as f\ndef enter():\n    f.double = lambda x: 43\n"
    (book / "tools" / "other_machine.py").write_text(changed)
    before = executed(book).read_text()
    monkeypatch.setenv("OTHER_MACHINE", "1")
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert "43" in result.stdout
    assert executed(book).read_text() == before


@pytest.mark.slow
def test_a_number_that_the_text_begins_to_show_is_computed_anew(book):
    before = executed(book).stat().st_mtime_ns
    edit(book / "book" / "tiny.md", "Half of it", "{glue:text}`whole` is all. Half of it")
    run(book, "--nbval-lax")
    assert executed(book).stat().st_mtime_ns > before


@pytest.mark.slow
def test_a_changed_formula_is_executed_and_compared(book):
    edit(book / "analysis" / "formula.py", "2 * x", "2 * x + 1")
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert "43" in result.stdout
    assert stored(book)["cells"][1]["outputs"][0]["text"] == "43\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("double(21))", "double(20 + 1))", "not the one in book/recorded/tiny.json"),
        (CHAPTER[CHAPTER.rindex("```{code-cell}") :], "", "1 cells more"),
    ],
)
def test_a_changed_and_a_removed_cell_fail_until_they_are_recorded(book, old, new, said):
    edit(book / "book" / "tiny.md", old, new)
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert said in result.stdout


@pytest.mark.slow
def test_a_failing_cell_fails_even_without_comparison_and_is_not_stored(book):
    edit(book / "book" / "tiny.md", "print(double(21))", "print(double(None))")
    before = executed(book).read_text()
    result = run(book, "--nbval-lax")
    assert result.returncode == 1
    assert "TypeError" in result.stdout
    assert executed(book).read_text() == before


SOURCES = {
    "book/tiny.md": HEADER + "\n```{code-cell} ipython3\n:tags: [x]\nfrom analysis.formula import double\n```\n",
    "analysis/formula.py": FORMULA,
    **dict.fromkeys(("analysis/maps/book.mplstyle", "analysis/bundled/m/model.safetensors", "book/lab/runs.py"), ""),
    **dict.fromkeys(("book/experiments/tiny_long_run.py", "book/records/tiny-long-run.json", "book/claims.yml"), ""),
    **dict.fromkeys(("book/_ext/cards.py", "book/_templates/layout.html", "requirements.txt"), ""),
    **dict.fromkeys(("book/other.md", "README.md"), ""),
}
NO_SOURCES = ("book/tiny.md", "book/other.md", "README.md", "book/_ext/cards.py", "book/_templates/layout.html")


@pytest.fixture
def sources(tmp_path, monkeypatch) -> Path:
    """Write the sources of a page and other files."""
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", SOURCES)
def test_code_records_and_weights_change_the_digest_and_words_and_templates_do_not(sources, name):
    before = execution.digest("tiny", sources), execution.machinery(sources)
    with (sources / name).open("a") as file:
        file.write("\n# more\n")
    assert (execution.digest("tiny", sources) == before[0]) == (name in NO_SOURCES)
    assert (execution.machinery(sources) == before[1]) == (not name.startswith(execution.MACHINERY))


def test_inputs_that_appear_change_the_digest_and_their_place_does_not(sources, monkeypatch):
    without = execution.digest("tiny", sources)
    digests = []
    for place in ("one", "two"):
        (sources / place / "gpt2").mkdir(parents=True)
        (sources / place / "gpt2" / "model.safetensors").write_text("weights")
        monkeypatch.setenv("ANALYSIS_MODELS", place)
        digests.append(execution.digest("tiny", sources))
    assert digests[0] == digests[1] != without


@pytest.mark.parametrize("name", execution.INSTRUCTIONS)
def test_a_run_under_one_instruction_set_does_not_stand_for_one_under_another(sources, monkeypatch, name):
    digests = set()
    for value in ("one", "another"):
        monkeypatch.setenv(name, value)
        digests.add(execution.digest("tiny", sources))
    assert len(digests) == 2


@pytest.mark.parametrize("variable", ["ANALYSIS_MODELS", "ANALYSIS_FOLDER_GPT2"])
def test_other_weights_of_the_same_size_change_the_digest(variable, sources, monkeypatch):
    (sources / "mine" / "gpt2").mkdir(parents=True)
    monkeypatch.setenv(variable, "mine")
    digests = set()
    for weights in ("weights", "WEIGHTS"):
        (sources / "mine" / "gpt2" / "model.safetensors").write_text(weights)
        digests.add(execution.digest("tiny", sources))
    assert len(digests) == 2


def test_every_part_of_the_stack_is_pinned_exactly():
    files = [ROOT / f"requirements{part}.txt" for part in ("", "-test", "-model")]
    lines = [line for file in files for line in file.read_text().split("\n") if not line.startswith("#")]
    loose = [line for line in lines if line.strip() and not re.fullmatch(r"[\w.\[\]-]+==[\w.+]+", line.strip())]
    assert not loose


def start(book: Path, *options: str) -> subprocess.Popen:
    # what `make test &` starts is deaf to SIGINT
    listening = (
        "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    told = {"cwd": book, "env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", listening, *PYTEST, *options, "book"], **told)


@pytest.mark.slow
def test_an_interrupted_execution_keeps_what_was_finished_and_nothing_half(book, tmp_path):
    waits = f"import time, pathlib\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(600)\n"
    slow = (book / "book" / "tiny.md").read_text().replace("# Tiny", "# Slow").replace("import time\n", waits)
    (book / "book" / "unfinished.md").write_text(slow)
    shutil.rmtree(book / "_build")
    running = start(book, "--nbval-lax", "--nbval-cell-timeout", "900")
    try:
        for _ in range(600):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.2)
        assert (tmp_path / "begun").exists(), "the slow cell never began"
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60)
    assert [path.name for path in executed(book).parent.glob("*.json")] == ["tiny.json"]
    before = executed(book).stat().st_mtime_ns
    (book / "book" / "unfinished.md").unlink()
    assert run(book, "--nbval-lax").returncode == 0
    assert executed(book).stat().st_mtime_ns == before, "what was finished was executed again"


@pytest.mark.slow
def test_the_run_of_a_device_is_held_to_the_record_and_not_stored(book):
    before = executed(book).read_text()
    edit(book / "book" / "recorded" / "tiny.json", "5.384615384615385", "5.36")
    assert run(book, "--nbval", "--book-device", "cpu").returncode == 1
    edit(book / "book" / "recorded" / "tiny.json", "5.36", "5.384")
    assert run(book, "--nbval", "--book-device", "cpu").returncode == 0
    assert executed(book).read_text() == before


@pytest.mark.slow
def test_the_device_reaches_a_chapter_as_its_parameter(book):
    result = run(book, "--nbval-lax", "--book-device", "forbidden")
    assert result.returncode == 1
    assert "the device is forbidden" in result.stdout
    edit(book / "book" / "tiny.md", 'DEVICE = "auto"', "WHERE = DEVICE = 1")
    edit(book / "book" / "tiny.md", ":tags: [parameters]\n", "")
    assert run(book, "--nbval-lax", "--book-device", "forbidden").returncode == 0, "a chapter without that parameter"


def test_what_only_the_tests_need_is_pinned_apart():
    book, alone = (
        {line.split("==")[0] for line in (ROOT / name).read_text().split()}
        for name in ("requirements.txt", "requirements-test.txt")
    )
    assert not book & alone
    assert {"statsmodels", "hypothesis", "beartype"} <= alone
    files = [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "book").rglob("*.py"), *execution.pages().values()]
    needed = re.compile(r"^\s*(?:import|from) (?:" + "|".join(sorted(alone)).replace("-", "_") + r")\b", re.M)
    assert not [path.name for path in files if needed.search(path.read_text())]


def test_no_two_managers_have_a_socket_in_common():
    first, second = (kernels.KernelManager() for _ in range(2))
    assert (first.transport, second.transport) == ("ipc", "ipc")
    assert first.ip != second.ip
    assert Path(first.ip).parent == Path(kernels.folder_of_sockets().name)
    assert len(f"{first.ip}-5") < 104
