"""Moved to :mod:`book.lab.classifier_runs` and :mod:`book.experiments.variant_seeds`.

Handed on until all import it from there.
"""

from book.experiments.variant_seeds import KEPT, accuracy_value, follow, measure_folder, tolerances
from book.lab.classifier_runs import SETS, confuse, confuse_all, find_run, make_sets, tally

__all__ = [
    "KEPT",
    "SETS",
    "accuracy_value",
    "confuse",
    "confuse_all",
    "find_run",
    "follow",
    "make_sets",
    "measure_folder",
    "tally",
    "tolerances",
]
