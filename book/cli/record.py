"""Compute experiments and write their records."""

from pathlib import Path

from analysis import experiments
from analysis.core import device
from analysis.core.files import make_writable
from analysis.surveys import records


def add_arguments(parser):
    """Take the experiments' names and the folder to write to."""
    parser.add_argument("names", nargs="+", metavar="EXPERIMENT",
                        help=f"'all' that can run here, or among: {', '.join(experiments.NAMES)}")
    parser.add_argument("--folder", type=Path, default=records.FOLDER, help="where to write (default: book/records)")


def run(arguments) -> int:
    """Write each record in turn; what is done is kept if a later one fails."""
    from tqdm import tqdm
    if arguments.names == ["all"]:
        specs = [spec for spec in map(experiments.find, experiments.NAMES) if not spec.missing()]
    else:
        specs = [experiments.find(name) for name in arguments.names]
    make_writable(arguments.folder)
    where = device.choose()
    for spec in (bar := tqdm(specs, unit="experiment", disable=None)):
        bar.set_postfix_str(f"{spec.name}, about {spec.minutes:g} min")
        bar.write(str(records.write(spec, where, arguments.folder)))
    return 0
