"""Recompute every record whose inputs are here, and fail where one differs beyond its tolerance.

Of the book's own records, each must be there and be as it was sealed; what needs a GPU may await one.
"""

from pathlib import Path

from analysis.cli import explain
from analysis.core import device
from analysis.core.files import resolve_path
from book.publish import experiments, records


def add_arguments(parser):
    """Take the records' names and a limit on the minutes of each."""
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT", help="default: all that must have a record")
    parser.add_argument(
        "--longest",
        type=float,
        default=float("inf"),
        metavar="MINUTES",
        help="skip what takes longer than this on two cores",
    )
    parser.add_argument("--folder", type=Path, default=experiments.FOLDER, help="where the records are")


def run(arguments) -> int:
    """Print one line a record; exit with 1 if any differs or is not whole."""
    from tqdm import tqdm

    if not arguments.longest >= 0:  # nor is nan
        raise ValueError(f"--longest must be minutes, 0 or more, got {arguments.longest}")
    ours = resolve_path(arguments.folder) == experiments.FOLDER.resolve()
    specs = [experiments.find(name) for name in arguments.names or _expected(arguments.folder, ours)]
    failed = 0
    for spec in (bar := tqdm(specs, unit="record", leave=False, disable=None)):
        bar.set_postfix_str(spec.name)
        message, agrees = _check(spec, arguments)
        failed += not agrees
        bar.write(f"{'ok  ' if agrees else 'FAIL'} {spec.name}: {message}")
    return 1 if failed else 0


def _expected(folder: Path, ours: bool) -> list[str]:
    """Name what must have a record here: in the book's own folder, every experiment."""
    names = [name for name in experiments.modules() if ours or (folder / f"{name}.json").exists()]
    if not names:
        raise FileNotFoundError(f"there is no record in {folder}: nothing was checked")
    return names


def _check(spec: records.Experiment, arguments) -> tuple[str, bool]:
    """Return what there is to say of a record, and whether it is right; whatever goes wrong, the next one follows."""
    if spec.needs_gpu and not (arguments.folder / f"{spec.name}.json").exists():
        return "no record yet, needs a CUDA device", True
    try:
        record = records.load(spec.name, arguments.folder)
        records.check_provenance(spec, record)
        if absent := spec.missing():
            return f"whole; not recomputed, needs {', '.join(absent)}", True
        if spec.minutes > arguments.longest:
            return f"whole; not recomputed, takes about {spec.minutes:g} min", True
        records.compare(spec.compute(device.choose(arguments.device)), record)
    except Exception as error:
        return explain(error), False
    return "recomputed, agrees", True
