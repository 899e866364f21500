"""Map statistics while a BERT-base shape reads 8 x 512 tokens: time, memory and exactness, against three other ways.

``make bench`` runs it on 2 layers; ``python tests/benchmarks/bench_capture.py`` on all 12. Times are CPU
times of this process and judged as ratios within one run, medians of repetitions that take turns.

=================  ======================================================================================
plain              the model's own sdpa attention, no statistics
streamed           ``stream.MapStatistics`` through ``capture``
vectorised         whole-tensor formulas over stored maps of a layer: p log p, one scatter for diagonals
naive              the same, one row and one diagonal at a time
=================  ======================================================================================
"""

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import transformers

from analysis import capture, stream

LAYERS, HEADS, BATCH, N, CHANNEL = 12, 12, 8, 512, 64


def model(layers):
    torch.manual_seed(0)
    config = transformers.BertConfig(num_hidden_layers=layers)
    made = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.data *= 2 if parameter.ndim == 2 else 1
    made.set_attn_implementation("sdpa")
    return made, torch.randint(1000, 20000, (BATCH, N))


def plain(made, ids):
    return made(ids).last_hidden_state


def streamed(made, ids):
    counted = stream.MapStatistics(made.config.num_hidden_layers, HEADS, N)
    with capture.through(made, counted.attend):
        return made(ids).last_hidden_state, counted


def vectorised(maps):
    """Statistics of stored maps ``(batch, head, query, key)`` with whole-tensor operations."""
    n = maps.shape[-1]
    entropy = -(maps * torch.log(maps.clamp_min(1e-30))).sum(-1).sum(0)
    offset = (torch.arange(n) - torch.arange(n)[:, None] + n - 1).flatten()
    diagonal = maps.new_zeros(maps.shape[1], 2 * n - 1).index_add_(1, offset, maps.sum(0).flatten(1))
    return entropy, diagonal, maps.sum(-2).sum(0), maps.sum(-1).sum(0)


def naive(maps):
    """The same, map by map, row by row, diagonal by diagonal."""
    batch, heads, n, _ = maps.shape
    entropy, diagonal = torch.zeros(heads, n), torch.zeros(heads, 2 * n - 1)
    column, row = torch.zeros(heads, n), torch.zeros(heads, n)
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                p = maps[b, h, i]
                entropy[h, i] += -(p * torch.log(p.clamp_min(1e-30))).sum()
                row[h, i] += p.sum()
                column[h, i] += maps[b, h, :, i].sum()
            for offset in range(-n + 1, n):
                diagonal[h, offset + n - 1] += maps[b, h].diagonal(offset).sum()
    return entropy, diagonal, column, row


def clock(call, *arguments):
    start = time.process_time()
    result = call(*arguments)
    return time.process_time() - start, result


def whole_model(layers, repeats):
    made, ids = model(layers)
    plain(made, ids[:1])
    times = {"plain": [], "streamed": []}
    for _ in range(repeats):
        seconds, due = clock(plain, made, ids)
        times["plain"].append(seconds)
        seconds, (output, _) = clock(streamed, made, ids)
        times["streamed"].append(seconds)
    gap = (output - due).abs().max().item()
    return statistics.median(b / a for a, b in zip(*times.values(), strict=True)), times, gap


def one_layer(repeats):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(BATCH, HEADS, N, CHANNEL, generator=generator) for _ in range(3))
    maps = (query @ key.transpose(-1, -2) / CHANNEL**0.5).softmax(-1)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    extra, stored = [], []
    for _ in range(repeats):
        counted = stream.MapStatistics(1, HEADS, N)
        with_statistics, _ = clock(lambda counted=counted: counted.attend(0, query, key, value, scale=CHANNEL**-0.5))
        without, _ = clock(sdpa, query, key, value)
        extra.append(max(with_statistics - without, 1e-9))
        stored.append(clock(vectorised, maps)[0])
    one_by_one, parts = clock(naive, maps[:1])
    exact = vectorised(maps.double())
    mine = (counted.entropy_by_query()[0] * BATCH, counted.diagonal_profile()[0] * BATCH
            * (N - torch.arange(-N + 1, N).abs()), counted.column_mass()[0] * BATCH, counted.row_mass()[0] * BATCH)
    gap = max(((a - b).abs() / BATCH).max().item() for a, b in zip((mine[0], *mine[2:]), (exact[0], *exact[2:]),
                                                                   strict=True))
    mean = (mine[1] - exact[1]).abs() / BATCH / (N - torch.arange(-N + 1, N).abs())
    agree = max(gap, mean.max().item())
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(parts, vectorised(maps[:1]), strict=True))
    return statistics.median(extra), statistics.median(stored), one_by_one * BATCH, agree


def peak():
    """Most resident memory of this process in MB; unlike getrusage not inherited from the parent."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def memory(which, layers):
    """Peak memory (MB) of a process of its own."""
    command = [sys.executable, __file__, "--peak", which, "--layers", str(layers)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def test_promises(capsys):
    """Each promise holds, on a model of two layers."""
    with capsys.disabled():
        assert report(2, 5) == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak", choices=["plain", "streamed"])
    options = parser.parse_args()
    if options.peak:
        made, ids = model(options.layers)
        (plain if options.peak == "plain" else streamed)(made, ids)
        print(peak())
        return 0
    return report(options.layers, options.repeats)


def report(layers, repeats):
    """Print what was measured beside what is promised; return how many promises are broken."""
    ratio, times, output_gap = whole_model(layers, repeats)
    extra, stored, loop, gap = one_layer(repeats)
    more = memory("streamed", layers) - memory("plain", layers)
    promises = [
        ("time, streamed / plain forward", ratio, "at most", 1.15),
        ("memory, streamed - plain (MB)", more, "at most", 400),
        ("statistics of stored maps, vectorised / streamed extra", stored / extra, "at least", 4),
        ("statistics of stored maps, naive / streamed extra", loop / extra, "at least", 30),
        ("largest difference from float64 over stored maps", gap, "at most", 1e-6),
        ("largest difference of the model's output", output_gap, "at most", 1e-4),
    ]
    print(f"{layers} layers, {BATCH} x {N} tokens, {torch.get_num_threads()} threads; plain forward "
          f"{statistics.median(times['plain']):.2f} s, streamed {statistics.median(times['streamed']):.2f} s; "
          f"one layer: extra {extra * 1e3:.0f} ms, vectorised {stored * 1e3:.0f} ms, naive {loop:.1f} s")
    broken = 0
    for name, value, kind, limit in promises:
        fine = value <= limit if kind == "at most" else value >= limit
        broken += not fine
        print(f"{'ok  ' if fine else 'MISS'} {name}: {value:.3g} ({kind} {limit:g})")
    return broken


if __name__ == "__main__":
    sys.exit(min(main(), 1))
