"""The table of families: for each its names, its layout, and which tensors its configuration implies.

What belongs here: a row each, and what of a model is read by it. What does not: reading a model
(:mod:`analysis.models.reading`), computing with its layers (:mod:`analysis.transformer.attention`).
"""

from analysis.models.families.row import Family
from analysis.models.families.table import FAMILIES, REFUSED

__all__ = ["FAMILIES", "REFUSED", "Family"]
