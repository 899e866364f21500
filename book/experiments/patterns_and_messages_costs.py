"""Seconds that the three forms of a layer take on the machine that recorded them, beside their counted cost.

Times differ from machine to machine, so their tolerance holds anything; counts are exact.
"""

import time

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer, Mask
from book.lab.mathematics import operation_counts
from book.publish.records import Experiment, Result, Value

GPT2 = {"model": 768, "head": 12, "channel": 64}
LENGTHS = (16, 64, 256, 1024)
ANYTHING = 1e9


def time_forms(device, lengths, model: int, head: int, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Time a random layer, the fastest of four runs; return seconds and multiply-adds, ``(form, length)``."""
    g = torch.Generator().manual_seed(0)
    shapes = [(head, model, channel)] * 3 + [(head, channel, model)] + [(head, channel)] * 3 + [(model,)]
    layer = AttentionLayer(*(0.02 * torch.randn(s, generator=g) for s in shapes), mask=Mask(causal=True)).to(device)
    seconds, counts = np.zeros((3, len(lengths))), np.zeros((3, len(lengths)), dtype=np.int64)
    for row, form in enumerate(operation_counts.FORMS):
        run = operation_counts.prepare(form, layer)
        for column, n in enumerate(lengths):
            x = torch.randn(n, model, generator=g).to(device)
            seconds[row, column] = min(_timed(run, x, device) for _ in range(4))
            counts[row, column] = operation_counts.cost(form, n, model, head, channel).sequence
    return seconds, counts


def _timed(run, x, device) -> float:
    start = time.perf_counter()
    run(x)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def compute(device) -> Result:
    """Time one layer of GPT-2's size."""
    seconds, counts = time_forms(device, LENGTHS, **GPT2)
    return Result(
        {"threads": Value(torch.get_num_threads(), tolerance=ANYTHING)},
        {"lengths": np.array(LENGTHS), "seconds": seconds, "multiply_adds": counts},
        {"seconds": ANYTHING},
    )


EXPERIMENT = Experiment(
    "Seconds of the factored, merged and input-cached forms of one layer", compute, minutes=0.6, seed=0
)
