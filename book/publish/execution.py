"""Where an executed chapter lives, and when it is out of date.

A chapter's output depends on more than its cells: on the package, the bundled models, the records, the pins, the
interpreter and the models at hand. :func:`digest` hashes all of these. Executed notebooks are kept under it (for the
build) beside their text outputs (for the comparison and the claims page). A change of anything gives a new digest, so
no old number stays on a page. Nothing here knows of pytest or Sphinx.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
from pathlib import Path

from analysis.core.files import lock, sha256, write_json

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
RECORDED = ROOT / "tests" / "recorded"
KEPT_DIGESTS = 2  # the present one and the one before, so that switching back and forth costs nothing
TEXTUAL = ("text/plain", "application/papermill.record/text/plain", "application/vnd.analysis.verdict+json")
SOURCES = ("analysis/**/*.py", "book/publish/*.py", "book/studies/**/*.py", "analysis/**/*.mplstyle", "analysis/bundled/**/*", "book/records/*", "book/claims.yml",
           "requirements.txt")
FOLDERS = ("ANALYSIS_MODELS", "ANALYSIS_DATA")  # directories of inputs: named by what lies in them
ONE_FOLDER = "ANALYSIS_FOLDER_"  # and a single model's, such as ANALYSIS_FOLDER_GPT2
NOT_THE_BOOKS = ("ANALYSIS_MODEL", "ANALYSIS_TEXTS")  # what `python -m analysis run` asks one chapter for
UNHASHED = ("__pycache__", ".pyc")


def digest(root: Path = ROOT) -> str:
    """Hash everything that a chapter's outputs depend on besides its own cells."""
    h = hashlib.sha256(f"{platform.python_version()} {sys.platform}\n".encode())
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and not any(part in path.as_posix() for part in UNHASHED):
                h.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    for name, value in sorted(os.environ.items()):
        if name in FOLDERS or name.startswith(ONE_FOLDER):
            for given in filter(None, value.split(os.pathsep)):
                folder = root / Path(given).expanduser()
                for path in sorted(folder.rglob("*")):
                    if path.is_file():
                        known = sha256(path)
                        h.update(f"{name} {path.relative_to(folder).as_posix()} {known}\n".encode())
        elif name.startswith("ANALYSIS_"):
            h.update(f"{name}={value}\n".encode())
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "hub"))
    h.update(" ".join(sorted(p.name for p in hub.expanduser().glob("models--*/snapshots/*"))).encode())
    return h.hexdigest()[:16]


def machinery(root: Path = ROOT) -> str:
    """Hash what makes pages of executions: the build's extensions and templates."""
    h = hashlib.sha256()
    for path in sorted(p for folder in ("_ext", "_templates") for p in (root / "book" / folder).rglob("*")):
        if path.is_file() and not any(part in path.as_posix() for part in UNHASHED):
            h.update(path.read_bytes())
    return h.hexdigest()[:16]


def cache_path(key: str | None = None) -> Path:
    """Return the jupyter-cache of the executed notebooks of a digest (the present one if none is given)."""
    return BUILD / ".jupyter_cache" / (key or digest())


def executed_path(key: str | None = None) -> Path:
    """Return the folder with the text outputs of the executed chapters, one JSON file each."""
    return BUILD / "executed" / (key or digest())


def chapter(name: str) -> str:
    """Return the page of that name, or the only one whose name begins or ends so: ``gates`` is ``bert-gates``."""
    known = sorted(p.stem for p in (ROOT / "book").glob("*.md"))
    found = [page for page in known if page == name] or [
        page for page in known if page.endswith(f"-{name}") or page.startswith(f"{name}-")]
    if len(found) != 1:
        raise LookupError(f"there is no chapter {name!r}; the pages are {', '.join(known)}")
    return found[0]


def environment(private: Path | None = None) -> None:
    """Make kernels independent of the user's home folder, of a model hub and of the number of cores.

    What a single execution may be asked for, another model or other texts, is no part of the book.
    """
    for name in NOT_THE_BOOKS:
        os.environ.pop(name, None)
    for name in FOLDERS:  # kernels start inside book/, so a relative folder would be another one there
        if value := os.environ.get(name):
            os.environ[name] = os.pathsep.join(str((ROOT / p).resolve()) for p in value.split(os.pathsep) if p)
    for name, value in os.environ.items():
        if name.startswith(ONE_FOLDER) and value:
            os.environ[name] = str((ROOT / Path(value).expanduser()).resolve())
    private = private or BUILD / ".private"
    for name, folder in {"IPYTHONDIR": "ipython", "JUPYTER_CONFIG_DIR": "jupyter", "MPLCONFIGDIR": "matplotlib",
                         "JUPYTER_DATA_DIR": "jupyter-data"}.items():
        (private / folder).mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(private / folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))  # two chapters run at a time
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")


def read_cells(path: Path) -> list[dict]:
    """Read recorded cells, ``[{"source": ..., "outputs": [...]}, ...]``; none where there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def prune(keep: str) -> None:
    """Delete the executions of old digests, all but the newest few."""
    for parent in (BUILD / ".jupyter_cache", BUILD / "executed"):
        if parent.is_dir():
            old = sorted((p for p in parent.iterdir() if p.is_dir() and p.name != keep),
                         key=lambda p: p.stat().st_mtime, reverse=True)
            for folder in old[KEPT_DIGESTS - 1:]:
                shutil.rmtree(folder, ignore_errors=True)


def store(notebook, path: Path, cells: list[dict], key: str) -> None:
    """Put a fully executed chapter into the book's cache, then its text outputs beside it.

    The text is written last: where it exists and its sources are the chapter's, the cache holds that very run.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    with lock(BUILD / ".cache.lock"):
        get_cache(str(cache_path(key))).cache_notebook_bundle(
            CacheBundleIn(notebook, str(path), data={"execution_seconds": 0.0}), check_validity=False, overwrite=True)
        write_json(executed_path(key) / f"{path.stem}.json", cells)
        prune(keep=key)
