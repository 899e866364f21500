"""How much of neox-mini's attention each of the four parts explains, counted from 0 and from the mean input."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from analysis.core.positions import Rotary
from analysis.decomposition.rotary_channels import split_channels
from analysis.maps.attribution import attribute_divergence
from analysis.models import attention_hooks
from analysis.transformer.attention import mask_future
from analysis.transformer.rotary import rotate
from book.publish import Numbers

PARTS = ("content", "semi_bias", "query_side", "kernel")
REST = "rest"
"""What the coordinates of the key bias add that nothing turns: the same for every key, so its share must be 0."""
COUNTED = ("bias", "mean")


@dataclass
class SplitRows:
    """Attention as it is, which adds up the shares of the parts by what they are counted from."""

    biases: Mapping[str, Sequence[tuple[Tensor, Tensor]]]
    rotary: Rotary
    shares: dict[tuple[str, int], Float[Tensor, "part head"]] = field(default_factory=dict)
    rows: int = 0
    gap: float = 0.0

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend, and count."""
        visible = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool, device=query.device).tril()
        for counted, biases in self.biases.items():
            parts = self._split(query.double(), key.double(), biases[layer], scale)
            split = attribute_divergence(parts, visible)
            self.gap = max(self.gap, split.gap)
            before = self.shares.get((counted, layer), 0)
            self.shares[counted, layer] = before + split.parts[..., 1:].sum((1, -1))  # row 0 sees one key
        if layer == 0:
            self.rows += query.shape[0] * (query.shape[-2] - 1)
        return mask_future(scale * query @ key.mT).softmax(-1) @ value

    def _split(self, query: Tensor, key: Tensor, biases: tuple[Tensor, Tensor], scale: float) -> Tensor:
        b_Q, b_K = (bias.to(query) for bias in biases)
        rest = split_channels(b_K, self.rotary)[1]
        turned = [rotate(bias[:, None].expand(-1, query.shape[-2], -1), self.rotary) for bias in (b_Q, b_K - rest)]
        bare_query, bare_key = query - turned[0], key - turned[1] - rest[:, None]
        kernel = (turned[0] @ turned[1].mT)[None].expand(*query.shape[:-1], -1)
        constant = (query @ rest[:, :, None]).expand(*query.shape[:-1], query.shape[-2])
        return scale * torch.stack(
            [bare_query @ bare_key.mT, turned[0] @ bare_key.mT, bare_query @ turned[1].mT, kernel, constant]
        )

    def means(self) -> Float[np.ndarray, "counted layer head part"]:
        """Return the mean share of each part per row in nats, the last part being :data:`REST`."""
        layers = range(1 + max(layer for _, layer in self.shares))
        return (
            torch.stack([torch.stack([self.shares[kind, i].mT / self.rows for i in layers]) for kind in self.biases])
            .cpu()
            .numpy()
        )


@dataclass(frozen=True)
class Shares(Numbers):
    """Mean shares of the parts in nats per row, by what they are counted from.

    The numbers are shares of the whole divergence, of both layers' heads together.
    """

    prefix = "rb"

    shares: Mapping[str, Float[np.ndarray, "layer head part"]]
    kernel_share_bias: float
    kernel_share_mean: float
    content_share_bias: float
    content_share_mean: float
    query_share_bias: float
    query_share_mean: float
    semi_share_bias: float
    semi_share_mean: float
    kernel_share_last: float  # with the mean input, in the last layer


@torch.no_grad()
def split_attention(
    model: nn.Module, rows: Iterable[Tensor], biases: Mapping[str, Sequence[tuple[Tensor, Tensor]]], rotary: Rotary
) -> SplitRows:
    """Run the model on each row of token ids and split the attention of every head."""
    split = SplitRows(biases, rotary)
    with attention_hooks.with_attention(model, split):
        for ids in rows:
            model(input_ids=ids[None].to(model.device), use_cache=False)
    return split


def biases_of(trace: Mapping[str, np.ndarray]) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """Return query and key vector of every layer at the end of a trace, by what parts are counted from."""
    return {
        kind: [
            (torch.from_numpy(query), torch.from_numpy(key))
            for query, key in zip(trace[f"query_{kind}"][-1], trace[f"key_{kind}"][-1], strict=True)
        ]
        for kind in COUNTED
    }


def measure_shares(
    model: nn.Module,
    tokenizer,
    texts: Sequence[str],
    trace: Mapping[str, np.ndarray],
    *,
    rotary: Rotary,
    tokens: int = 48,
) -> Shares:
    """Split the attention of every head on the texts, cut after so many tokens."""
    texts_ids = [tokenizer(text, truncation=True, max_length=tokens)["input_ids"] for text in texts]
    split = split_attention(model, map(torch.tensor, texts_ids), biases_of(trace), rotary)
    shares = dict(zip(COUNTED, split.means()[..., : len(PARTS)], strict=True))
    whole = {kind: values.sum((0, 1)) / values.sum() for kind, values in shares.items()}
    last = shares["mean"][-1].sum(0)
    return Shares(
        shares,
        kernel_share_bias=float(whole["bias"][3]),
        kernel_share_mean=float(whole["mean"][3]),
        content_share_bias=float(whole["bias"][0]),
        content_share_mean=float(whole["mean"][0]),
        query_share_bias=float(whole["bias"][2]),
        query_share_mean=float(whole["mean"][2]),
        semi_share_bias=float(whole["bias"][1]),
        semi_share_mean=float(whole["mean"][1]),
        kernel_share_last=float(last[3] / last.sum()),
    )
