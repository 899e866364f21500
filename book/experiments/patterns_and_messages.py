"""Patterns and messages: GPT-2's twelve layers held to transformers' GPT2Attention, their spectra, and what forms cost.

Times differ from machine to machine, so their tolerance holds anything; counts are exact.
"""

import time
from dataclasses import replace

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.decomposition import uniform
from analysis.matrices import rank, spectra
from analysis.models import checkpoints
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import Model, load
from analysis.transformer.layernorm import apply_norm
from book.lab.equality import gaps
from book.lab.ladder import measure_controls
from book.lab.mathematics import operation_counts
from book.publish.records import Experiment, Result, Value

POSITIONS = 64


def compare_layers(model: Model, device, positions: int = POSITIONS) -> dict[str, np.ndarray]:
    """Return the gap of each form to the module's output, by layer, in float64.

    Each layer reads ``LN(p + noise)``, where the noise is as spread as the positions.
    """
    p = model.positions[:positions].to(device)
    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    found = []
    for i, layer in enumerate(model.plain_layers()):
        norm = model.norm("attention", i).to(device)
        found.append(gaps("gpt2", layer.to(device), apply_norm(p + p.std() * noise, norm)[None]))
    return {form: np.array([of_layer[form] for of_layer in found]) for form in found[0]}


def compare_gpt2(device) -> Result:
    """Patterns, messages and folded values against GPT2Attention."""
    arrays = compare_layers(load(checkpoints.find("gpt2"), dtype=torch.float64), device)
    return Result(
        {"layers": Value(len(arrays["sum over heads"])), "positions": Value(POSITIONS)},
        arrays,
        {form: 1e-9 if array.max() < 1e-9 else 1e-6 for form, array in arrays.items()},
    )


def stack(layers, *names: str) -> list[torch.Tensor]:
    """Return parameters of several layers, stacked."""
    return [torch.stack([getattr(layer, name) for layer in layers]) for name in names]


def measure(layers, norms) -> dict[str, np.ndarray]:
    """Return singular values, ``(layer, head, channel)``, and the sizes of both parts of a pattern, ``(layer, head)``.

    ``constant`` and ``query_bias`` are root mean squares of scores over keys, with and without the LayerNorm's bias.
    """
    W_Q, W_K, W_V, W_O, b_Q, b_K = stack(layers, "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K")
    unbiased = [replace(norm, bias=0 * norm.bias) for norm in norms]
    sizes, raw = (
        [uniform.key_preference(layer, uniform.layer_norm_output(norm)) for layer, norm in zip(layers, of)]
        for of in (norms, unbiased)
    )
    found = {
        "pattern": spectra.product_singular_values(W_Q, W_K),
        "message": spectra.product_singular_values(W_V, W_O.mT),
        "augmented": spectra.product_singular_values(spectra.augment(W_Q, b_Q), spectra.augment(W_K, b_K)),
        "varying": torch.stack([size.content for size in sizes]),
        "constant": torch.stack([size.constant for size in sizes]),
        "query_bias": torch.stack([size.constant for size in raw]),
    }
    return {name: array.double().cpu().numpy() for name, array in found.items()}


def measure_ranks(layers) -> np.ndarray:
    """Return the effective ranks of patterns and of messages, ``(2, layer, head)``."""
    W_Q, W_K, W_V, W_O = stack(layers, "W_Q", "W_K", "W_V", "W_O")
    values = torch.stack([spectra.product_singular_values(*pair) for pair in ((W_Q, W_K), (W_V, W_O.mT))])
    return rank.effective_rank(values).cpu().numpy()


def measure_model(model: Model, device) -> dict[str, np.ndarray]:
    """Measure the trained layers, layers as training would draw them, and the effective ranks of the whole ladder."""

    def draw(seed: int) -> list:
        return [random_attention_layer(model, i, seed).to(device) for i in range(len(model.layers))]

    norms = [model.norm("attention", i).to(device) for i in range(len(model.layers))]
    plain = Norm(torch.ones(model.width), torch.zeros(model.width), norms[0].eps).to(device)
    layers = [layer.to(device) for layer in model.plain_layers()]
    control = measure(draw(0), [plain] * len(norms))
    ladder = measure_controls(make_controls(layers, draw), measure_ranks)  # (level, seed, 2, layer, head)
    arrays = measure(layers, norms) | {f"control_{name}": array for name, array in control.items()}
    arrays |= {"ladder_pattern_rank": ladder[:, :, 0], "ladder_message_rank": ladder[:, :, 1]}
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def survey_spectra(device) -> Result:
    """Spectra and sizes of the patterns and messages of GPT-2's 144 heads."""
    arrays = measure_model(load(checkpoints.find("gpt2")), device)
    return Result(
        {"heads": Value(arrays["varying"].size)},
        arrays,
        {name: 1e-5 * float(np.abs(array).max()) for name, array in arrays.items()},
    )


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


def time_gpt2(device) -> Result:
    """Seconds of the factored, merged and input-cached forms of one layer."""
    seconds, counts = time_forms(device, LENGTHS, **GPT2)
    return Result(
        {"threads": Value(torch.get_num_threads(), tolerance=ANYTHING)},
        {"lengths": np.array(LENGTHS), "seconds": seconds, "multiply_adds": counts},
        {"seconds": ANYTHING},
    )


EXPERIMENTS = {
    "patterns-and-messages-equality-gpt2": Experiment(compare_gpt2, models=("gpt2",), minutes=0.3, seed=0),
    "patterns-and-messages-spectra-gpt2": Experiment(survey_spectra, models=("gpt2",), minutes=0.1, seed=0),
    "patterns-and-messages-costs": Experiment(time_gpt2, minutes=0.6, seed=0),
}
