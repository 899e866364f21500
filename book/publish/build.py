"""Build the book: ``python book/_ext/build.py`` executes what is out of date, then renders it.

``--compare`` holds the chapters to their records as well; ``--again`` executes them even if they are up to date;
``--chapter NAME`` executes that chapter alone, anew, and renders nothing; ``--costs`` keeps what the present executions
cost; ``--pretended`` executes on a GPU that is only pretended (``tests/pretended``). Two builds at once take turns.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

import costs
import execution

from analysis.core.files import lock

HTML = execution.BUILD / "html"
UNFINISHED = execution.BUILD / ".unfinished"
RENDERED = execution.BUILD / ".rendered"  # the hash of everything that the present HTML was made with
WORKERS = 2


def execute(compare: bool, again: bool, names: list[str]) -> int:
    """Run the chapters under nbval; return pytest's exit status (no chapter at all is no failure)."""
    targets = [f"book/{name}.md" for name in names] or ["book"]
    command = [sys.executable, "-m", "pytest", "--nbval" if compare else "--nbval-lax", "-q", "--no-header",
               "-p", "no:cacheprovider", "-n", str(min(WORKERS, len(names) or WORKERS)), "--dist", "loadfile",
               "--nbval-cell-timeout", "600", "--nbval-kernel-startup-timeout", "180",
               "--nbval-sanitize-with", "tests/nbval.cfg", *(["--again"] if again else []), *targets]
    status = subprocess.run(command, cwd=execution.ROOT, check=False).returncode
    return 0 if status == 5 else status


def render() -> int:
    """Build the HTML; any warning fails it.

    Sphinx tells of a warning only when it reads the page, so what a failed or interrupted build has read is dropped.
    """
    if UNFINISHED.exists():
        shutil.rmtree(execution.BUILD / ".doctrees", ignore_errors=True)
    UNFINISHED.touch()
    inputs = hashlib.sha256(f"{execution.digest()} {execution.machinery()}".encode())
    inputs.update(b"".join((execution.ROOT / name).read_bytes() for name in ("_toc.yml", "_config.yml")))
    if not RENDERED.exists() or RENDERED.read_text() != inputs.hexdigest():
        for folder in (".doctrees", "html", "jupyter_execute"):  # so that no page or picture of an older book stays
            shutil.rmtree(execution.BUILD / folder, ignore_errors=True)
        RENDERED.write_text(inputs.hexdigest())
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()",
               "build", ".", "-W", "--keep-going", "-q"]
    status = subprocess.run(command, cwd=execution.ROOT, check=False).returncode
    if status == 0:
        UNFINISHED.unlink()
    return status


def prepare() -> None:
    """Set the environment; build matplotlib's font cache now, since a chapter doing so would write to stderr."""
    execution.environment()
    execution.BUILD.mkdir(exist_ok=True)
    if not any((execution.BUILD / ".private" / "matplotlib").glob("fontlist*.json")):
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True, capture_output=True)


def main() -> int:
    """Execute, then render; stop where something fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", action="store_true", help="hold text outputs to tests/recorded")
    parser.add_argument("--again", action="store_true", help="execute chapters even if they are up to date")
    parser.add_argument("--chapter", metavar="NAME", action="append", default=[],
                        help="execute only this chapter, or these, anew, and stop")
    parser.add_argument("--costs", action="store_true", help="measure what was executed; write book/costs.json")
    parser.add_argument("--pretended", action="store_true", help="compare on a pretended GPU; render nothing")
    options = parser.parse_args()
    if options.pretended and options.costs:
        parser.error("what a pretended GPU costs is nobody's measurement")
    if options.pretended:
        os.environ |= {"ANALYSIS_DEVICE": "pretended", "PYTHONPATH": str(execution.ROOT / "tests" / "pretended")}
    try:
        names = [execution.chapter(name) for name in options.chapter]
    except LookupError as error:
        parser.error(str(error.args[0]))
    with lock(execution.BUILD / ".build.lock"):
        prepare()
        status = execute(options.compare or options.pretended, options.again or bool(names), names)
        if status == 0 and options.costs:
            print(f"Measured: {', '.join(costs.record())}")
        if status or names or options.costs or options.pretended:
            return status
        status = render()
    if status == 0:
        print(f"The book is built: open {HTML.relative_to(execution.ROOT) / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
