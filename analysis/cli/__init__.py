"""The subcommands of ``python -m analysis``, a module for each, and what starts them.

Each module has ``add_arguments(parser)`` and ``run(arguments) -> exit status``; the folder is the list of them.
"""

import argparse
import io
import os
import pkgutil
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from analysis.core import device
from analysis.core.libraries import name_missing_library
from analysis.core.processes import Terminated, interrupt_on_signals
from analysis.models import checkpoints

PACKAGES = ("analysis", "book")
EXPECTED = (LookupError, ValueError, OSError, AssertionError, ArithmeticError, MemoryError)
"""What a command may raise on purpose: it becomes one line."""
ROOT = Path(__file__).resolve().parents[2]


def build_parser(package: ModuleType, prog: str, description: str) -> argparse.ArgumentParser:
    """Build the parser from the modules of a package of subcommands."""
    top = argparse.ArgumentParser(prog=prog, description=description)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        module = import_module(f"{package.__name__}.{name}")
        about = module.__doc__ or ""  # python -OO leaves none
        command = commands.add_parser(name, help=about.partition("\n")[0], description=about)
        command.add_argument("--device", help="cpu, cuda, cuda:N; default: CUDA where there is one")
        command.add_argument("--sources", help="where models may come from, in order: folder,hub,models,bundled")
        command.add_argument("--download", action="store_true", help="allow the model hub over the network")
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return top


def parse(package: ModuleType, prog: str, description: str, argv: Sequence[str]) -> argparse.Namespace:
    """Read the arguments of one subcommand; ``command_line`` is what repeats it.

    Raises
    ------
    ValueError
        If a value is empty, whichever option or argument it is of, or one of the sources is.
    """
    refuse_empty(argv)
    refuse_undecoded(argv)
    arguments = build_parser(package, prog, description).parse_args(argv)
    for name, value in vars(arguments).items():
        if isinstance(value, Path):
            setattr(arguments, name, expand_home(value))
    arguments.command_line = shlex.join([*prog.split(), *argv])
    if arguments.sources and not all(source.strip() for source in arguments.sources.split(",")):
        raise ValueError(f"--sources must name sources with one comma between two, got {arguments.sources!r}")
    return arguments


def expand_home(path: Path) -> Path:
    """Return the path with its ``~`` expanded, which a shell leaves as it is in ``--out=~/results``.

    Examples
    --------
    >>> expand_home(Path("~no-such-user/a"))
    Traceback (most recent call last):
    ValueError: ~no-such-user/a: Could not determine home directory.
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from None


def refuse_empty(argv: Sequence[str]) -> None:
    """Raise for a value that is empty or blank, as an unset variable of a shell gives it: it would mean something else.

    Examples
    --------
    >>> refuse_empty(["census", "--model", ""])
    Traceback (most recent call last):
    ValueError: --model is empty: give a value, or leave it out
    """
    for before, word in zip(["", *argv], argv):
        option, equals, value = word.partition("=")
        name = option if equals and option.startswith("--") else before if before.startswith("--") else "an argument"
        if not (value if equals and option.startswith("--") else word).strip():
            raise ValueError(f"{name} is empty: give a value, or leave it out")


def refuse_undecoded(argv: Sequence[str]) -> None:
    r"""Raise for an argument with bytes that are not text here: no record, page or library could name what was read.

    Examples
    --------
    >>> refuse_undecoded(["list", "m\udcc3\udcb6del"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: 'm\udcc3\udcb6del' is not text in ...: set PYTHONUTF8=1, or give another name
    """
    for word in argv:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            raise ValueError(f"{word!r} is not text in {encoding}: set PYTHONUTF8=1, or give another name") from None


def explain(error: BaseException) -> str:
    """Say in one line what went wrong.

    A message of this project is printed as it is. Another library's does not know what was being done, so its kind and
    our line that met it are added.

    Examples
    --------
    >>> explain(FileNotFoundError(2, "No such file or directory", "genes.fasta"))
    'genes.fasta: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if any(Path(frame.filename).is_relative_to(ROOT / name) for name in PACKAGES)]
    if type(error) not in (KeyError, IndexError) and (not frames or mine[-1:] == frames[-1:]):
        return str(error) or type(error).__name__
    where = f" ({Path(mine[-1].filename).relative_to(ROOT)}, line {mine[-1].lineno})" if mine else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}{where}"


def open_standard_streams() -> None:
    """Open what the caller has closed (``>&-``) on the null device, so that nothing else gets its number.

    What the encoding of an output lacks is printed as its number: a name from outside must not end a command.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def start(arguments: argparse.Namespace) -> int:
    """Settle what every subcommand has, then run it."""
    if arguments.sources:
        os.environ["ANALYSIS_SOURCES"] = arguments.sources
    if arguments.download:
        os.environ["ANALYSIS_DOWNLOAD"] = "1"
    device.choose(arguments.device)  # a name that is not a device, or no source, ends any command
    checkpoints.source_order()
    return arguments.run(arguments) or 0


def flush() -> None:
    """Write what is still to be printed; where that fails, say so, and let the interpreter not try again."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = None
        open_standard_streams()
        raise OSError(error.errno, error.strerror, "standard output") from None


def main(
    package: ModuleType, prog: str, description: str, argv: Sequence[str] | None = None, *, extra: str = "models"
) -> int:
    """Run one subcommand; an expected failure prints one line and exits with 2.

    Ctrl-C exits with 130 and SIGTERM with 143, once children have ended and temporary folders are removed.

    Parameters
    ----------
    argv
        The arguments; default: those of the process.
    extra
        The extra of this project that brings what the subcommands need.
    """
    open_standard_streams()
    try:
        with interrupt_on_signals():
            status = start(parse(package, prog, description, sys.argv[1:] if argv is None else argv))
            flush()
            return status
    except BrokenPipeError:  # the reader of our output has left: `... | head`
        sys.stdout = None
        return 141
    except EXPECTED as error:
        print(f"error: {explain(error)}", file=sys.stderr)
        with suppress(OSError):
            flush()
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in (__name__.split(".")[0], package.__name__.split(".")[0]):
            raise  # a fault of this project, which no installation mends
        print(f"error: {name_missing_library(error, extra)}", file=sys.stderr)
        return 2
    except Terminated as signalled:
        print(f"ended by {signalled}", file=sys.stderr)
        return 128 + signalled.number
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
