"""Seconds that the three forms of a layer take on the machine that recorded them, beside their counted cost.

Times differ from machine to machine, so their tolerance holds anything; counts are exact.
"""

import time

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer, Mask
from book.lab.mathematics import operation_counts
from book.publish.records import Experiment, Result, Value

MODEL, HEAD, CHANNEL = 768, 12, 64
LENGTHS = (16, 64, 256, 1024)
ANYTHING = 1e9


def compute(device) -> Result:
    """Time one layer of GPT-2's size, random, at several lengths; the fastest of three runs."""
    g = torch.Generator().manual_seed(0)
    shapes = [(HEAD, MODEL, CHANNEL)] * 3 + [(HEAD, CHANNEL, MODEL)] + [(HEAD, CHANNEL)] * 3 + [(MODEL,)]
    layer = AttentionLayer(*(0.02 * torch.randn(s, generator=g) for s in shapes), mask=Mask(causal=True)).to(device)
    seconds, counts = np.zeros((3, len(LENGTHS))), np.zeros((3, len(LENGTHS)), dtype=np.int64)
    for row, form in enumerate(operation_counts.FORMS):
        run = operation_counts.prepare(form, layer)
        for column, n in enumerate(LENGTHS):
            x = torch.randn(n, MODEL, generator=g).to(device)
            seconds[row, column] = min(_timed(run, x, device) for _ in range(4))
            counts[row, column] = operation_counts.cost(form, n, MODEL, HEAD, CHANNEL).sequence
    return Result(
        {"threads": Value(torch.get_num_threads(), tolerance=ANYTHING)},
        {"lengths": np.array(LENGTHS), "seconds": seconds, "multiply_adds": counts},
        {"seconds": ANYTHING},
    )


def _timed(run, x, device) -> float:
    start = time.perf_counter()
    run(x)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


EXPERIMENT = Experiment(
    "Seconds of the factored, merged and input-cached forms of one layer", compute, minutes=0.6, seed=0
)
