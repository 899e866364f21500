"""Any attention: one adapter from models of transformers, loaded or in files, to plain tensors.

`from_module` and `from_checkpoint` return the layers of a model as `analysis.core.attention_layer.AttentionLayer`. What
belongs here: the table of families, a row each, and what reads by it. What does not: computing with the layers
(:mod:`analysis.transformer.attention`).
"""

from analysis.models.families.reader import AttentionLayers, QueriesAndKeys, families_of, from_checkpoint, from_module
from analysis.models.families.row import Family
from analysis.models.families.table import FAMILIES, REFUSED
from analysis.models.files import MissingTensor

__all__ = [
    "FAMILIES",
    "REFUSED",
    "AttentionLayers",
    "Family",
    "MissingTensor",
    "QueriesAndKeys",
    "families_of",
    "from_checkpoint",
    "from_module",
]
