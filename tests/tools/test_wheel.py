"""The package as others install it: a wheel, unpacked in an empty folder, runs what README and *How do I ...?* show."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = "README.md", "book/how-do-i.md"
# a cell that needs another package, or a reader's own files
ELSEWHERE = ("transformer_lens", "peft", "cross_parts", "looked_at", "my-model")
LEFT_OUT = "_build", ".venv", ".peers", ".git", "*.egg-info", "build", "__pycache__", "runs"
MEGABYTES = 40
CELL = re.compile(r"```(?:python|\{code-cell\}[^\n]*)\n(?:---\n.*?\n---\n|:[^\n]*\n)*(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the folder into which the wheel of a clean copy was unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*LEFT_OUT, "tests"))
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*build, "--wheel-dir", str(folder), str(folder / "source")], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < MEGABYTES * 2**20
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_a_wheel_holds_the_package_its_models_and_their_licences_and_nothing_else(installed):
    names = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    packages = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"analysis", "attention_taken_apart.py"}
    for model in ("gpt2-mini", "neox-mini", "gpt2-first-layer"):
        assert {f"analysis/bundled/{model}/{file}" for file in ("model.safetensors", "README.md")} <= names
    assert any(name.startswith("analysis/bundled/gpt2-first-layer/LICENSE") for name in names)
    assert {"analysis/py.typed", "analysis/__init__.pyi", "analysis/reporting/page.html"} <= names


def cells() -> list[str]:
    """Return the Python of the pages, as it stands there, but for what needs other things than the package."""
    found = [cell for page in PAGES for cell in CELL.findall((ROOT / page).read_text("utf-8"))]
    return [cell for cell in found if cell.strip() and not any(word in cell for word in ELSEWHERE)]


@pytest.mark.slow
def test_what_the_pages_show_runs_on_the_wheel_alone(installed, tmp_path):
    """In a folder with nothing in it, each cell with names of its own; that each is a whole program, others test."""
    program = (
        "import analysis, importlib.util\n"
        f"assert analysis.__file__.startswith({str(installed)!r}) and not importlib.util.find_spec('book')\n"
        f"for cell in {cells()!r}:\n    exec(cell, {{}})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed), "HF_HUB_OFFLINE": "1"}
    environment.pop("ANALYSIS_MODELS", None)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
