"""GPT-2's 144 heads: spectra of W_Q W_K^T, W_V W_O and the product with biases; constant against varying pattern."""

from dataclasses import replace

import numpy as np
import torch

from analysis.core.attention_layer import Norm
from analysis.decomposition import uniform
from analysis.matrices import rank, spectra
from analysis.models import checkpoints
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import Model, load
from book.lab.ladder import measure_controls
from book.publish.records import Experiment, Result, Value


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


def compute(device) -> Result:
    """Measure GPT-2."""
    arrays = measure_model(load(checkpoints.find("gpt2")), device)
    return Result(
        {"heads": Value(arrays["varying"].size)},
        arrays,
        {name: 1e-5 * float(np.abs(array).max()) for name, array in arrays.items()},
    )


EXPERIMENT = Experiment(
    "Spectra and sizes of the patterns and messages of GPT-2's 144 heads",
    compute,
    models=("gpt2",),
    minutes=0.1,
    seed=0,
)
