"""Moved to :mod:`book.lab.dna.baselines` and :mod:`book.experiments.variant_baselines`.

Handed on until all import it from there.
"""

from book.experiments.variant_baselines import SEED, measure, parts_of, score
from book.lab.dna.baselines import exchanged, fitted

__all__ = ["SEED", "exchanged", "fitted", "measure", "parts_of", "score"]
