"""Command line, one module a subcommand."""
