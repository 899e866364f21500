"""The subcommands of ``python -m analysis``, a module for each, and what starts them.

Each module has ``add_arguments(parser)`` and ``run(arguments) -> exit status``; the folder is the list of them.
"""

import argparse
import os
import pkgutil
import sys
from importlib import import_module
from types import ModuleType

from analysis.core import device
from analysis.models import checkpoints


def build_parser(package: ModuleType, prog: str, description: str) -> argparse.ArgumentParser:
    """Build the parser from the modules of a package of subcommands."""
    top = argparse.ArgumentParser(prog=prog, description=description)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        module = import_module(f"{package.__name__}.{name}")
        command = commands.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__)
        command.add_argument("--device", help="cpu, cuda, cuda:N; default: CUDA where there is one")
        command.add_argument("--sources", help="where models may come from, in order: folder,hub,models,bundled")
        command.add_argument("--download", action="store_true", help="allow the model hub over the network")
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return top


def main(package: ModuleType, prog: str, description: str, argv: list[str] | None = None) -> int:
    """Run one subcommand; an expected failure prints one line and exits with 2."""
    arguments = build_parser(package, prog, description).parse_args(argv)
    if arguments.sources:
        os.environ["ANALYSIS_SOURCES"] = arguments.sources
    if arguments.download:
        os.environ["ANALYSIS_DOWNLOAD"] = "1"
    try:
        device.choose(arguments.device)  # a name that is no device, or no source, is refused in any command
        checkpoints.source_order()
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
        print("interrupted", file=sys.stderr)
        return 130
