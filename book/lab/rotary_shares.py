"""What the four parts of a score with rotary positions explain of a language model's attention, head by head."""

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

PARTS = ("content", "semi_bias", "query_side", "kernel")
REST = "rest"
"""What the coordinates of the key bias add that nothing turns: the same for every key, so its share must be 0."""
SHARE_WINDOWS, SHARE_TOKENS = 8, 64


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


def mean_shares(shares: Float[np.ndarray, "*run layer head part"]) -> Float[np.ndarray, "*run layer 4"]:
    """Return what each of the four parts explains of the divergence of a layer's heads together.

    >>> mean_shares(np.ones((1, 2, 2, 8, 5))).round(2).tolist()[0][0][0]
    [0.25, 0.25, 0.25, 0.25]
    """
    by_layer = shares[..., : len(PARTS)].sum(-2)
    return by_layer / by_layer.sum(-1, keepdims=True)


def whole_shares(shares: Float[np.ndarray, "*model counted layer head part"]) -> Float[np.ndarray, "*model counted 4"]:
    """Return what each of the four parts explains of the divergence of all heads of a model together.

    >>> whole_shares(np.ones((2, 2, 8, 5))).round(2).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    share = shares[..., : len(PARTS)].sum((-3, -2))
    return share / share.sum(-1, keepdims=True)
