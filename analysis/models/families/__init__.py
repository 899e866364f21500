"""The table of families: for each its names, its layout, and which tensors its configuration implies."""

from analysis.models.families.row import Family
from analysis.models.families.table import FAMILIES, REFUSED

__all__ = ["FAMILIES", "REFUSED", "Family"]
