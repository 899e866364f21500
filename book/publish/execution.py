"""Where an executed chapter lives, and when it is out of date.

A chapter's output depends on more than its cells: on the code, the bundled models, the records, the pins, the
interpreter and the models at hand. :func:`digest` hashes all of these; a change of any makes every chapter run again.
Executed notebooks are kept in the build's cache, their text outputs beside it (for the comparison and the claims page)
with the digest that they were made under. Nothing here knows of pytest or Sphinx.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from analysis.core.files import lock, sha256, write_json
from book.publish.recorded import shown

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
CACHE = BUILD / ".jupyter_cache"  # of the executed notebooks
RECORDED = ROOT / "book" / "recorded"
TEXTUAL = ("text/plain", "application/papermill.record/text/plain", "application/vnd.analysis.verdict+json")
KIT = "claims/claims_kit"
CODE = ("analysis", "book/lab", "book/experiments", "book/publish", "book/viewers", "book/records", KIT)
FILES = ("book/claims.yml", "requirements.txt")
MACHINERY = ("book/_ext", "book/_templates", "book/publish", "book/viewers", KIT, "_toc.yml", "_config.yml")
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n.*?\n---\n|(?::[^\n]*\n)*)", re.DOTALL)
FOLDERS = ("ANALYSIS_MODELS", "ANALYSIS_DATA")  # directories of inputs: named by what lies in them
ONE_FOLDER = "ANALYSIS_FOLDER_"  # and a single model's, such as ANALYSIS_FOLDER_GPT2
INSTRUCTIONS = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")  # choose the last digits
UNHASHED = ("__pycache__", ".pyc")


def digest(page: str, root: Path = ROOT) -> str:
    """Hash everything that a page's outputs depend on besides its own cells."""
    handed = sorted(shown(root / "book" / f"{page}.md"))  # what is shown of a page is what its cells hand over
    h = hashlib.sha256(f"{platform.python_version()} {sys.platform} {_inputs(root)} {handed}\n".encode())
    h.update(hashed(root, (*CODE, *FILES)).encode())
    return h.hexdigest()[:16]


def hashed(root: Path, names: Iterable[str]) -> str:
    """Write the hash of each file, and of each file in a folder, in a line of its own."""
    places = [root / name for name in names]
    found = sorted({file for place in places for file in (place.rglob("*") if place.is_dir() else [place])})
    kept = [file for file in found if file.is_file() and not any(part in file.as_posix() for part in UNHASHED)]
    return "".join(f"{file.relative_to(root).as_posix()} {sha256(file)}\n" for file in kept)


def _inputs(root: Path) -> str:
    """Name the models and the data at hand, each file by its hash, and the instruction set if one is asked for."""
    h = hashlib.sha256()
    for name, value in sorted(os.environ.items()):
        if name in FOLDERS or name.startswith(ONE_FOLDER):
            for entry in filter(None, value.split(os.pathsep)):
                folder = root / os.path.expanduser(entry)
                for path in sorted(folder.rglob("*")):
                    if path.is_file():
                        h.update(f"{name} {path.relative_to(folder).as_posix()} {sha256(path)}\n".encode())
        elif name.startswith("ANALYSIS_") or name in INSTRUCTIONS:
            h.update(f"{name}={value}\n".encode())
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "hub"))
    h.update(" ".join(sorted(p.name for p in hub.expanduser().glob("models--*/snapshots/*"))).encode())
    return h.hexdigest()


def machinery(root: Path = ROOT) -> str:
    """Hash what makes pages of executions: contents, settings, templates, extensions, and what these import."""
    return hashlib.sha256(hashed(root, MACHINERY).encode()).hexdigest()[:16]


def cell_sources(text: str) -> list[str]:
    """Return the code of each cell of a page in MyST, without its options and the blank lines around it.

    >>> cell_sources("# Title\\n```{code-cell} ipython3\\n:tags: [x]\\n\\nprint(1)\\n```\\n")
    ['print(1)']
    """
    return [OPTIONS.sub("", cell, count=1).strip() for cell in CELL.findall(text)]


def executions() -> dict[str, str]:
    """Return every executed page with a hash of its last execution: the digest and the text outputs."""
    folder = executed_path()
    return {page_name(path, folder): sha256(path) for path in sorted(folder.rglob("*.json"))}


def pages(book: Path | None = None) -> dict[str, Path]:
    """Return the book's pages by name: the stories in ``book``, the evidence in ``book/evidence``.

    >>> pages()["notation"].relative_to(ROOT).as_posix()
    'book/notation.md'
    """
    book = book or ROOT / "book"
    found = [*sorted(book.glob("*.md")), *sorted((book / "evidence").glob("*.md"))]
    return {page_name(path, book): path for path in found}


def page_name(path: Path, folder: Path | None = None) -> str:
    """Return the name of a page, or of what is kept of it in a folder of the same order.

    >>> page_name(ROOT / "book" / "evidence" / "semi-bias.md")
    'evidence/semi-bias'
    """
    return path.relative_to(folder or ROOT / "book").with_suffix("").as_posix()


def executed_path(page: str | None = None) -> Path:
    """Return the file with the text outputs of an executed page and their digest, or the folder of all of them."""
    folder = BUILD / "executed"
    return folder / f"{page}.json" if page else folder


def executed_cells(page: str, key: str | None = None) -> list[dict]:
    """Return the cells of a page's last execution with their text outputs; none where it is out of date."""
    path = executed_path(page)
    if not path.exists():
        return []
    body = json.loads(path.read_text(encoding="utf-8"))
    return body["cells"] if body["digest"] == (key or digest(page)) else []


def is_notebook(page: Path) -> bool:
    """Say whether a page has cells to execute."""
    return "```{code-cell}" in page.read_text(encoding="utf-8")


def out_of_date() -> list[str]:
    """Name the chapters whose stored execution is not of their present cells and of what these depend on."""
    names = []
    for name, page in pages().items():
        present = cell_sources(page.read_text(encoding="utf-8"))
        if is_notebook(page) and [cell["source"].strip() for cell in executed_cells(name)] != present:
            names.append(name)
    return names


def chapter(name: str, *, evidence: bool = False) -> str:
    """Return the page of that name, or the only one whose name begins or ends so.

    A story is called by its name, its evidence by ``evidence/`` and its name, or by the name alone where there is no
    such story or where evidence is asked for.
    """
    known = sorted(name for name, page in pages().items() if is_notebook(page))
    own = f"evidence/{name}"
    for page in (own, name) if evidence else (name, own):
        if page in known:
            return page
    last = {page: page.rpartition("/")[2] for page in known}
    alike = [page for page in known if last[page].endswith(f"-{name}") or last[page].startswith(f"{name}-")]
    if len({last[page] for page in alike}) == 1:  # a story and its evidence
        return chapter(last[alike[0]], evidence=evidence)
    if alike:
        raise LookupError(f"{name!r} may be more than one chapter: {', '.join(alike)}")
    raise LookupError(f"there is no chapter {name!r}; the chapters are {', '.join(known)}")


def listed(root: Path = ROOT) -> list[str]:
    """Return the pages of the table of contents, as ``book/neighbours``, in order.

    >>> listed()[:2]
    ['book/intro', 'book/attention']
    """
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    return re.findall(r"^\s*(?:root|- file): (\S+)", toc, re.MULTILINE)


def title(name: str) -> str:
    """Return the title of a page, the first heading of its source; of a page that is not there, its name.

    >>> title("notation")
    'What is in one score'
    """
    path = ROOT / "book" / f"{name}.md"
    if not path.exists():
        return name
    with path.open(encoding="utf-8") as lines:
        return next(line.removeprefix("# ").strip() for line in lines if line.startswith("# "))


def environment(private: Path | None = None) -> None:
    """Make kernels independent of the user's home folder, of a model hub and of the number of cores."""
    for name, value in list(os.environ.items()):
        if name in FOLDERS or name.startswith(ONE_FOLDER):  # in full, since kernels start inside book/
            given = (ROOT / os.path.expanduser(path) for path in value.split(os.pathsep) if path)
            os.environ[name] = os.pathsep.join(str(path.resolve()) for path in given)
    private = private or BUILD / ".private"
    homes = {"IPYTHONDIR": "ipython", "JUPYTER_CONFIG_DIR": "jupyter", "JUPYTER_DATA_DIR": "jupyter-data"}
    for name, folder in {**homes, "MPLCONFIGDIR": "matplotlib"}.items():
        (private / folder).mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(private / folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // 2)))  # two chapters run at a time
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # else threads beyond the cores keep them busy with waiting
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")


def store(notebook, path: Path, cells: list[dict], key: str) -> None:
    """Put a fully executed chapter into the book's cache, then its text outputs beside it.

    The text is written last: where its digest is the present one, the cache holds that very run.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    with lock(BUILD / ".cache.lock"):
        get_cache(str(CACHE)).cache_notebook_bundle(
            CacheBundleIn(notebook, str(path), data={"execution_seconds": 0.0}), check_validity=False, overwrite=True
        )
        page, there = page_name(path), pages()
        executed_path(page).parent.mkdir(parents=True, exist_ok=True)
        write_json(executed_path(page), {"digest": key, "cells": cells})
        for other in executed_path().rglob("*.*"):
            if page_name(other, executed_path()) not in there:
                other.unlink()
