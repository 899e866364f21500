"""The subcommands of ``python -m analysis``, a module for each, and what starts them.

Each module has ``add_arguments(parser)`` and ``run(arguments) -> exit status``; the folder is the list of them.
"""

import argparse
import os
import pkgutil
import re
import sys
from importlib import import_module, metadata
from types import ModuleType

from analysis.core import device
from analysis.models import checkpoints

DISTRIBUTION = "attention-taken-apart"


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


def name_missing_library(error: ModuleNotFoundError, extra: str) -> str:
    """Say which library is not installed, and which extra of the package brings it.

    Parameters
    ----------
    error
        What an import raised.
    extra
        The extra to name where the package's own requirements do not name the library.

    Examples
    --------
    >>> name_missing_library(ModuleNotFoundError("No module named 'tokenizers'", name="tokenizers"), "models")
    'tokenizers is not installed: pip install "attention-taken-apart[models]"'
    """
    quoted = re.search(r"'([A-Za-z][\w-]*)", str(error))
    library = quoted[1] if quoted else error.name.split(".")[0]
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        requirements = []
    named = (re.match(rf"{library}\b.*extra == ['\"](\w+)", r.replace("-", "_")) for r in requirements)
    extra = next((match[1] for match in named if match), extra)
    return f'{library} is not installed: pip install "{DISTRIBUTION}[{extra}]"'


def main(package: ModuleType, prog: str, description: str, argv: list[str] | None = None, *,
         extra: str = "models") -> int:
    """Run one subcommand; an expected failure prints one line and exits with 2.

    Parameters
    ----------
    package
        The package whose modules are the subcommands.
    prog, description
        What the help says.
    argv
        The arguments; default: those of the process.
    extra
        The extra of this project that brings what the subcommands need.
    """
    try:
        arguments = build_parser(package, prog, description).parse_args(argv)
        if arguments.sources:
            os.environ["ANALYSIS_SOURCES"] = arguments.sources
        if arguments.download:
            os.environ["ANALYSIS_DOWNLOAD"] = "1"
        device.choose(arguments.device)  # a name that is no device, or no source, is refused in any command
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
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in (__name__.split(".")[0], package.__name__.split(".")[0]):
            raise  # a fault of this project, which no installation mends
        print(f"error: {name_missing_library(error, extra)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
