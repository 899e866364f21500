"""Write a report on a model: one page of HTML that opens anywhere, and the same numbers as JSON.

What was measured so far lies next to it until it is written, so an interrupted report goes on where it was. With
``--certify`` the page says instead, of each layer and head, whether the parts add up to what the model's own modules
compute; the exit status is 1 where they do not.
"""

import re
import sys
from pathlib import Path

from analysis.core import device

RUNS = Path("runs")


def add_arguments(parser):
    """Take the model, the texts and where to write."""
    parser.add_argument("model", metavar="MODEL", help="a name that `list` shows, a folder, or a hub name")
    parser.add_argument(
        "--texts",
        type=Path,
        metavar="FILE",
        help="a text file or a folder; default: bundled passages. For a Whisper a WAV file or a folder; default: "
        "sounds that are made, none of them speech",
    )
    parser.add_argument("--count", type=int, help="read only so many texts")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write (default: runs/report-MODEL or runs/certificate-MODEL)"
    )
    parser.add_argument(
        "--seeds", type=int, default=5, help="of each control (default: 5; with fewer than 3 nothing is compared)"
    )
    parser.add_argument("--longest", type=int, metavar="TOKENS", help="of a text (default: 128; 32 of a certificate)")
    parser.add_argument("--weights-only", action="store_true", help="do not run the model")
    parser.add_argument(
        "--certify",
        action="store_true",
        help="compare each layer and head with the model's own modules instead, reading one matrix at a time: a page, "
        "certificate.json and badge.svg",
    )
    parser.add_argument("--beside", metavar="MODEL", help="another model or checkpoint, shown on the same page")
    parser.add_argument(
        "--book",
        metavar="ADDRESS",
        help="where the book's pages lie, for links (default: no links, so that the page can be sent)",
    )


def check_address(address: str) -> None:
    """Raise for an address of another kind than a page has: a link must not run code.

    >>> check_address("javascript:alert(1)")
    Traceback (most recent call last):
    ValueError: --book must be a path, or an address with http, https or file, got 'javascript:alert(1)'
    """
    scheme = re.match(r"([^/?#]*):", re.sub(r"[\x00-\x20]", "", address))  # what browsers leave out
    if scheme and scheme[1].lower() not in ("http", "https", "file"):
        raise ValueError(f"--book must be a path, or an address with http, https or file, got {address!r}")


def run(arguments) -> int:
    """Measure, and write."""
    if arguments.longest is None:
        arguments.longest = 32 if arguments.certify else 128
    for name, least, most in (("seeds", 1, 100), ("longest", 8, 10**6)):
        if not least <= getattr(arguments, name) <= most:
            raise ValueError(f"--{name} must be {least} to {most}, got {getattr(arguments, name)}")
    if arguments.book is not None:
        check_address(arguments.book)
    return _certify(arguments) if arguments.certify else _report(arguments)


def _certify(arguments) -> int:
    from analysis.reporting.certificate import certify

    for option in ("count", "weights_only", "book", "beside"):
        if getattr(arguments, option) not in (None, False):
            raise ValueError(f"--{option.replace('_', '-')} has no meaning with --certify: leave it out")
    out = arguments.out or RUNS / f"certificate-{Path(arguments.model).name}"
    certificate = certify(
        arguments.model, out=out, texts=arguments.texts, longest=arguments.longest, command=arguments.command_line
    )
    print(f"{certificate.sentence()}; written to {out / 'index.html'}")
    return 0 if certificate.holds else 1


def _report(arguments) -> int:
    from analysis.reporting.making import report

    where = device.choose(arguments.device)
    out = arguments.out or RUNS / f"report-{Path(arguments.model).name}"
    taken = ("texts", "count", "seeds", "longest", "weights_only", "beside", "book")
    options = {name: getattr(arguments, name) for name in taken}
    try:
        page = report(arguments.model, out=out, device=where, show=True, command=arguments.command_line, **options)
    except KeyboardInterrupt:
        if any(out.glob(".unfinished-*")):
            print(f"what was measured is kept in {out}: run the same command again to go on", file=sys.stderr)
        raise
    print(f"written to {page}")
    return 0
