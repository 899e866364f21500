"""Does the query bias make the columns? A model's maps with its own ``b_Q``, with none, and with another of its length.

Layer by layer on the inputs of the unchanged model, so that only the terms of the score that hold ``b_Q`` differ. What
the layers above make of the change is not in these maps.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from analysis.maps import gates, streaming
from analysis.models import attention_hooks
from analysis.models.reading import load

DIRECTIONAL = gates.GATES.index("directional")
WAYS = ("own", "none", "random")
"""Which ``b_Q``: the model's, zero, or a random direction of the same length in every head."""
CONTROL_WAYS = ("own", "lent")
"""In the control, whose own is zero: that, or the trained model's."""


class Exchange:
    """Attention that also reads its maps as they would be with other query biases; its output stays the model's.

    Parameters
    ----------
    own
        The biases of the model, ``(head, channel)`` by layer.
    others
        What to put in their place, by name; ``found`` gets ``(way, layer, head, gate)``.
    """

    def __init__(self, own: Sequence[Tensor], others: Mapping[str, Sequence[Tensor]]):
        """Start with nothing read."""
        self.own, self.others = own, others
        self.found = torch.zeros(len(others), len(own), len(own[0]), len(gates.GATES), dtype=torch.float64)

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend as the model does, and read the maps each bias would have made."""
        for way, biases in enumerate(self.others.values()):
            exchanged = query[0] + (biases[layer] - self.own[layer])[:, None]
            scores = torch.einsum("hqc,hkc->hqk", exchanged, key[0]) * scale
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf)
            self.found[way, layer] = gates.read_gates(scores.softmax(-1), causal=causal).scores.cpu()
        attend = streaming.visit_maps(lambda *_: None)
        return attend(layer, query, key, value, scale=scale, causal=causal, lengths=lengths)


def exchange(
    model: torch.nn.Module, tokenizer, passages: Sequence[str], others: Mapping[str, Sequence[Tensor]]
) -> np.ndarray:
    """Read all maps of the passages under each query bias: ``(text, way, layer, head, gate)``."""
    found = []
    for text in passages:
        inputs = tokenizer(
            text, truncation=True, max_length=model.config.max_position_embeddings, return_tensors="pt"
        ).to(model.device)
        attention = Exchange([layer.b_Q for layer in load(model).layers], others)
        with torch.no_grad(), attention_hooks.with_attention(model, attention):
            model(**inputs)
        found.append(attention.found)
    return torch.stack(found).numpy()


def draw_as_long(biases: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Draw biases in random directions, head by head as long as the given ones.

    >>> drawn, = draw_as_long([torch.tensor([[3.0, 4.0], [0.0, 1.0]])], 0)
    >>> drawn.norm(dim=-1)
    tensor([5., 1.])
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(b.shape, generator=generator).to(b) for b in biases]
    return [
        torch.nn.functional.normalize(d, dim=-1) * b.norm(dim=-1, keepdim=True)
        for b, d in zip(biases, drawn, strict=True)
    ]


def survey(
    model: torch.nn.Module, control: torch.nn.Module, tokenizer, passages: Sequence[str], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Exchange the biases of a model, and lend them to its control: two arrays ``(text, way, layer, head, gate)``."""
    own = [layer.b_Q for layer in load(model).layers]
    biases = {"own": own, "none": [0 * b for b in own], "random": draw_as_long(own, seed)}
    lent = {"own": [layer.b_Q for layer in load(control).layers], "lent": own}
    return exchange(model, tokenizer, passages, biases), exchange(control, tokenizer, passages, lent)


def columns(trained: np.ndarray, lent: np.ndarray, mostly: float) -> dict[str, np.ndarray]:
    """Return shares of columns by text: of all maps, of those with at least ``mostly`` at first, and of the control."""
    own, borrowed = trained[..., DIRECTIONAL], lent[..., DIRECTIONAL]
    chosen = own[:, 0] >= mostly
    found = {}
    for i, way in enumerate(WAYS):
        found[f"columns_{way}"] = own[:, i].mean((1, 2))
        found[f"mostly_{way}"] = np.array([c[m].mean() for c, m in zip(own[:, i], chosen, strict=True) if m.any()])
    return found | {f"control_{way}": borrowed[:, i].mean((1, 2)) for i, way in enumerate(CONTROL_WAYS)}
