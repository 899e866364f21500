"""Puts a whole chapter on a GPU that is only pretended (``tests/unit/pretended.py``).

With this folder on ``PYTHONPATH`` and ``ANALYSIS_DEVICE=pretended``, a kernel's device is the pretended GPU: a tensor
that lies on the other side is refused as CUDA refuses it, and the numbers are those of the CPU.
"""

import os
import sys

if os.environ.get("ANALYSIS_DEVICE") == "pretended" and "ipykernel_launcher" in " ".join(sys.orig_argv):
    from analysis import device
    from tests.unit.pretended import GPU, pretended

    _choose = device.choose
    device.choose = lambda name=None: _choose(name) if name else GPU
    _kept = pretended()
    _kept.__enter__()  # until the kernel ends
