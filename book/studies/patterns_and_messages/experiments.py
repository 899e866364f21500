"""What is recorded: costs of three forms of one layer, and GPT-2's patterns and messages.

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
from analysis.models.reading import load
from analysis.transformer.layernorm import apply_norm
from book.lab.mathematics import operation_counts
from book.publish.records import Experiment, Result, Value
from book.studies.shared.equality import gaps
from book.studies.shared.ladder import measure_controls

# ---- Seconds that the three forms of a layer take on the machine that recorded them, beside their counted cost

MODEL, HEAD, CHANNEL = 768, 12, 64
LENGTHS = (16, 64, 256, 1024)
ANYTHING = 1e9


def compute_costs(device) -> Result:
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


# ---- Patterns, messages and folded values on GPT-2's twelve layers, held to transformers' GPT2Attention

POSITIONS = 64


def compute_equality(device) -> Result:
    """Read ``LN(p + noise)`` in every layer, ``noise`` as spread as the positions, in float64."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    p = model.positions[:POSITIONS].to(device)
    noise = torch.randn(p.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    found = []
    for i, layer in enumerate(model.plain_layers()):
        norm = model.norm("attention", i).to(device)
        x = apply_norm(p + p.std() * noise, norm)[None]
        found.append(gaps("gpt2", layer.to(device), x))
    arrays = {name: np.array([f[name] for f in found]) for name in found[0]}
    return Result(
        {"layers": Value(len(found)), "positions": Value(POSITIONS)},
        arrays,
        {name: 1e-9 if array.max() < 1e-9 else 1e-6 for name, array in arrays.items()},
    )


# ---- GPT-2's 144 heads: spectra of W_Q W_K^T, W_V W_O and the product with biases; constant against varying pattern


def measure(layers, norms) -> dict[str, np.ndarray]:
    """Return ``(layer, head, channel)`` singular values and ``(layer, head)`` sizes for a stack of layers."""
    W_Q, W_K, W_V, W_O, b_Q, b_K = (
        torch.stack([getattr(layer, name) for layer in layers]) for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K")
    )
    sizes = [uniform.key_preference(layer, uniform.layer_norm_output(norm)) for layer, norm in zip(layers, norms)]
    raw = [
        uniform.key_preference(layer, uniform.layer_norm_output(replace(norm, bias=0 * norm.bias)))
        for layer, norm in zip(layers, norms)
    ]
    return {
        name: array.double().cpu().numpy()
        for name, array in {
            "pattern": spectra.product_singular_values(W_Q, W_K),
            "message": spectra.product_singular_values(W_V, W_O.mT),
            "augmented": spectra.product_singular_values(spectra.augment(W_Q, b_Q), spectra.augment(W_K, b_K)),
            "varying": torch.stack([s.content for s in sizes]),
            "constant": torch.stack([s.constant for s in sizes]),
            "query_bias": torch.stack([s.constant for s in raw]),
        }.items()
    }


def compute_spectra(device) -> Result:
    """Measure the trained layers and, as the control, layers drawn as GPT-2 initialises them."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint)
    ids, norms = range(len(model.layers)), [model.norm("attention", i).to(device) for i in range(len(model.layers))]
    plain = Norm(torch.ones(model.width), torch.zeros(model.width), norms[0].eps)
    trained = measure([layer.to(device) for layer in model.plain_layers()], norms)
    drawn = [random_attention_layer(model, i).to(device) for i in ids]
    control = measure(drawn, [plain.to(device)] * len(drawn))
    arrays = {**trained, **{f"control_{name}": array for name, array in control.items()}, **ladder(checkpoint, device)}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    return Result(
        {"heads": Value(trained["varying"].size)},
        arrays,
        {name: 1e-5 * float(np.abs(array).max()) for name, array in arrays.items()},
    )


def ladder(checkpoint: checkpoints.Checkpoint, device) -> dict[str, np.ndarray]:
    """Return the effective ranks of the controls' patterns and messages, ``(rung, seed, layer, head)``."""
    model = load(checkpoint)

    def draw(seed):
        return [random_attention_layer(model, i, seed).to(device) for i in range(len(model.layers))]

    trained = [layer.to(device) for layer in model.plain_layers()]

    def ranks(network):
        W_Q, W_K, W_V, W_O = (
            torch.stack([getattr(layer, name) for layer in network]) for name in ("W_Q", "W_K", "W_V", "W_O")
        )
        values = torch.stack([spectra.product_singular_values(*pair) for pair in ((W_Q, W_K), (W_V, W_O.mT))])
        return rank.effective_rank(values).cpu().numpy()

    stacked = measure_controls(make_controls(trained, draw), ranks)
    return {"ladder_pattern_rank": stacked[:, :, 0], "ladder_message_rank": stacked[:, :, 1]}


EXPERIMENTS = {
    "costs": Experiment(
        "Seconds of the factored, merged and input-cached forms of one layer", compute_costs, minutes=0.6, seed=0
    ),
    "equality-gpt2": Experiment(
        "Patterns, messages and folded values against GPT2Attention",
        compute_equality,
        models=("gpt2",),
        minutes=0.3,
        seed=0,
    ),
    "spectra-gpt2": Experiment(
        "Spectra and sizes of the patterns and messages of GPT-2's 144 heads",
        compute_spectra,
        models=("gpt2",),
        minutes=0.1,
        seed=0,
    ),
}
