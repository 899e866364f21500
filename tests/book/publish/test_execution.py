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
import threading
import time
from pathlib import Path

import pytest

from analysis.core.files import lock, write_json
from book.publish import compare, execution

ROOT = Path(__file__).parents[3]
HEADER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
CHAPTER = HEADER + """
# Tiny

```{code-cell} ipython3
from analysis import double
print(double(21))
```

```{code-cell} ipython3
from myst_nb import glue
glue("half", double(21) / 4, display=False)
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]
import time
print(time.time_ns())
```
"""
PACKAGE = '"""A package of one formula."""\n\n\ndef double(x):\n    return 2 * x\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Make a book of one chapter and record its outputs."""
    book = tmp_path_factory.mktemp("book")
    for name in ("book/_ext", "conftest.py"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        (book / name).parent.mkdir(exist_ok=True, parents=True)
        copy(source, book / name)
    (book / "analysis").mkdir()
    (book / "analysis" / "__init__.py").write_text(PACKAGE)
    (book / "book" / "tiny.md").write_text(CHAPTER)
    (book / "pytest.ini").write_text("[pytest]\n")
    assert run(book, "--nbval", "--record").returncode == 0
    return book


@pytest.fixture
def book(recorded, tmp_path) -> Path:
    """Return a copy of the recorded book, with what was executed."""
    return shutil.copytree(recorded, tmp_path / "copy")


def environment(device: str = "cpu") -> dict[str, str]:
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("ANALYSIS_", "PYTEST_", "PYTHONPATH"))}
    return mine | {"ANALYSIS_DEVICE": device}


def run(book: Path, *options: str, device: str = "cpu") -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options,
                           "book"], cwd=book, env=environment(device), capture_output=True, text=True, check=False)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def executed(book: Path) -> list[Path]:
    return sorted((book / "_build" / "executed").glob("*/tiny.json"))


def test_a_recorded_chapter_passes_and_is_not_executed_again(book):
    before = [cell["outputs"] for cell in json.loads(executed(book)[0].read_text())]
    assert run(book, "--nbval").returncode == 0
    assert [cell["outputs"] for cell in json.loads(executed(book)[0].read_text())] == before, "the clock was read again"


def test_the_record_holds_text_and_glued_values_but_nothing_exempt(recorded):
    printed, glued, exempt = json.loads((recorded / "tests" / "recorded" / "tiny.json").read_text())
    assert printed["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "42\n"}]
    assert glued["outputs"][0]["data"] == {"application/papermill.record/text/plain": "10.5"}
    assert exempt["outputs"] == []


@pytest.mark.parametrize(("old", "new"), [("42", "43"), ("10.5", "10.6")], ids=["printed", "glued"])
def test_a_tampered_record_fails(book, old, new):
    edit(book / "tests" / "recorded" / "tiny.json", old, new)
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert "differ" in result.stdout
    assert "--record" in result.stdout


def test_a_changed_formula_fails_and_has_another_digest(book):
    before = execution.digest(book)
    edit(book / "analysis" / "__init__.py", "2 * x", "2 * x + 1")
    assert execution.digest(book) != before
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert "43" in result.stdout
    assert len(executed(book)) == 2


def test_a_changed_cell_fails_until_it_is_recorded(book):
    edit(book / "book" / "tiny.md", "double(21))", "double(20 + 1))")
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert "not the one in tests/recorded/tiny.json" in result.stdout


def test_a_removed_cell_fails(book):
    text = (book / "book" / "tiny.md").read_text()
    (book / "book" / "tiny.md").write_text(text[:text.index("```{code-cell} ipython3\n:tags")])
    result = run(book, "--nbval")
    assert result.returncode == 1
    assert "1 cells more" in result.stdout


def test_a_failing_cell_fails_even_without_comparison_and_is_not_stored(book):
    edit(book / "book" / "tiny.md", "print(double(21))", "print(double(None))")
    before = executed(book)[0].read_text()
    result = run(book, "--nbval-lax")
    assert result.returncode == 1
    assert "TypeError" in result.stdout
    assert executed(book)[0].read_text() == before


def test_without_comparison_another_digit_is_no_failure(book):
    edit(book / "tests" / "recorded" / "tiny.json", "42", "43")
    assert run(book, "--nbval-lax").returncode == 0


def test_a_chapter_that_passed_is_in_the_cache_of_its_digest(book):
    key, = {path.parent.name for path in executed(book)}
    assert list((book / "_build" / ".jupyter_cache" / key).rglob("*.ipynb"))


@pytest.mark.parametrize("name", ["analysis/new.py", "analysis/bundled/m/model.safetensors", "book/records/r.json",
                                  "requirements.txt", "book/claims.yml", "analysis/figures/book.mplstyle"])
def test_whatever_outputs_depend_on_changes_the_digest(tmp_path, name):
    before = execution.digest(tmp_path)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    after = execution.digest(tmp_path)
    (tmp_path / name).write_text("y")
    assert len({before, after, execution.digest(tmp_path)}) == 3


def test_inputs_that_appear_change_the_digest_and_their_place_does_not(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    monkeypatch.delenv("ANALYSIS_MODELS", raising=False)
    without = execution.digest(tmp_path)
    digests = []
    for place in ("one", "two"):
        (tmp_path / place / "gpt2").mkdir(parents=True)
        (tmp_path / place / "gpt2" / "model.safetensors").write_text("weights")
        monkeypatch.setenv("ANALYSIS_MODELS", place)
        digests.append(execution.digest(tmp_path))
    assert digests[0] == digests[1] != without


@pytest.mark.parametrize("variable", ["ANALYSIS_MODELS", "ANALYSIS_FOLDER_GPT2"])
def test_other_weights_of_the_same_size_change_the_digest(variable, tmp_path, monkeypatch):
    (tmp_path / "mine" / "gpt2").mkdir(parents=True)
    monkeypatch.setenv(variable, "mine")
    digests = set()
    for weights in ("weights", "WEIGHTS"):
        (tmp_path / "mine" / "gpt2" / "model.safetensors").write_text(weights)
        digests.add(execution.digest(tmp_path))
    assert len(digests) == 2


def test_a_relative_folder_of_a_model_is_the_checkouts(monkeypatch, tmp_path):
    monkeypatch.setenv("ANALYSIS_FOLDER_GPT2", "my-models/gpt2")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR", "JUPYTER_DATA_DIR", "PYTHONPATH"):
        monkeypatch.setenv(name, "")  # restored afterwards
    execution.environment(tmp_path)
    assert os.environ["ANALYSIS_FOLDER_GPT2"] == str(execution.ROOT / "my-models" / "gpt2")


def test_old_digests_are_pruned(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "BUILD", tmp_path)
    for age, key in enumerate(["new", "older", "oldest"]):
        for folder in (execution.executed_path(key), execution.cache_path(key)):
            folder.mkdir(parents=True)
            os.utime(folder, (1e9 - age, 1e9 - age))
    execution.prune(keep="new")
    assert {p.name for p in (tmp_path / "executed").iterdir()} == {"new", "older"}
    assert {p.name for p in (tmp_path / ".jupyter_cache").iterdir()} == {"new", "older"}


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, [1])
    with pytest.raises(TypeError):
        write_json(path, [object()])
    assert json.loads(path.read_text()) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_lock_makes_the_second_wait(tmp_path):
    pytest.importorskip("fcntl")
    order, held = [], threading.Event()

    def second():
        held.wait()
        with lock(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with lock(tmp_path / "lock"):
        held.set()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_every_part_of_the_stack_is_pinned_exactly():
    lines = [line for name in ("requirements.txt", "requirements-test.txt")
             for line in (ROOT / name).read_text().split("\n")]
    loose = [line for line in lines if line.strip() and not re.fullmatch(r"[\w.\[\]-]+==[\w.+]+", line.strip())]
    assert not loose


def start(book: Path, *options: str) -> subprocess.Popen:
    # what `make test &` starts is deaf to SIGINT
    listening = ("import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler); "
                 "sys.exit(pytest.main(sys.argv[1:]))")
    return subprocess.Popen([sys.executable, "-c", listening, "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                             *options, "book"], cwd=book, env=environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def test_an_interrupted_execution_keeps_what_was_finished_and_nothing_half(book, tmp_path):
    slow = (book / "book" / "tiny.md").read_text().replace("# Tiny", "# Slow").replace(
        "import time\n", f"import time, pathlib\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(600)\n")
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
    assert [p.name for p in (book / "_build" / "executed").glob("*/*.json")] == ["tiny.json"]
    before = executed(book)[0].stat().st_mtime_ns
    (book / "book" / "unfinished.md").unlink()
    assert run(book, "--nbval-lax").returncode == 0
    assert executed(book)[0].stat().st_mtime_ns == before, "what was finished was executed again"


def test_two_executions_at_once_do_not_harm_each_other(book):
    shutil.rmtree(book / "_build")
    both = [start(book, "--nbval-lax") for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    cells = json.loads(executed(book)[0].read_text())
    assert cells[0]["outputs"][0]["text"] == "42\n"
    assert run(book, "--nbval").returncode == 0


@pytest.mark.parametrize(("text", "recorded", "settled"), [
    ("mass 0.4813, rank 3", "mass 0.4812, rank 3", "mass 0.4812, rank 3"),
    ("mass 0.4814", "mass 0.4812", "mass 0.4812"),   # less than a thousandth
    ("mass 0.4819", "mass 0.4812", "mass 0.4819"),
    ("gap 1.2e-07, off by 0.3 %", "gap 1.1e-07, off by 0.2 %", "gap 1.1e-07, off by 0.2 %"),
    ("gap 1.4e-07", "gap 1.1e-07", "gap 1.4e-07"),
    ("rank 4", "rank 3", "rank 4"), ("True 0.5", "False 0.5", "True 0.5"), ("0.5 0.5", "0.5", "0.5 0.5"),
    ("-0.1", "0.1", "-0.1"),
])
def test_on_a_gpu_a_number_may_differ_in_its_last_digit_or_by_a_thousandth(text, recorded, settled):
    assert compare.settle(text, recorded) == settled


def test_the_tolerance_is_for_a_gpu_alone(book):
    edit(book / "tests" / "recorded" / "tiny.json", "10.5", "10.499")
    assert run(book, "--nbval").returncode == 1
    assert run(book, "--nbval", device="pretended").returncode == 0
    edit(book / "tests" / "recorded" / "tiny.json", "10.499", "10.2")
    assert run(book, "--nbval", device="pretended").returncode == 1


def test_what_an_execution_cost_is_kept_beside_its_outputs(recorded):
    cost = json.loads(next((recorded / "_build" / "executed").glob("*/costs/tiny.json")).read_text())
    assert cost["peak_mib"] > 10
    assert cost["cpu_seconds"] > 0


def test_what_only_the_tests_need_is_pinned_apart():
    book, alone = ({line.split("==")[0] for line in (ROOT / name).read_text().split()}
                   for name in ("requirements.txt", "requirements-test.txt"))
    assert not book & alone
    assert {"statsmodels", "hypothesis", "beartype"} <= alone
    files = [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "book" / "_ext").rglob("*.py"), *(ROOT / "book").glob("*.md")]
    needed = re.compile(r"^\s*(?:import|from) (?:" + "|".join(sorted(alone)).replace("-", "_") + r")\b", re.M)
    assert not [path.name for path in files if needed.search(path.read_text())]
