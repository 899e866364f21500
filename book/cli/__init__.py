"""The subcommands of ``python -m book``, a module for each."""
