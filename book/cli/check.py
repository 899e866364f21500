"""Recompute every record whose inputs are here, and fail where one differs beyond its tolerance."""

from pathlib import Path

from analysis.core import device
from analysis.surveys import records
from book.publish import experiments


def add_arguments(parser):
    """Take the records' names and a limit on the minutes of each."""
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT", help="default: all that have a record")
    parser.add_argument("--longest", type=float, default=float("inf"), metavar="MINUTES",
                        help="skip what takes longer than this on two cores")
    parser.add_argument("--folder", type=Path, default=experiments.FOLDER, help="where the records are")


def run(arguments) -> int:
    """Print one line a record; exit with 1 if any differs or is not whole."""
    from tqdm import tqdm
    names = arguments.names or [name for name in experiments.modules()
                               if (arguments.folder / f"{name}.json").exists()]
    if not names:
        raise FileNotFoundError(f"there is no record in {arguments.folder}: nothing was checked")
    failed = 0
    for name in (bar := tqdm(names, unit="record", leave=False, disable=None)):
        bar.set_postfix_str(name)
        message, agrees = _check(name, arguments)
        failed += not agrees
        bar.write(f"{'ok  ' if agrees else 'FAIL'} {name}: {message}")
    return 1 if failed else 0


def _check(name: str, arguments) -> tuple[str, bool]:
    spec = experiments.find(name)
    try:
        record = records.load(name, arguments.folder)
        if absent := spec.missing():
            return f"whole; not recomputed, needs {', '.join(absent)}", True
        if spec.minutes > arguments.longest:
            return f"whole; not recomputed, takes about {spec.minutes:g} min", True
        records.compare(spec.compute(device.choose(arguments.device)), record)
    except (records.BadRecord, records.Disagrees) as error:
        return str(error), False
    return "recomputed, agrees", True
