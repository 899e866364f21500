"""Command line, one module a subcommand: each has ``add_arguments(parser)`` and ``run(arguments) -> exit status``."""

NAMES = ("list", "record", "check", "run", "train", "classify", "ledger", "census")
