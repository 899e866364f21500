"""Moved to :mod:`book.lab.classifier_survey` and :mod:`book.experiments.variant_measures`.

Handed on until all import it from there.
"""

from book.experiments.variant_measures import MOST, measure_run, tolerance
from book.lab.classifier_survey import Run, open_run, pass_all, survey

__all__ = ["MOST", "Run", "measure_run", "open_run", "pass_all", "survey", "tolerance"]
