"""The command line of the book: ``python -m book COMMAND``, run from the checkout."""

import sys

import book.cli
from analysis import cli


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    return cli.main(
        book.cli,
        "python -m book",
        "Build the book, execute its chapters, compute its records and models.",
        argv,
        extra="book",
    )


if __name__ == "__main__":
    sys.exit(main())
