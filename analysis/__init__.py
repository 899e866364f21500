"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors.

Mathematics (``attention``, ``bias``, ``patterns``, ...) takes tensors and gives tensors;
the door to the outside (``checkpoints``, ``weights``, ``models``, ...) finds and reads models.
Importing this package needs neither a network nor ``transformers``.
"""

__version__ = "0.1.0"
