"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors.

The mathematics (``transformer``, ``decomposition``, ``matrices``, ``maps``, ``representations``, ``statistics``) takes
tensors and gives tensors; the door to the outside (``models``, ``data``) finds and reads models and texts. Importing
this package needs neither a network nor ``transformers``.
"""

__version__ = "0.1.0"
