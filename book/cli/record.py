"""Compute experiments and write their records."""

from pathlib import Path

from analysis.core import device
from analysis.core.files import make_writable
from book.publish import experiments, records


def add_arguments(parser):
    """Take the experiments' names and the folder to write to."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="EXPERIMENT",
        help=f"'all' that can run here, or among: {', '.join(experiments.modules())}",
    )
    parser.add_argument(
        "--folder", type=Path, default=experiments.FOLDER, help="where to write (default: book/records)"
    )


def run(arguments) -> int:
    """Write each record in turn; what is finished stays if a later one fails."""
    from tqdm import tqdm

    every = map(experiments.find, experiments.modules())
    specs = (
        [spec for spec in every if not spec.missing()]
        if arguments.names == ["all"]
        else [experiments.find(name) for name in arguments.names]
    )
    make_writable(arguments.folder)
    where = device.choose(arguments.device)
    for spec in (bar := tqdm(specs, unit="experiment", disable=None)):
        bar.set_postfix_str(f"{spec.name}, about {spec.minutes:g} min")
        bar.write(str(records.write(spec, where, arguments.folder)))
    return 0
