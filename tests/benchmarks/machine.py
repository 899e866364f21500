"""Times of one thread, and the limits of the machine that they are printed and judged beside.

A shared machine is noisy and another machine is faster or slower, so nothing here asserts seconds: a benchmark asserts
the ratio of two times of one run. Times are processor time, the fastest of several runs.
"""

import json
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

import torch

FLOAT = 4  # bytes
READ = 2**26  # numbers: more than any cache holds
SIDE = 1024  # of the square matrices whose product tells the rate of multiply-adds


@dataclass(frozen=True)
class Limits:
    """What one thread of this machine does in a second."""

    bytes_read: float
    multiply_adds: float

    def seconds(self, bytes_read: float = 0, multiply_adds: float = 0) -> float:
        """Return the least time that so much reading and so many multiply-adds of float32 can take here."""
        return max(bytes_read / self.bytes_read, multiply_adds / self.multiply_adds)

    def __str__(self):
        return f"{self.bytes_read / 1e9:.0f} GB/s, {self.multiply_adds / 1e9:.0f} G multiply-adds/s"


def best(function, repeats: int = 15) -> float:
    """Return the processor seconds of the fastest run, after one that is not timed if there are several."""
    seconds = []
    for _ in range(repeats + (repeats > 1)):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds[repeats > 1 :])


def limits() -> Limits:
    """Measure how fast one thread sums a long vector and multiplies two matrices, in float32."""
    vector, matrix = torch.ones(READ), torch.ones(SIDE, SIDE)
    return Limits(
        bytes_read=READ * FLOAT / best(vector.sum, 5), multiply_adds=SIDE**3 / best(lambda: matrix @ matrix, 5)
    )


def fresh_interpreter(code: str):
    """Run code in an interpreter of its own; it prints one line of JSON. ``peak()`` gives its most memory in MB."""
    head = """
        import json, re, sys, time
        def peak():  # unlike getrusage, not inherited from the parent
            return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
    """
    code = textwrap.dedent(head) + textwrap.dedent(code)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)
