"""Building the book: the chapters that are out of date are executed, then all pages are rendered.

Two builds at once take turns.
"""

import shlex
import shutil
import subprocess
import sys

from analysis.core.files import lock
from analysis.core.processes import run_child
from book.publish import execution, reports

HTML = execution.BUILD / "html"
UNFINISHED = execution.BUILD / ".unfinished"
RENDERED = execution.BUILD / ".rendered"  # the hash of the machinery that the present HTML was made with
WORKERS = 2
# Pages are large, full of cycles and hardly ever garbage: to look for it less often saves a fifth of the time.
JUPYTER_BOOK = "import gc; gc.set_threshold(100_000, 20, 20); from jupyter_book.cli.main import main; main()"
PYTEST = (
    "-q --no-header -p no:cacheprovider --dist loadfile --nbval-cell-timeout 600 --nbval-kernel-startup-timeout 180"
    " --nbval-sanitize-with tests/nbval.cfg"
)
MAKE_REPORTS = [sys.executable, "-m", "book.publish.reports"]


def execute(names: list[str], *, compare: bool = False, again: bool = False, device: str = "") -> int:
    """Run the chapters under nbval, by default all; return pytest's exit status (no chapter at all is no failure)."""
    targets = [f"book/{name}.md" for name in names] or ["book"]
    asked = ["--nbval" if compare else "--nbval-lax", *(["--again"] if again else [])]
    asked += ["--book-device", device] if device else []
    asked += ["-n", "0" if len(names) == 1 else str(WORKERS), *targets]
    command = [sys.executable, "-m", "pytest", *shlex.split(PYTEST), *asked]
    status = run_child(command, cwd=execution.ROOT).returncode
    return 0 if status == 5 else status


def render() -> int:
    """Build the HTML; any warning fails it.

    Sphinx tells of a warning only when it reads the page, so what a failed or interrupted build has read is dropped.
    """
    if UNFINISHED.exists():
        shutil.rmtree(execution.BUILD / ".doctrees", ignore_errors=True)
    UNFINISHED.touch()
    made_with = execution.machinery()
    if not RENDERED.exists() or RENDERED.read_text(encoding="utf-8") != made_with:
        for folder in (".doctrees", "html", "jupyter_execute"):  # so that no page or picture of an older book stays
            shutil.rmtree(execution.BUILD / folder, ignore_errors=True)
        RENDERED.write_text(made_with, encoding="utf-8")
    command = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", "-W", "--keep-going", "-q"]
    status = run_child(command, cwd=execution.ROOT).returncode
    if status == 0:
        UNFINISHED.unlink()
    return status


def render_beside_reports() -> int:
    """Build the HTML while another process makes the reports that are out of date; return the exit status."""
    making = subprocess.Popen(MAKE_REPORTS, cwd=execution.ROOT) if reports.out_of_date() else None
    try:
        status = render()
    except BaseException:
        if making:
            making.terminate()
        raise
    if making:
        status = making.wait() or status
    if status == 0:
        reports.place_reports(HTML)
    return status


def prepare() -> None:
    """Set the environment; build matplotlib's font cache now, since a chapter doing so would write to stderr."""
    execution.environment()
    execution.BUILD.mkdir(exist_ok=True)
    if not any((execution.BUILD / ".private" / "matplotlib").glob("fontlist*.json")):
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True, capture_output=True)


def build(names: list[str], *, compare: bool = False, again: bool = False, device: str = "") -> int:
    """Execute, then render; stop where something fails. Return the exit status.

    Parameters
    ----------
    names
        Execute only these chapters, anew, and render nothing; empty for the whole book.
    compare
        Hold the text outputs of all chapters to ``book/recorded``, and render nothing.
    again
        Execute chapters even if they are up to date.
    device
        Execute on this device, and render nothing.
    """
    with lock(execution.BUILD / ".build.lock"):
        prepare()
        whole = compare or again or bool(device)  # else what is up to date is not even looked at
        chapters = names if names or whole else execution.out_of_date()
        status = 0
        if chapters or whole:
            status = execute(chapters, compare=compare, again=again or bool(names), device=device)
        if status or names or compare or device:
            return status
        status = render_beside_reports()
    if status == 0:
        print(f"The book is built: open {HTML.relative_to(execution.ROOT) / 'index.html'}")
    return status
