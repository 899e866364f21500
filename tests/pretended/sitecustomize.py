"""Puts a whole chapter, or a command of the package, on a GPU that is only pretended (``tests/unit/pretended.py``).

With this folder on ``PYTHONPATH`` and ``ANALYSIS_DEVICE=pretended``, a kernel and ``python -m analysis`` compute on the
pretended GPU: what meets a tensor that lies elsewhere is refused as CUDA refuses it, and last digits are others.
"""

import os
import sys

COMPUTES = {"ipykernel_launcher", "analysis"}  # so named after -m

if os.environ.get("ANALYSIS_DEVICE") == "pretended" and COMPUTES & set(sys.orig_argv):
    from analysis import device
    from tests.unit.pretended import GPU, pretended

    _choose = device.choose
    device.choose = lambda name=None: GPU if name in (None, "auto") else _choose(name)
    _kept = pretended(rounds_otherwise=True)
    _kept.__enter__()  # until the kernel ends
