"""GPT-2's 144 heads: spectra of W_Q W_K^T, W_V W_O and the product with biases; constant against varying pattern."""

from dataclasses import replace

import numpy as np
import torch

from analysis.core.attention_layer import Norm
from analysis.decomposition import uniform
from analysis.matrices import rank, spectra
from analysis.models import checkpoints
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from book.publish.records import Experiment, Result, Value
from book.studies.shared.ladder import measure_controls


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


def compute(device) -> Result:
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


EXPERIMENT = Experiment(
    "Spectra and sizes of the patterns and messages of GPT-2's 144 heads",
    compute,
    models=("gpt2",),
    minutes=0.1,
    seed=0,
)
