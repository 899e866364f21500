"""What streaming statistics cost on a GPU: a BERT BASE shape reads 1,024 sequences of 512 tokens.

Both ways take turns, and of each the quickest turn counts. What either reaches is held to what the same GPU reaches, in
the same precision and the same run, on products of large matrices: that is its peak here, not a data sheet's.
Seconds differ from GPU to GPU, so their tolerance holds anything; the exactness does not.
"""

import time
from collections.abc import Callable, Iterator

import torch

from analysis.core.device import peak_memory
from analysis.maps import streaming
from analysis.models import attention_hooks
from book.lab import stored_maps
from book.publish.records import Experiment, Result, Value

SEQUENCES, BATCH, REPEATS = 1024, 32, 3
PRODUCT = 8192
ANYTHING = 1e9
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


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


def measure(
    dtype: torch.dtype,
    device: torch.device,
    *,
    sequences: int = SEQUENCES,
    layers: int = stored_maps.LAYERS,
    repeats: int = REPEATS,
    product: int = PRODUCT,
) -> dict[str, float]:
    """Measure both ways in one precision: seconds, sequences per second, share of the peak, and memory in MB."""
    model, _ = stored_maps.base(layers)
    model = model.to(device, dtype)
    config, n = model.config, stored_maps.N
    ids = torch.randint(1000, 20000, (sequences, n), generator=torch.Generator().manual_seed(0)).to(device)
    seconds, memory = {"plain": [], "streamed": []}, {}
    for turn in range(repeats + 1):  # of the first turn, in which kernels are chosen, nothing counts
        for way, times in seconds.items():
            statistics = streaming.MapStatistics(layers, stored_maps.HEADS, n, device) if way == "streamed" else None
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            took = seconds_of(device, lambda s=statistics: read(model, ids.split(BATCH), s))
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


def distance(device: torch.device) -> float:
    """Return the largest difference of a layer's statistics, taken on the device, from those of float64 maps."""
    generator = torch.Generator().manual_seed(0)
    shape = stored_maps.BATCH, stored_maps.HEADS, stored_maps.N, stored_maps.CHANNEL
    query, key, value = (torch.randn(shape, generator=generator) for _ in range(3))
    maps = (query.double() @ key.double().transpose(-1, -2) / stored_maps.CHANNEL**0.5).softmax(-1)
    statistics = streaming.MapStatistics(1, stored_maps.HEADS, stored_maps.N, device)
    statistics.attend(0, *(part.to(device) for part in (query, key, value)), scale=stored_maps.CHANNEL**-0.5)
    statistics.state = {name: total.cpu() for name, total in statistics.state.items()}
    return stored_maps.distance(statistics, stored_maps.vectorised(maps))


def compute(device: torch.device) -> Result:
    """Measure in single and in half precision; both ways compute in it but for the maps, which are single."""
    units = {"seconds": "s", "rate": "sequences per second", "memory": "MB", "peak": "operations per second"}
    values = {
        f"{name}_{key}": Value(
            float(f"{value:.6g}"), ANYTHING if key != "peak" else 1e18, unit=units.get(key.rpartition("_")[2], "")
        )
        for name, dtype in DTYPES.items()
        for key, value in measure(dtype, device).items()
    }
    return Result(
        {**values, "error": Value(distance(device), 1e-6), "sequences": Value(SEQUENCES), "batch": Value(BATCH)}
    )


EXPERIMENT = Experiment(
    "Time, memory and exactness of statistics taken while a BERT BASE shape runs on a GPU",
    compute,
    minutes=1,
    seed=0,
    needs_gpu=True,
)
