"""What streaming statistics cost: time, memory and exactness while a BERT BASE shape reads 8 x 512 tokens.

Times are CPU times of this process, of ways that take turns; what is judged is their ratio, the smallest time of each.
They differ from machine to machine, so their tolerance holds anything; memory and exactness do not.

=================  ======================================================================================
plain              the model's own sdpa attention, no statistics
streamed           ``streaming.MapStatistics`` through ``attention_hooks``
vectorised         whole-tensor formulas over stored maps of a layer: p log p, one scatter for diagonals
naive              the same, one row and one diagonal at a time
=================  ======================================================================================
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import torch

from analysis.maps import streaming
from analysis.models import attention_hooks
from book.lab.stored_maps import BATCH, CHANNEL, HEADS, LAYERS, N, base, distance, naive, vectorised
from book.publish.records import Experiment, Result, Value

REPEATS = 3
ANYTHING = 1e9


def plain(made, ids) -> torch.Tensor:
    """Run the model as it is."""
    return made(ids).last_hidden_state


def streamed(made, ids) -> torch.Tensor:
    """Run it and take all statistics of all maps."""
    counted = streaming.MapStatistics(made.config.num_hidden_layers, HEADS, N)
    with attention_hooks.with_attention(made, counted.attend):
        return made(ids).last_hidden_state


def whole_model(layers: int, repeats: int) -> tuple[dict[str, list[float]], float]:
    """Time a forward pass without and with statistics; return the seconds and the difference of the outputs."""
    made, ids = base(layers)
    plain(made, ids[:1])
    seconds, due, output = {"plain": [], "streamed": []}, None, None
    for _ in range(repeats):
        took, due = _clock(plain, made, ids)
        seconds["plain"].append(took)
        took, output = _clock(streamed, made, ids)
        seconds["streamed"].append(took)
    return seconds, (output - due).abs().max().item()


def one_layer(repeats: int) -> tuple[dict[str, list[float]], float]:
    """Time the statistics alone, of one layer, in three ways; return the seconds and the distance from float64.

    ``extra`` is what streaming adds to sdpa; ``naive`` is measured on one sequence and multiplied.
    """
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(BATCH, HEADS, N, CHANNEL, generator=generator) for _ in range(3))
    maps = (query @ key.transpose(-1, -2) / CHANNEL**0.5).softmax(-1)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    attended, without, seconds = [], [], {"vectorised": []}
    for _ in range(repeats):
        counted = streaming.MapStatistics(1, HEADS, N)
        attended.append(_clock(lambda c=counted: c.attend(0, query, key, value, scale=CHANNEL**-0.5))[0])
        without.append(_clock(sdpa, query, key, value)[0])
        seconds["vectorised"].append(_clock(vectorised, maps)[0])
    seconds["extra"] = [max(min(attended) - min(without), 1e-9)]
    took, parts = _clock(naive, maps[:1])
    seconds["naive"] = [took * BATCH]
    if not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(parts, vectorised(maps[:1]), strict=True)):
        raise AssertionError("the naive and the vectorised statistics differ: one of them is wrong")
    return seconds, distance(counted, vectorised(maps.double()))


def _clock(call, *arguments):
    start = time.process_time()
    result = call(*arguments)
    return time.process_time() - start, result


def peak(which: str, layers: int) -> float:
    """Return the most memory (MB) that a process of its own has resident for one forward pass."""
    script = (
        "from book.experiments import streaming_capture_cost as cost\n"
        f"cost.{which}(*cost.base({layers}))\n"
        "print(cost.most_resident())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    return float(ran.stdout.split()[-1])


def most_resident() -> float:
    """Return this process's most resident memory in MB; unlike getrusage not inherited from the parent (Linux only)."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))[1]) / 1024


def measure(layers: int = LAYERS, repeats: int = REPEATS) -> dict[str, float]:
    """Measure everything that is promised: ratios to what one would do otherwise, memory, and errors."""
    seconds, output_gap = whole_model(layers, repeats)
    single, gap = one_layer(max(repeats, 5))
    best = {name: min(values) for name, values in (seconds | single).items()}
    return {
        "time": best["streamed"] / best["plain"],
        "memory": peak("streamed", layers) - peak("plain", layers),
        "vectorised": best["vectorised"] / best["extra"],
        "naive": best["naive"] / best["extra"],
        "error": gap,
        "output_error": output_gap,
        "plain_seconds": best["plain"],
    }


def compute(device) -> Result:
    """Measure on the CPU, whatever the device."""
    found = measure()
    units = {"memory": "MB", "plain_seconds": "s"}
    tolerances = {"error": 1e-6, "output_error": 1e-4, "memory": 30}
    values = {
        name: Value(round(value, 10), tolerances.get(name, ANYTHING), unit=units.get(name, ""))
        for name, value in found.items()
    }
    return Result({**values, "threads": Value(torch.get_num_threads(), ANYTHING)})


EXPERIMENT = Experiment(
    "Time, memory and exactness of statistics taken while a BERT BASE shape runs", compute, minutes=3, seed=0
)
