"""What streaming statistics promise, against a plain forward pass and two ways over stored maps.

``make bench`` runs it on 2 layers; ``python -m tests.benchmarks.bench_attention_hooks`` on all 12. The measuring itself
is ``book.studies.streaming_capture.cost``, whose record the page on streaming capture shows.
"""

import argparse
import sys

import torch

from book.studies.streaming_capture import cost
from tests.benchmarks.machine import limits

PROMISES = {
    "time": ("time, streamed / plain forward", "at most", 1.15),
    "memory": ("memory, streamed - plain (MB)", "at most", 400),
    "vectorised": ("statistics of stored maps, vectorised / streamed extra", "at least", 4),
    "naive": ("statistics of stored maps, naive / streamed extra", "at least", 30),
    "error": ("largest difference from float64 over stored maps", "at most", 1e-6),
    "output_error": ("largest difference of the model's output", "at most", 1e-4),
}


def test_promises(capsys):
    """Each promise holds, on a model of two layers and one thread: processor time counts threads that wait."""
    with capsys.disabled():
        assert report(2, 5) == 0


def report(layers, repeats):
    """Print what was measured beside what is promised; return how many promises are broken."""
    measured = cost.measure(layers, repeats)
    print(
        f"{layers} layers, {cost.BATCH} x {cost.N} tokens, {torch.get_num_threads()} threads; "
        f"plain forward {measured['plain_seconds']:.2f} s on a machine of {limits()}"
    )
    broken = 0
    for name, (words, kind, limit) in PROMISES.items():
        fine = measured[name] <= limit if kind == "at most" else measured[name] >= limit
        broken += not fine
        print(f"{'ok  ' if fine else 'MISS'} {words}: {measured[name]:.3g} ({kind} {limit:g})")
    return broken


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=cost.LAYERS)
    parser.add_argument("--repeats", type=int, default=cost.REPEATS)
    options = parser.parse_args()
    sys.exit(min(report(options.layers, options.repeats), 1))
