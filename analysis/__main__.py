"""The command line: ``python -m analysis COMMAND``, one module of ``analysis.commands`` a subcommand."""

import argparse
import os
import sys
from importlib import import_module

from analysis import asked
from analysis.commands import NAMES
from analysis.core import device
from analysis.models import checkpoints


def parser() -> argparse.ArgumentParser:
    """Build the parser from the subcommands' own modules."""
    top = argparse.ArgumentParser(prog="python -m analysis", description="Run what the book ran.")
    sub = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in NAMES:
        module = import_module(f"analysis.commands.{name}")
        one = sub.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__)
        one.add_argument("--device", help="cpu, cuda, cuda:N; default: ANALYSIS_DEVICE, else CUDA where there is one")
        one.add_argument("--sources", help="where models may come from, in order: folder,hub,models,bundled")
        one.add_argument("--download", action="store_true", help="allow the model hub over the network")
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; an expected failure prints one line and exits with 2."""
    arguments = parser().parse_args(argv)
    for option, variable in (("device", "ANALYSIS_DEVICE"), ("sources", "ANALYSIS_SOURCES")):
        if getattr(arguments, option):
            os.environ[variable] = getattr(arguments, option)
    if arguments.download:
        os.environ["ANALYSIS_DOWNLOAD"] = "1"
    asked.forget()  # only `run` asks for another model or other texts, and of one chapter
    try:
        device.choose()  # a name that is no device, or no source, is refused whether or not the command needs it
        checkpoints.chosen_sources()
        status = arguments.run(arguments) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has left: `... | head`
        sys.stdout = None
        return 141
    except (LookupError, ValueError, OSError, AssertionError, ArithmeticError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, the same command goes on from there", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
