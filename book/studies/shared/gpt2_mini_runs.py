"""The seeds of gpt2-mini under their former name, as long as a study asks for them here."""

from book.lab.gpt2_mini_runs import RUNS, SEEDS, find_run

__all__ = ["RUNS", "SEEDS", "find_run"]
