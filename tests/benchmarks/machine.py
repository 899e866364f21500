"""Ratios of times: what is compared takes turns on one thread, beside the limits of the machine.

A shared machine is noisy and another machine is faster or slower, so nothing here asserts seconds: a benchmark asserts
the ratio of two times of one run. Times are processor time.
"""

import json
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch

FLOAT = 4  # bytes
READ = 2**26  # numbers: more than any cache holds
SIDE = 1024  # of the square matrices whose product tells the rate of multiply-adds
ROUNDS = 5
SPELL = 0.05  # seconds that a call is repeated in its turn, so that a short one is not measured once


@dataclass(frozen=True)
class Race:
    """The seconds that each competitor took in each round."""

    seconds: Mapping[str, list[float]]

    def least(self, name: str) -> float:
        """Return the fastest time: for printing only, since it depends on which moments were quiet."""
        return min(self.seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """Return the median over the rounds of how many times as long ``slow`` takes as ``fast``.

        It mostly varies less between runs than the ratio of the least times, because the two times of a round
        share what the machine does meanwhile.
        """
        return statistics.median(a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True))

    def over_limit(self, name: str, bytes_read: float = 0, multiply_adds: float = 0) -> float:
        """Return the median of how many times as long a call takes as this machine needs at the least.

        That is the time to read so many bytes, or for so many multiply-adds of float32, by the :func:`probes` of the
        same round.
        """
        reads, products = bytes_read / (READ * FLOAT), multiply_adds / SIDE**3
        rounds = zip(self.seconds[name], self.seconds["read"], self.seconds["multiply"], strict=True)
        return statistics.median(seconds / max(reads * read, products * multiply) for seconds, read, multiply in rounds)

    def machine(self) -> str:
        """Say what one thread of this machine does in a second, by its fastest probes."""
        rates = READ * FLOAT / self.least("read") / 1e9, SIDE**3 / self.least("multiply") / 1e9
        return f"{rates[0]:.0f} GB/s, {rates[1]:.0f} G multiply-adds/s"


def take_turns(measures: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> Race:
    """Call each measure, which returns seconds, once in each round."""
    seconds = [{name: measure() for name, measure in measures.items()} for _ in range(rounds)]
    return Race({name: [found[name] for found in seconds] for name in measures})


def race(calls: Mapping[str, Callable], rounds: int = ROUNDS) -> Race:
    """Time calls that take turns; the first turn may be slow, and then the median leaves it out."""
    return take_turns({name: partial(fastest, call) for name, call in calls.items()}, rounds)


def fastest(call: Callable) -> float:
    """Return the processor seconds of the fastest of the calls that fit into a spell, of one at least."""
    seconds = []
    while sum(seconds) < SPELL:
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def probes() -> dict[str, Callable]:
    """Return the two calls that tell how fast one thread reads a long vector and multiplies two matrices."""
    vector, matrix = torch.ones(READ), torch.ones(SIDE, SIDE)
    return {"read": vector.sum, "multiply": lambda: matrix @ matrix}


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
