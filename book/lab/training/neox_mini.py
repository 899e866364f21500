"""Train ``neox-mini``: GPT-NeoX's architecture (Pythia's) at gpt2-mini's size, on gpt2-mini's text and by its recipe.

Rotary positions in place of learned ones, attention and MLP in parallel, output tied to the token table; 2 layers,
8 heads of 16 coordinates, width 128, context 128. The projections' biases start at 0, so that what they come to do has
to be learned. Four variants differ in one thing each:

* ``neox-mini`` turns all coordinates of every head;
* ``neox-mini-partial`` turns a quarter of them, as Pythia does;
* ``neox-mini-unbiased`` turns all of them and has no bias anywhere: none in attention, and those of the MLP and of the
  LayerNorms are held at 0, so that a LayerNorm cannot bring one back;
* ``neox-mini-sequential`` has the MLP after attention, as Llama and Qwen do, and is ``neox-mini`` else.

``neox-medium`` and ``neox-medium-sequential`` are the first and the last at 6 layers and width 512, for a GPU.

The folder is gpt2-mini's (:mod:`book.lab.training.gpt2_mini`), and so is the format of its trace. ``python -m book
train`` adds to it what :func:`book.lab.rotary_probe.make_probe` measures.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from book.lab.training import gpt2_mini
from book.lab.training.gpt2_mini import CONTEXT, HEADS, LAYERS, VOCABULARY, WIDTH

BASE = 10_000.0
STEPS = 1500
"""Half of gpt2-mini's, as its cosine comes down twice as fast: a dozen models were to be trained."""


@dataclass(frozen=True)
class Variant:
    """What tells the models of this module apart."""

    name: str  # as ``python -m book train`` takes it
    rotary: float = 1.0  # the share of each head's coordinates that are turned
    biases: bool = True
    parallel: bool = True  # attention and MLP read the same stream; else the MLP reads what attention has added to
    layers: int = LAYERS
    width: int = WIDTH  # a head has as many times the coordinates as the model is wider
    rate: float | None = None  # at its height, if not gpt2-mini's


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("neox-mini"),
        Variant("neox-mini-partial", rotary=0.25),
        Variant("neox-mini-unbiased", biases=False),
        Variant("neox-mini-sequential", parallel=False),
    )
}
MEDIUM = {
    variant.name: variant
    for variant in (
        Variant("neox-medium", layers=6, width=512, rate=1e-3),
        Variant("neox-medium-sequential", parallel=False, layers=6, width=512, rate=1e-3),
    )
}


def make_model(variant: Variant, vocabulary: int = VOCABULARY, seed: int = 0) -> nn.Module:
    """Make the untrained model: a ``GPTNeoXForCausalLM`` with its own initialisation, and no dropout.

    >>> model = make_model(VARIANTS["neox-mini-unbiased"], vocabulary=16)
    >>> any(p.requires_grad for name,
    ...     p in model.named_parameters() if name.endswith("bias"))
    False
    """
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    rotary = {"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": variant.rotary}
    config = GPTNeoXConfig(
        num_hidden_layers=variant.layers,
        num_attention_heads=HEADS,
        hidden_size=variant.width,
        intermediate_size=4 * variant.width,
        max_position_embeddings=CONTEXT,
        vocab_size=vocabulary,
        rope_parameters=rotary,
        attention_bias=variant.biases,
        use_parallel_residual=variant.parallel,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = GPTNeoXForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") and not variant.biases:
            parameter.requires_grad_(False)
    return model


def train(out: str | Path, name: str = "neox-mini", *, steps: int = STEPS, **options: Any) -> dict:
    """Train one of :data:`VARIANTS` or :data:`MEDIUM` and return its card; ``options`` are as in `gpt2_mini.train`."""
    variant = (VARIANTS | MEDIUM)[name]
    architecture = gpt2_mini.Architecture(name, partial(make_model, variant), _describe(variant), variant.rate)
    return gpt2_mini.train(out, steps, architecture=architecture, **options)


def _describe(variant: Variant) -> str:
    turned = "all coordinates" if variant.rotary == 1 else f"{variant.rotary:.0%} of the coordinates"
    biases = "biases" if variant.biases else "no biases anywhere"
    order = "stand side by side" if variant.parallel else "follow each other"
    return (
        f"GPT-NeoX's architecture at a small size, trained from scratch for *Attention, Taken Apart*: rotary "
        f"positions on {turned} of each head,\n{biases}, LayerNorm before attention and MLP, which {order}, "
        f"output tied to the token table; {variant.layers} layers,\n8 heads, width {variant.width}, context 128"
    )
