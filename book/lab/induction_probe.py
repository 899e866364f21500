"""A probe of an attention-only transformer that is being trained: its losses and the scores of its heads."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from analysis.transformer.attention_only import AttentionOnly, score_heads
from book.lab.training import attention_only


def plain(model: attention_only.Transformer) -> AttentionOnly:
    """Return the trained module as plain tensors, for the mathematics."""
    return AttentionOnly(
        model.tokens.detach(),
        model.positions.detach(),
        [layer.weights() for layer in model.layers],
        model.unembed.detach(),
    )


def split_loss(
    model: torch.nn.Module, tokens: Int[Tensor, "batch position"], repeated: Tensor, kept: Tensor | None = None
) -> tuple[float, float]:
    """Return the mean loss on new tokens and on repeated ones, in nats."""
    with torch.no_grad():
        each = attention_only.losses(model, tokens, kept)
    return each[~repeated].mean().item(), each[repeated].mean().item()


def make_probe(config: attention_only.Config) -> Callable[[int, torch.nn.Module], dict]:
    """Return what to look at along the way: losses and head scores on held-out sequences."""
    tokens, repeated = attention_only.held_out(config)

    def look(step: int, model: torch.nn.Module) -> dict:
        where = model.tokens.device
        new, known = split_loss(model, tokens.to(where), repeated.to(where))
        scores = score_heads(plain(model), tokens.to(where))
        return {
            "new": new,
            "repeated": known,
            **{name: getattr(scores, name).cpu().numpy() for name in ("previous", "prefix", "copying")},
        }

    return look
