"""Execute one chapter with another model, device or texts, into a folder of its own; the book stays as it is.

``python -m book run`` calls this. The folder gets ``<chapter>.ipynb`` (executed), ``html/`` (the page, with
notation, glossary and references beside it) and ``run.json`` (the parameters, versions, seconds). All are made under
temporary names and renamed when they are whole; in the folder of an earlier run of the chapter they take its place.
The parameters of a chapter are what its cell tagged ``parameters`` assigns.
"""

import ast
import copy
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import nbformat

from analysis.core.files import claim_folder, write_json
from analysis.core.processes import run_child
from book.publish import execution, phrases

BESIDE = ("notation", "symbols", "glossary", "references")  # pages that a chapter refers to and that cost nothing
COPIED = (
    *(f"book/{name}" for name in ("__init__.py", "_ext", "experiments", "lab", "publish", "records", "viewers")),
    *(f"book/{name}" for name in ("_templates", "assets", "references.bib", "claims.yml", "known_elsewhere.yml")),
    *("_config.yml", "claims/claims_kit", "analysis"),
)  # so that nothing is read from the book's own build
INJECTED = "injected-parameters"
CELL_TIMEOUT = 3600
UNFINISHED = ".unfinished-"


class Failed(ValueError):
    """A cell of the chapter raised; the message says which and why."""


def read(chapter: str) -> nbformat.NotebookNode:
    """Read a chapter as a notebook, with the reader of the book."""
    from myst_nb.core.read import read_myst_markdown_notebook

    path = execution.ROOT / "book" / f"{chapter}.md"
    return read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=str(path))


def places(notebook: nbformat.NotebookNode) -> list[int]:
    """Return which cells of a chapter hold its parameters."""
    return [n for n, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])]


def parameters(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the names that a chapter's parameters cell assigns, such as ``MODEL`` and ``DEVICE``."""
    lines = [line for place in places(notebook) for line in ast.parse(notebook.cells[place].source).body]
    return [ast.unparse(target) for line in lines if isinstance(line, ast.Assign) for target in line.targets]


def inject(notebook: nbformat.NotebookNode, values: dict[str, str]) -> nbformat.NotebookNode:
    """Return a copy of a notebook in which some of its parameters are set, in a cell of their own behind theirs."""
    known = parameters(notebook)
    if unknown := sorted(values.keys() - set(known)):
        raise LookupError(
            f"the chapter has no parameter {', '.join(unknown)}, so setting it would have no effect; it "
            f"has {', '.join(known) or 'none'}"
        )
    source = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": [INJECTED]})
    if notebook.nbformat_minor < 5:  # whose cells have no ids
        del cell["id"]
    made = copy.deepcopy(notebook)
    made.cells.insert(places(made)[-1] + 1, cell)
    return made


def execute(notebook: nbformat.NotebookNode, chapter: str, timeout: int = CELL_TIMEOUT) -> None:
    """Run the cells in a kernel of their own, telling how far it is; the kernel is ended at once."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from tqdm import tqdm

    from book.publish import kernels

    NotebookClient.shutdown_kernel.default_value = "immediate"
    code, at = [n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code"], 0
    with tqdm(total=len(code), unit="cell", desc=chapter, disable=None) as bar:

        def begun(cell, cell_index):
            nonlocal at
            if cell_index in code:
                at = 1 + code.index(cell_index)
                bar.set_postfix_str(cell.source.strip().partition("\n")[0][:40])

        client = NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            on_cell_start=begun,
            on_cell_executed=lambda cell_index, **_: bar.update(cell_index in code),
            kernel_manager_class=kernels.AsyncKernelManager,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(execution.ROOT / "book")}},
        )
        try:
            wait_for(client)
        except CellExecutionError as error:
            raise Failed(f"{chapter}, cell {at} of {len(code)}: {reason(error)}") from None
        except (CellTimeoutError, DeadKernelError) as error:
            raise Failed(f"{chapter}, cell {at} of {len(code)}: {str(error).strip().splitlines()[0]}") from None


def wait_for(client) -> None:
    """Execute in a thread, where nbclient leaves signals to this process; where they interrupt it, end the kernel."""
    with ThreadPoolExecutor(1) as pool:
        cells = pool.submit(client.execute)
        try:
            cells.result()
        except KeyboardInterrupt:
            while not cells.done():  # the kernel may not have started yet
                process = getattr(getattr(client.km, "provisioner", None), "process", None)
                if process is not None and process.poll() is None:
                    with suppress(ProcessLookupError):  # it has just ended by itself
                        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
                wait([cells], timeout=0.1)
            raise


def reason(error) -> str:
    """Say what a cell raised; where drawing its figure did, afterwards, only the traceback's last line knows."""
    if error.ename != "NoneType":
        return f"{error.ename}: {error.evalue}"
    return re.sub(r"\x1b\[[0-9;]*m", "", error.traceback).strip().splitlines()[-1]


def announce(notebook, values: dict[str, str]) -> None:
    """Say below the title what this page was executed with."""
    inputs = ", ".join(f"{name.lower()} {phrases.as_code(value)}" for name, value in values.items())
    inputs = inputs or "the book's own inputs"
    note = (
        f"\n\n```{{admonition}} Executed apart from the book\n:class: important\nWith {inputs}. Sentences of the "
        "text speak of the book's own model; numbers in them, figures and tables are of this execution, unless "
        "the page says that they come from a record.\n```\n"
    )
    first = notebook.cells[0]
    title, _, rest = first.source.partition("\n")
    first.source = title + note + rest


def project(folder: Path, notebook, chapter: str) -> Path:
    """Lay out a book of this chapter and the pages that it refers to."""
    import yaml

    for name in COPIED:
        source, target = execution.ROOT / name, folder / name
        if source.is_dir() and name == "analysis":
            target.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    settings = yaml.safe_load((folder / "_config.yml").read_text(encoding="utf-8"))
    settings["execute"] = {"execute_notebooks": "off"}
    (folder / "_config.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    there = execution.pages()
    beside = [name for name in BESIDE if name != chapter and name in there]
    for name in beside:
        if execution.is_notebook(there[name]):
            nbformat.write(read(name), folder / "book" / f"{name}.ipynb")
        else:
            shutil.copyfile(there[name], folder / "book" / there[name].name)
    toc = {"format": "jb-book", "root": f"book/{chapter}"}
    if beside:
        toc["chapters"] = [{"file": f"book/{name}"} for name in beside]
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    (folder / "book" / chapter).parent.mkdir(exist_ok=True)
    nbformat.write(notebook, folder / "book" / f"{chapter}.ipynb")
    return folder


def render(folder: Path) -> Path:
    """Build the pages; references to other chapters have no target here, so warnings are not shown."""
    process = run_child(
        [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-q"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if process.returncode or not (folder / "_build" / "html" / "index.html").exists():
        raise Failed(f"the page could not be rendered: {(process.stderr or process.stdout).strip()[-2000:]}")
    return folder / "_build" / "html"


def run(chapter: str, out: Path, values: dict[str, str], *, html: bool = True) -> Path:
    """Execute with parameters set, then render; return the folder.

    Parameters
    ----------
    chapter
        The page.
    out
        Where to write.
    values
        What to set of the chapter's parameters, such as ``{"MODEL": "models/my-bert"}``.
    html
        Whether to render the page as well.
    """
    notebook = inject(read(chapter), values) if values else read(chapter)
    with claim_folder(out, f"run of {chapter}"):
        for left_over in out.glob(f"{UNFINISHED}*"):  # of a run that was killed
            shutil.rmtree(left_over, ignore_errors=True)
        execute_into(out, notebook, chapter, values, html=html)
    return out


def execute_into(out: Path, notebook, chapter: str, values: dict[str, str], *, html: bool) -> None:
    """Execute and render in a temporary folder, then put the results in their places."""
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=out) as work:
        execution.environment(Path(work) / "private")
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=False, capture_output=True)
        start = time.perf_counter()
        execute(notebook, chapter)
        seconds = time.perf_counter() - start
        announce(notebook, values)
        new = Path(work) / "new"
        new.mkdir()
        nbformat.write(notebook, new / f"{Path(chapter).name}.ipynb")
        if html:
            folder = Path(work) / "project"
            folder.mkdir()
            render(project(folder, notebook, chapter)).replace(new / "html")
        versions = {"python": platform.python_version(), **{p: metadata.version(p) for p in ("torch", "transformers")}}
        settings = {name.lower(): values.get(name) for name in ("MODEL", "TEXTS", "DEVICE")}
        write_json(
            new / "run.json", {"chapter": chapter, **settings, "seconds": round(seconds, 1), "versions": versions}
        )
        for path in sorted(new.iterdir()):
            old = out / path.name
            if old.is_dir():  # it moves to where the new one was made
                old.replace(path.with_name(f"{path.name}-before"))
            path.replace(old)
