"""What streaming statistics cost while a BERT BASE shape reads: on a CPU 8 x 512 tokens, on a GPU 1,024 x 512.

Times are of ways that take turns, and of each the quickest turn counts; on the CPU they are CPU times of this process.
They differ from machine to machine, so their tolerance holds anything; memory on the CPU and exactness do not. What is
reached on a GPU is held to what the same GPU reaches, in the same precision and the same run, on products of large
matrices: that is its peak here, not a data sheet's.

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
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from analysis.core.device import peak_memory
from analysis.maps import streaming
from analysis.models import attention_hooks
from book.publish.records import Experiment, Result, Value

LAYERS, HEADS, BATCH, N, CHANNEL = 12, 12, 8, 512, 64
"""Of BERT BASE, and the texts that it reads on a CPU."""
SEQUENCES, TOGETHER, PRODUCT = 1024, 32, 8192
"""On a GPU: the texts, how many are read at once, and the size of the matrices whose product is its peak."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
REPEATS = 3
ANYTHING = 1e9


def base(layers: int = LAYERS) -> tuple[torch.nn.Module, torch.Tensor]:
    """Make a random model of BERT BASE's width, and tokens for it."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(num_hidden_layers=layers)
    made = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.data *= 2 if parameter.ndim == 2 else 1
    made.set_attn_implementation("sdpa")
    return made, torch.randint(1000, 20000, (BATCH, N))


def vectorised(maps) -> tuple[torch.Tensor, ...]:
    """Take the statistics of stored maps ``(batch, head, query, key)`` with whole-tensor operations."""
    n = maps.shape[-1]
    entropy = -(maps * torch.log(maps.clamp_min(1e-30))).sum(-1).sum(0)
    offset = (torch.arange(n) - torch.arange(n)[:, None] + n - 1).flatten()
    diagonal = maps.new_zeros(maps.shape[1], 2 * n - 1).index_add_(1, offset, maps.sum(0).flatten(1))
    return entropy, diagonal, maps.sum(-2).sum(0), maps.sum(-1).sum(0)


def naive(maps) -> tuple[torch.Tensor, ...]:
    """Take the same, map by map, row by row, diagonal by diagonal."""
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


def distance(counted: streaming.MapStatistics, exact: tuple[torch.Tensor, ...]) -> float:
    """Return the largest difference of the statistics of one layer from exact ones, which are sums over the batch."""
    entropy, diagonal, column, row = (total / BATCH for total in exact)
    cells = N - torch.arange(-N + 1, N).abs()
    pairs = (
        (counted.entropy_by_query(), entropy),
        (counted.diagonal_profile(), diagonal / cells),
        (counted.column_mass(), column),
        (counted.row_mass(), row),
    )
    return max((mine[0] - due).abs().max().item() for mine, due in pairs)


def draw_layer() -> tuple[torch.Tensor, ...]:
    """Draw queries, keys and values of one layer."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(BATCH, HEADS, N, CHANNEL, generator=generator) for _ in range(3))


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
    query, key, value = draw_layer()
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
        "from book.experiments import streaming_capture as cost\n"
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


def measure_cpu(device) -> Result:
    """Time, memory and exactness of statistics taken while a BERT BASE shape runs.

    Measure on the CPU, whatever the device.
    """
    found = measure()
    units = {"memory": "MB", "plain_seconds": "s"}
    tolerances = {"error": 1e-6, "output_error": 1e-4, "memory": 30}
    values = {
        name: Value(round(value, 10), tolerances.get(name, ANYTHING), unit=units.get(name, ""))
        for name, value in found.items()
    }
    return Result({**values, "threads": Value(torch.get_num_threads(), ANYTHING)})


def operations(layers: int, width: int, hidden: int, n: int) -> int:
    """Return the multiplications and additions of the matrix products of one sequence's forward pass."""
    per_token = 4 * width * width + 2 * width * hidden
    return 2 * layers * (n * per_token + 2 * n * n * width)


def seconds_of(device: torch.device, call: Callable[[], object]) -> float:
    """Return how long a call takes until the device has done all of it."""
    _wait(device)
    start = time.perf_counter()
    call()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_rate(dtype: torch.dtype, device: torch.device, size: int = PRODUCT) -> float:
    """Return the operations per second of a product of two large random matrices, the best of ten."""
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / min(seconds_of(device, lambda: a @ b) for _ in range(10))


def read(
    model: torch.nn.Module, batches: Iterator[torch.Tensor], statistics: streaming.MapStatistics | None = None
) -> None:
    """Run the model over all batches, and let the statistics, where there are any, be its attention."""
    attend = statistics.attend if statistics else None
    with torch.no_grad(), attention_hooks.with_attention(model, attend):
        for ids in batches:
            model(ids)


def measure_on(
    dtype: torch.dtype,
    device: torch.device,
    *,
    sequences: int = SEQUENCES,
    layers: int = LAYERS,
    repeats: int = REPEATS,
    product: int = PRODUCT,
) -> dict[str, float]:
    """Measure both ways in one precision: seconds, sequences per second, share of the peak, and memory in MB."""
    model, _ = base(layers)
    model = model.to(device, dtype)
    config, n = model.config, N
    ids = torch.randint(1000, 20000, (sequences, n), generator=torch.Generator().manual_seed(0)).to(device)
    seconds, memory = {"plain": [], "streamed": []}, {}
    for turn in range(repeats + 1):  # of the first turn, in which kernels are chosen, nothing counts
        for way, times in seconds.items():
            statistics = streaming.MapStatistics(layers, HEADS, n, device) if way == "streamed" else None
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            took = seconds_of(device, lambda s=statistics: read(model, ids.split(TOGETHER), s))
            if turn:
                times.append(took)
            memory[way] = peak_memory(device) / 1e6
    work = sequences * operations(layers, config.hidden_size, config.intermediate_size, n)
    rate, best = peak_rate(dtype, device, product), {way: min(times) for way, times in seconds.items()}
    return {
        **{f"{way}_seconds": s for way, s in best.items()},
        **{f"{way}_rate": sequences / s for way, s in best.items()},
        **{f"{way}_share": work / s / rate for way, s in best.items()},
        "time": best["streamed"] / best["plain"],
        "memory": memory["streamed"] - memory["plain"],
        "peak": rate,
    }


def distance_on(device: torch.device) -> float:
    """Return the largest difference of a layer's statistics, taken on the device, from those of float64 maps."""
    query, key, value = draw_layer()
    maps = (query.double() @ key.double().transpose(-1, -2) / CHANNEL**0.5).softmax(-1)
    statistics = streaming.MapStatistics(1, HEADS, N, device)
    statistics.attend(0, *(part.to(device) for part in (query, key, value)), scale=CHANNEL**-0.5)
    statistics.state = {name: total.cpu() for name, total in statistics.state.items()}
    return distance(statistics, vectorised(maps))


def measure_gpu(device: torch.device) -> Result:
    """Time, memory and exactness of statistics taken while a BERT BASE shape runs on a GPU.

    Measure in single and in half precision; both ways compute in it but for the maps, which are single.
    """
    units = {"seconds": "s", "rate": "sequences per second", "memory": "MB", "peak": "operations per second"}
    values = {
        f"{name}_{key}": Value(
            float(f"{value:.6g}"), ANYTHING if key != "peak" else 1e18, unit=units.get(key.rpartition("_")[2], "")
        )
        for name, dtype in DTYPES.items()
        for key, value in measure_on(dtype, device).items()
    }
    return Result(
        {**values, "error": Value(distance_on(device), 1e-6), "sequences": Value(SEQUENCES), "batch": Value(TOGETHER)}
    )


EXPERIMENTS = {
    "streaming-capture-cost": Experiment(measure_cpu, minutes=3, seed=0),
    "streaming-capture-gpu-cost": Experiment(measure_gpu, minutes=1, seed=0, needs_gpu=True),
}
