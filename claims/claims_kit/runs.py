"""Run what judges a paper: every ``judge*.py`` and ``judge*.ipynb`` of a folder, each in a process of its own."""

import json
import linecache
import os
import platform
import subprocess
import sys
import tempfile
import traceback
import types
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from claims_kit import judging, ledger
from claims_kit.ledger import NAME, BadLedger, Claim, Verdict


@dataclass(frozen=True)
class Run:
    """What a folder's judgements gave: verdicts that hold, and a problem for each claim (or file) that has none."""

    folder: Path
    paper: dict
    claims: tuple[Claim, ...]
    verdicts: dict[str, Verdict]
    problems: dict[str, str]
    provenance: dict[str, str] = field(default_factory=dict)
    unforged: dict[str, list[str]] = field(default_factory=dict)  # variables of a condition that nothing forges

    @property
    def title(self) -> str:
        """Name the paper."""
        return self.paper.get("title") or self.folder.name

    @property
    def counted(self) -> str:
        """Count verdicts and forged measurements in words."""
        return f"{ledger.counted(ledger.count(self.claims, self.verdicts))}; {self.refused} forged measurements refused"

    @property
    def refused(self) -> int:
        """Count the forged measurements that were refused."""
        return sum(len(verdict.counterfeits) for verdict in self.verdicts.values())


def ledgers(folder: Path) -> list[Path]:
    """Return the folders in a folder, itself among them, that hold a ledger and what judges it."""
    return sorted(file.parent for file in folder.rglob(NAME) if judges(file.parent))


def judges(folder: Path) -> list[Path]:
    """Return the scripts and notebooks of a folder that judge."""
    return sorted(path for path in folder.glob("judge*") if path.suffix in {".py", ".ipynb"})


def run(folder: Path) -> Run:
    """Run a folder's judgements and gather the verdicts; what fails is a problem and stops no other claim."""
    folder = folder.resolve()
    try:
        paper, claims = ledger.load(folder / NAME)
    except BadLedger as error:
        return Run(folder, {}, (), {}, {NAME: str(error)})
    given, unforged, verdicts, problems = [], {}, {}, {}
    for file in judges(folder):
        rows, error = started(file)
        problems |= {file.name: f"{file.name} stopped: {error}"} if error else {}
        for row in rows:
            if "error" in row:  # what is on no claim of the ledger is the file's
                problems[row["id"] if row["id"] in {claim.id for claim in claims} else file.name] = row["error"]
            else:
                unforged[row["id"]] = row.pop("unforged")
                given.append(Verdict(**row))
    for claim in claims:
        try:
            verdicts |= ledger.gather(claims, (verdict for verdict in given if verdict.id == claim.id))
        except BadLedger as error:  # two verdicts on one claim
            problems[claim.id] = str(error)
    problems = {c.id: f"{c.id} has no verdict" for c in claims if c.id not in verdicts} | problems
    unforged = {name: variables for name, variables in unforged.items() if name in verdicts and variables}
    files = {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir()) if path.is_file()}
    return Run(folder, paper, claims, verdicts, problems, {"python": platform.python_version(), **files}, unforged)


def started(file: Path) -> tuple[list[dict], str]:
    """Execute a file in its folder, in another process; return its verdicts and what stopped it."""
    places = filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    with tempfile.TemporaryDirectory() as work:
        out = Path(work, "verdicts.json")
        program = "import sys; from claims_kit.runs import execute; execute(*sys.argv[1:])"
        command = [sys.executable, "-c", program, str(file), str(out)]
        done = subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, check=False)
        if not out.exists():
            return [], (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        body = json.loads(out.read_text(encoding="utf-8"))
    return body["verdicts"], body["error"]


def execute(file: str, out: str) -> None:
    """Execute the cells of a file as one program and write its verdicts to another; the error ends it."""
    judging.collected, error = [], ""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = file
    sys.path.insert(0, str(Path(file).parent))
    sys.argv = [file]
    try:
        for name, cell in cells(Path(file)):
            linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)  # for the conditions
            exec(compile(cell, name, "exec"), main.__dict__)
    except (Exception, SystemExit) as raised:
        frames = traceback.extract_tb(raised.__traceback__)[1:2]  # that of the file itself, unless it is no Python
        error = "".join(f"{Path(frame.filename).name}, line {frame.lineno}, " for frame in frames)
        error += f"{type(raised).__name__}: {raised}"
    Path(out).write_text(json.dumps({"verdicts": judging.collected, "error": error}), encoding="utf-8")


def cells(file: Path) -> list[tuple[str, str]]:
    """Return the code of a script as one cell, of a notebook cell by cell, each with its name."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return [(str(file), text)]
    try:
        found = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadLedger(f"{file} is no whole notebook: {error!r}") from None
    return [(f"{file}[{n}]", "".join(source)) for n, source in enumerate(found, 1)]  # a text, or its lines
