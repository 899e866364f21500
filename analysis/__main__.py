"""The command line of the package: ``python -m analysis COMMAND``."""

import sys

from analysis import cli


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    return cli.main(cli, "python -m analysis", "Find models, and measure them as the book does.", argv)


if __name__ == "__main__":
    sys.exit(main())
