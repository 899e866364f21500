"""What reading one map costs: CPU time and memory of the gate reader, by size of the map.

Times and memory differ from machine to machine, so their tolerance holds anything.
"""

import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from analysis.maps import gates
from analysis.maps.gates.synthetic import draw
from book.publish.records import Experiment, Result

SIZES = (128, 256, 512, 1024, 2048)
ANYTHING = 1e9
SEED = 0
MEMORY = """
import re, sys
from pathlib import Path

from analysis.maps.gates import read_gates
from book.experiments.gate_detector_cost import a_map

def peak():  # of this process; getrusage would count its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

maps = a_map(int(sys.argv[1]))
read_gates(a_map(64))
Path("/proc/self/clear_refs").write_text("5")
before = peak()
read_gates(maps)
print(peak() - before)
"""


def a_map(n: int) -> torch.Tensor:
    """Draw the map that is read, in single precision as models give it."""
    specimen = draw(n, ("directional", "backward", "cluster"), "lognormal", np.random.default_rng([SEED, n]))
    return torch.as_tensor(specimen.attention).float()


def measure(sizes: Sequence[int], repeats: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return CPU seconds (least of several) and added peak memory in MB of reading one map of each size."""
    seconds, memory = [], []
    for n in sizes:
        maps, times = a_map(n), []
        for _ in range(repeats):
            start = time.process_time()
            gates.read_gates(maps)
            times.append(time.process_time() - start)
        seconds.append(min(times))
        told = subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True)
        memory.append(int(told.stdout) / 1024)
    return np.array(seconds), np.array(memory)


def compute(device: torch.device) -> Result:
    """Measure on the CPU, whatever device there is."""
    seconds, memory = measure(SIZES)
    return Result(
        arrays={"sizes": np.array(SIZES), "seconds": seconds, "megabytes": memory},
        tolerances={"seconds": ANYTHING, "megabytes": ANYTHING},
    )


EXPERIMENT = Experiment(
    summary="time and memory of the gate reader by size of the map", compute=compute, minutes=0.5, seed=SEED
)
