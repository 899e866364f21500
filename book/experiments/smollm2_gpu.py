"""SmolLM2 on a GPU in single and in half precision: what its heads do on 200 texts, and what counting it costs.

A text is a window of the bundled passages; neighbours overlap. Seconds differ from GPU to GPU, so their tolerance holds
anything.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from analysis.data.texts import passages
from analysis.maps.streaming import MapStatistics
from analysis.models import attention_hooks, pretrained
from book.experiments.rotary_smollm2 import MODEL
from book.experiments.streaming_capture import ANYTHING, DTYPES, seconds_of
from book.lab.smollm2 import lose
from book.publish.records import Experiment, Result, Value

TEXTS, LENGTH, BATCH, REPEATS = 200, 256, 20, 3


def choose_texts(words, texts: int, length: int) -> Int[Tensor, "text position"]:
    """Return windows of the passages, evenly spread over all of them."""
    ids = torch.tensor(words("\n\n".join(passages())).input_ids)
    starts = torch.linspace(0, len(ids) - length, texts).long()
    return ids[starts[:, None] + torch.arange(length)]


@torch.no_grad()
def run(network, ids: Tensor, statistics: MapStatistics | None = None) -> float:
    """Let the network read all texts, counting where there are statistics; return its loss in nats per token."""
    attend, losses = statistics.attend if statistics else None, []
    with attention_hooks.with_attention(network, attend):
        for some in ids.split(BATCH):
            losses.append(lose(network, network.base_model(some, use_cache=False).last_hidden_state, some).float())
    return float(torch.cat(losses).mean())


def measure(
    dtype: torch.dtype, device: torch.device, texts: int = TEXTS, length: int = LENGTH
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Measure in one precision: seconds of a plain and of a counted pass, losses, and what every head does."""
    words, network = pretrained.tokenizer(MODEL), pretrained.load(MODEL, task="lm", device=device, dtype=dtype)
    ids, config = choose_texts(words, texts, length).to(device), network.config
    seconds, losses = {"plain": [], "counted": []}, {}
    counts = MapStatistics(config.num_hidden_layers, config.num_attention_heads, length, device)
    for turn in range(REPEATS + 1):  # of the first turn, in which kernels are chosen, nothing counts
        for way, took in seconds.items():
            statistics = counts if way == "counted" else None
            one = seconds_of(device, lambda s=statistics, w=way: losses.update({w: run(network, ids, s)}))
            if turn:
                took.append(one)
    heads = {
        "entropy": counts.entropy(),
        "sink": counts.column_mass()[..., 0] / length,
        "previous": counts.diagonal_profile()[..., length - 2],
    }
    best = {way: min(times) for way, times in seconds.items()}
    found = {f"{way}_seconds": value for way, value in best.items()} | {
        f"{way}_loss": value for way, value in losses.items()
    }
    return found | {"time": best["counted"] / best["plain"]}, {name: of.cpu() for name, of in heads.items()}


def compute(device: torch.device, texts: int = TEXTS, length: int = LENGTH) -> Result:
    """SmolLM2's heads on 200 texts in single and in half precision on a GPU, and what counting them costs.

    Measure in both precisions, and how far the heads of one are from those of the other.
    """
    values, arrays = {"texts": Value(texts), "length": Value(length)}, {}
    for kind, dtype in DTYPES.items():
        found, heads = measure(dtype, device, texts, length)
        values |= {f"{kind}_{name}": Value(value, ANYTHING) for name, value in found.items()}
        arrays |= {f"{kind}_{name}": of.float().numpy() for name, of in heads.items()}
    single, half = DTYPES
    for name in ("entropy", "sink", "previous"):
        apart = abs(arrays[f"{half}_{name}"] - arrays[f"{single}_{name}"])
        values[f"{name}_mean_difference"] = Value(float(apart.mean()), 0.05)
        values[f"{name}_largest_difference"] = Value(float(apart.max()), 0.5)
    return Result(values, arrays, dict.fromkeys(arrays, 0.05))


EXPERIMENT = Experiment(compute, models=(MODEL,), minutes=1, seed=0, needs_gpu=True)
