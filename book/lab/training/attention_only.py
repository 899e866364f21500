"""A two-layer attention-only transformer, trained on repeated random tokens until an induction head forms.

Tokens and learned absolute positions are embedded, two layers of attention add to the stream, a matrix reads the next
token off it: no LayerNorm, no feed-forward, no biases, so that every circuit is a product of matrices. What belongs
here: the model, its batches and its loss. What is measured of it is given from above as a probe.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from analysis.core import device as devices
from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.files import read_json_object, write_atomically
from book.lab import models
from book.lab.training import loop

NAME = "induction"
BUNDLED = models.BUNDLED / NAME
WEIGHTS, CARD = "model.safetensors", "card.json"
STEPS, BATCH = 2000, 32
_HELD_OUT = 10**9  # seeds of held-out batches start here; training uses seed * 1,000,003 + step


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of its task; a sequence repeats a block of ``shortest`` to ``longest`` random tokens."""

    vocab: int = 64
    length: int = 64
    model: int = 192
    heads: int = 4
    layers: int = 2
    shortest: int = 8
    longest: int = 31

    def __post_init__(self):
        if not 1 <= self.shortest <= self.longest < self.length:
            raise ValueError(
                f"blocks must be 1 to {self.length - 1} tokens to repeat, "
                f"got shortest {self.shortest} and longest {self.longest}"
            )

    @property
    def channel(self) -> int:
        """Width of one head."""
        return self.model // self.heads


class Attention(nn.Module):
    """One layer of causal attention without biases; its parameters have the shapes of ``AttentionLayer``."""

    def __init__(self, config: Config, draw: torch.Generator):
        """Draw the initial weights."""
        super().__init__()
        into, out = (config.heads, config.model, config.channel), (config.heads, config.channel, config.model)
        for name in ("W_Q", "W_K", "W_V"):
            setattr(self, name, nn.Parameter(torch.randn(into, generator=draw) / config.model**0.5))
        self.W_O = nn.Parameter(torch.randn(out, generator=draw) / (2 * config.layers * config.model) ** 0.5)

    def forward(
        self, x: Float[Tensor, "batch position model"], kept: Float[Tensor, " head"] | None = None
    ) -> Float[Tensor, "batch position model"]:
        """Return what the layer adds, each head multiplied by ``kept`` (0 ablates it)."""
        q, k, v = (torch.einsum("bpm,hmc->bhpc", x, W) for W in (self.W_Q, self.W_K, self.W_V))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if kept is not None:
            heads = heads * kept[:, None, None]
        return torch.einsum("bhpc,hcm->bpm", heads, self.W_O)

    def weights(self) -> AttentionLayer:
        """Return the layer in the book's own form, with biases of zero."""
        W = [getattr(self, name).detach() for name in ("W_Q", "W_K", "W_V", "W_O")]
        zero = W[0].new_zeros(W[0].shape[0], W[0].shape[2])
        return AttentionLayer(*W, zero, zero, zero, W[0].new_zeros(W[0].shape[1]), mask=Mask(causal=True))


class Transformer(nn.Module):
    """Embeddings, attention layers, unembedding; ``seed`` draws the initial weights, which are also the control."""

    def __init__(self, config: Config, seed: int = 0):
        """Draw the initial weights."""
        super().__init__()
        self.config = config
        draw = torch.Generator().manual_seed(seed)
        self.tokens = nn.Parameter(torch.randn(config.vocab, config.model, generator=draw) * 0.1)
        self.positions = nn.Parameter(torch.randn(config.length, config.model, generator=draw) * 0.1)
        self.layers = nn.ModuleList(Attention(config, draw) for _ in range(config.layers))
        self.unembed = nn.Parameter(torch.randn(config.model, config.vocab, generator=draw) / config.model**0.5)

    def forward(
        self, tokens: Int[Tensor, "batch position"], kept: Float[Tensor, "layer head"] | None = None
    ) -> Float[Tensor, "batch position vocab"]:
        """Return the logits of the next token at every position; ``kept`` is 0 for an ablated head, else 1."""
        x = self.tokens[tokens] + self.positions[: tokens.shape[1]]
        for number, layer in enumerate(self.layers):
            x = x + layer(x, None if kept is None else kept[number])
        return x @ self.unembed


def draw_batch(config: Config, size: int, seed: int) -> tuple[Int[Tensor, "batch position"], Tensor]:
    """Draw sequences that repeat a block of random tokens, each with its own period.

    Returns
    -------
    tuple
        The tokens, and ``(batch, position - 1)`` True where the next token can be known from one period ago.
    """
    draw = torch.Generator().manual_seed(seed)
    period = torch.randint(config.shortest, config.longest + 1, (size, 1), generator=draw)
    block = torch.randint(config.vocab, (size, config.longest), generator=draw)
    place = torch.arange(config.length)[None]
    return block.gather(1, place % period), place[:, 1:] >= period


def losses(
    model: nn.Module, tokens: Int[Tensor, "batch position"], kept: Tensor | None = None
) -> Float[Tensor, "batch next"]:
    """Return the cross-entropy of every next token, in nats."""
    logits = model(tokens[:, :-1], kept)
    return functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")


def settings(steps: int = STEPS, seed: int = 0) -> loop.Settings:
    """Return how the model is trained; the decay keeps a few heads busy and the rest near zero."""
    return loop.Settings(steps=steps, rate=2e-3, warmup=min(50, steps // 4), final=0.05, decay=0.3, seed=seed)


def looks(steps: int = STEPS) -> list[int]:
    """Return the steps to probe at: every 25 while the head forms (up to 600), then every 100.

    >>> looks(100)
    [0, 25, 50, 75, 100]
    """
    return sorted({*range(0, min(steps, 600), 25), *range(600, steps, 100), steps})


def held_out(config: Config, size: int = 64) -> tuple[Int[Tensor, "batch position"], Tensor]:
    """Return sequences that no training step draws, and where their next token is a repeat."""
    return draw_batch(config, size, _HELD_OUT)


def train(
    out: str | Path,
    steps: int = STEPS,
    seed: int = 0,
    device: str | None = None,
    probe: Callable[[int, nn.Module], Mapping[str, Any]] | None = None,
    *,
    resume: bool = True,
    config: Config | None = None,
    name: str | None = NAME,
) -> tuple[Transformer, loop.Run]:
    """Train the model; write ``model.safetensors`` and ``card.json`` into ``out`` (the state lies in ``out/state``).

    ``device`` is a name that :func:`analysis.core.device.choose` takes; the probe is called at :func:`looks`.
    """
    from safetensors.torch import save

    config, out = config or Config(), Path(out)
    model = Transformer(config, seed)
    run = loop.train(
        model,
        lambda step: draw_batch(config, BATCH, seed * 1_000_003 + step)[0],
        lambda model, tokens: losses(model, tokens).mean(),
        settings(steps, seed),
        out / "state",
        probe=probe,
        probe_at=looks(steps),
        device=devices.choose(device),
        identity={"config": asdict(config), "seed": seed},
        resume=resume,
        name=name,
    )
    model.to("cpu").eval()
    content = save({key: value.contiguous() for key, value in model.state_dict().items()})
    card = {
        "what": "attention-only transformer trained on repeated random tokens",
        "config": asdict(config),
        "seed": seed,
        "steps": steps,
        "batch": BATCH,
        "seconds": round(run.seconds, 1),
        "parameters": sum(p.numel() for p in model.parameters()),
        "licence": "MIT",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    write_atomically(out / WEIGHTS, content)
    write_atomically(out / CARD, json.dumps(card, indent=1) + "\n")
    return model, run


def load(folder: str | Path | None = None) -> tuple[Transformer, dict]:
    """Load a trained model and its card: from the folder, else ``ANALYSIS_FOLDER_INDUCTION``, else the bundled one."""
    from safetensors.torch import load as read

    folder = Path(folder or os.environ.get("ANALYSIS_FOLDER_INDUCTION") or BUNDLED)
    for file in (WEIGHTS, CARD):
        if not (folder / file).is_file():
            raise FileNotFoundError(f"{folder} holds no {file}: run python -m book train {NAME}")
    card, content = read_json_object(folder / CARD), (folder / WEIGHTS).read_bytes()
    if absent := {"sha256", "config", "seed"} - card.keys():
        raise ValueError(f"{folder / CARD} is no card of a trained model: it has no {min(absent)!r}")
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise ValueError(f"{folder / WEIGHTS} does not have the sha256 of its card: train or fetch it again")
    model = Transformer(Config(**card["config"]), card["seed"])
    model.load_state_dict(read(content))
    return model.eval(), card
