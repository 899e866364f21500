"""What a language model loses without a part of its scores, in all heads or in one, with rotary positions or without.

What belongs here: attention that lacks parts, the loss with it, and the attention to the previous position. What does
not: the parts' shares of the attention (:mod:`book.lab.rotary_shares`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.core.positions import Rotary
from analysis.decomposition.rotary_channels import split_channels
from analysis.models import attention_hooks
from analysis.transformer.attention import mask_future
from analysis.transformer.rotary import rotate

WAYS: Mapping[str, tuple[str, ...]] = {
    "whole": (),
    "no semi-bias": ("semi_bias",),
    "no query side": ("query_side",),
    "no kernel": ("kernel",),
    "no query bias": ("semi_bias", "kernel"),
    "no key bias": ("query_side", "kernel"),
    "content only": ("semi_bias", "query_side", "kernel"),
}
"""What is left out of every score, by the name of what remains or goes."""
COUNTED = ("bias", "mean")
"""What parts are counted from: the biases, or the mean query and the mean key."""
HEAD_WINDOWS = 16
Biases = Sequence[tuple[Float[Tensor, "head channel"], Float[Tensor, "head channel"]]]


@dataclass
class Scores:
    """Attention whose scores lack some parts, for `attention_hooks.with_attention`.

    ``previous`` holds, by layer, the attention to the previous position of each head in each way that is watched, from
    the same queries and keys, summed over rows that have a previous position; ``rows`` counts these.
    """

    biases: Biases  # by layer, what is constant in queries and keys before they are turned: biases, or the means
    rotary: Rotary | None  # ``None`` where they are not turned
    drop: Collection[str] = ()  # the parts to leave out
    head: tuple[int, int] | None = None  # ``(layer, head)`` of the only head to leave them out of
    instead: Sequence[Float[Tensor, "head query key"]] | None = None  # by layer, nats in the place of what is left out
    watch: Collection[str] = ()  # which of :data:`WAYS` to watch the attention to the previous position in
    previous: dict[int, Float[Tensor, "way head"]] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend."""
        whole = scale * query @ key.mT
        if self.watch:
            self._watch(layer, whole, self._parts(layer, query, key, scale))
        if self.drop and (self.head is None or self.head[0] == layer):
            parts = self._parts(layer, query, key, scale)
            less = sum(parts[name] for name in self.drop)
            if self.instead is not None:
                less = less - self.instead[layer].to(whole)
            if self.head is None:
                whole = whole - less
            else:
                chosen = torch.arange(whole.shape[1], device=whole.device) == self.head[1]
                whole = torch.where(chosen[:, None, None], whole - less, whole)
        return (mask_future(whole) if causal else whole).softmax(-1) @ value

    def _parts(self, layer: int, query: Tensor, key: Tensor, scale: float) -> dict[str, Tensor]:
        b_Q, b_K = (self._turn(bias.to(query), query.shape[-2]) for bias in self.biases[layer])
        bare_query, bare_key = query - b_Q, key - b_K
        return {
            "semi_bias": scale * b_Q @ bare_key.mT,
            "query_side": scale * bare_query @ b_K.mT,
            "kernel": (scale * b_Q @ b_K.mT)[None],
        }

    def _turn(self, bias: Tensor, positions: int) -> Tensor:
        rows = bias[:, None].expand(-1, positions, -1)
        return rows if self.rotary is None else rotate(rows, self.rotary)

    def _watch(self, layer: int, whole: Tensor, parts: Mapping[str, Tensor]) -> None:
        masses = []
        for drop in (WAYS[way] for way in self.watch):
            scores = whole - sum(parts[name] for name in drop) if drop else whole
            back = mask_future(scores).softmax(-1).diagonal(-1, -2, -1)
            masses.append(back.sum((0, -1)))
        self.previous[layer] = self.previous.get(layer, 0) + torch.stack(masses)
        self.rows[layer] = self.rows.get(layer, 0) + whole.shape[0] * (whole.shape[-1] - 1)

    def previous_attention(self) -> Float[Tensor, "way layer head"]:
        """Return the mean attention to the previous position of what was watched."""
        return torch.stack([self.previous[layer] / self.rows[layer] for layer in sorted(self.rows)], 1).cpu()


@torch.no_grad()
def evaluate(
    model: nn.Module,
    windows: Int[Tensor, "window position"],
    scores: Callable[..., Tensor] | None = None,
    *,
    batch: int = 16,
) -> tuple[float, float]:
    """Return the loss in nats per token and the share of tokens guessed right, with other attention where it is given.

    Windows hold one token more than the model reads.
    """
    loss = right = 0.0
    where = next(model.parameters()).device
    for part in windows.to(where).split(batch):
        if scores is None:
            logits = model(input_ids=part[:, :-1], use_cache=False).logits
        else:
            with attention_hooks.with_attention(model, scores):
                logits = model(input_ids=part[:, :-1], use_cache=False).logits
        loss += cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        right += (logits.argmax(-1) == part[:, 1:]).sum().item()
    tokens = windows[:, 1:].numel()
    return loss / tokens, right / tokens


def cut(ids: Int[Tensor, " token"], length: int) -> Int[Tensor, "window position"]:
    """Cut a text into windows of ``length + 1`` tokens that overlap by one; what is left at the end goes."""
    return ids.unfold(0, length + 1, length)


def choose_windows(windows: Tensor) -> Tensor:
    """Return :data:`HEAD_WINDOWS` of the held-out windows, spread evenly, for what is measured head by head."""
    return windows[:: len(windows) // HEAD_WINDOWS]


def biases_of(trace: Mapping[str, np.ndarray]) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """Return query and key vector of every layer at the end of a trace, by what parts are counted from."""
    return {
        kind: [
            (torch.from_numpy(query), torch.from_numpy(key))
            for query, key in zip(trace[f"query_{kind}"][-1], trace[f"key_{kind}"][-1], strict=True)
        ]
        for kind in COUNTED
    }


@torch.no_grad()
def mean_query_and_key(model: nn.Module, windows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the mean query and key of each head and layer over all positions; they are not turned."""
    sums: dict[int, list[Tensor]] = {}

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        sums.setdefault(layer, []).append(torch.stack([query.sum((0, 2)), key.sum((0, 2))]))
        return (mask_future(scale * query @ key.mT)).softmax(-1) @ value

    evaluate(model, windows, attend)
    return [tuple(sum(of_layer) / windows[:, 1:].numel()) for _, of_layer in sorted(sums.items())]


def lose_parts(model: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary | None) -> list[float]:
    """Return the loss without the parts of each of :data:`WAYS`, in all heads."""
    return [evaluate(model, windows, Scores(biases, rotary, drop))[0] for drop in WAYS.values()]


def lose_heads(model: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary | None) -> dict[str, np.ndarray]:
    """Leave out the kernel of one head after another.

    Returns
    -------
    dict
        ``by_head (layer, head)``: the rise of the loss; ``previous (way, layer, head)``: the attention to the previous
        position in each of :data:`WAYS`, from the model's own queries and keys; ``previous_after (layer, head, layer,
        head)``: that attention in the whole model when the kernel of the first head is left out, for heads of later
        layers; what a head's own is then is in ``previous``.
    """
    watched = Scores(biases, rotary, watch=tuple(WAYS))
    whole = evaluate(model, windows, watched)[0]
    shape = len(biases), len(biases[0][0])
    rises, after = np.zeros(shape), np.zeros((*shape, *shape))
    for head in np.ndindex(rises.shape):
        scores = Scores(biases, rotary, ("kernel",), head, watch=("whole",))
        rises[head] = evaluate(model, windows, scores)[0] - whole
        after[head] = scores.previous_attention()[0].numpy()
    return {"by_head": rises, "previous": watched.previous_attention().numpy(), "previous_after": after}


def lose_pieces(model: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary) -> list[float]:
    """Return the loss without those coordinates of the key vector that are turned, and without the others."""
    losses = []
    for piece in range(2):
        own = [(query, split_channels(key.to(rotary.frequencies), rotary)[piece]) for query, key in biases]
        losses.append(evaluate(model, windows, Scores(own, rotary, WAYS["no key bias"]))[0])
    return losses
