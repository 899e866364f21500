"""Compute experiments and write their records, and enter them in the manifest."""

from pathlib import Path

from analysis.core import device
from analysis.core.files import make_writable
from book.publish import experiments, manifest, records


def add_arguments(parser):
    """Take the experiments' names and the folder to write to."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="EXPERIMENT",
        help=f"'all' that can run here, or among: {', '.join(experiments.modules())}",
    )
    parser.add_argument(
        "--folder", type=Path, default=experiments.FOLDER, help="where to write (default: book/records)"
    )
    parser.add_argument(
        "--manifest",
        action="store_true",
        help="compute nothing; accept what is bundled, the records and the claims as they are now",
    )


def run(arguments) -> int:
    """Write each record in turn; what is finished stays if a later one fails."""
    if arguments.manifest == bool(arguments.names):
        raise ValueError("give the experiments to record, or --manifest alone")
    if arguments.manifest and arguments.folder != experiments.FOLDER:
        raise ValueError(f"--manifest is of the book's own records: leave --folder {arguments.folder} out")
    return _accept() if arguments.manifest else _record(arguments)


def _accept() -> int:
    """Write the manifest, and name what is other than it was."""
    changed = manifest.write()
    print("\n".join(changed) or f"{manifest.NAME} is as it was")
    return 0


def _record(arguments) -> int:
    from tqdm import tqdm

    every = map(experiments.find, experiments.modules())
    specs = (
        [spec for spec in every if not spec.missing()]
        if arguments.names == ["all"]
        else [experiments.find(name) for name in arguments.names]
    )
    make_writable(arguments.folder)
    where, ours = device.choose(arguments.device), arguments.folder.resolve() == experiments.FOLDER.resolve()
    for spec in (bar := tqdm(specs, unit="experiment", disable=None)):
        bar.set_postfix_str(f"{spec.name}, about {spec.minutes:g} min")
        bar.write(str(records.write(spec, where, arguments.folder)))
        if ours:
            manifest.enter([spec.name])
    return 0
