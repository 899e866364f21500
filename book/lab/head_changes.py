"""What a model loses when one head at a time is changed: its queries, its query bias, or its map.

A change of a head is run beside all others of its layer, each in its own copy of the text.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from analysis.data.texts import passages
from analysis.models import attention_hooks, checkpoints, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import mask_future
from book.lab.score_survey import read_texts
from book.lab.training import gpt2_mini

WAYS = ("mean query", "no query bias", "constant map", "uniform")
WINDOWS = 24


class Observe:
    """Attention as it is, which keeps each layer's queries and maps."""

    def __init__(self):
        """Start with nothing seen."""
        self.queries: dict[int, Tensor] = {}
        self.maps: dict[int, Tensor] = {}

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend, and keep what was seen."""
        self.queries[layer], self.maps[layer] = query, weights(query, key, scale, causal)
        return self.maps[layer] @ value


class Change:
    """Attention in which copy ``way * heads + h`` of a text has head ``h`` of one layer changed; the last is left."""

    def __init__(
        self,
        layer: int,
        query: Float[Tensor, "head channel"],
        bias: Float[Tensor, "head channel"],
        constant: Float[Tensor, "head query key"],
    ):
        """Take the mean query, the query bias and the mean map of each head of the layer."""
        self.layer, self.query, self.bias, self.constant = layer, query, bias, constant

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend."""
        if layer != self.layer:
            return weights(query, key, scale, causal) @ value
        heads = torch.arange(query.shape[1], device=query.device)
        copies = [way * len(heads) + heads for way in range(len(WAYS))]
        query = query.clone()
        query[copies[0], heads] = self.query[:, None]
        query[copies[1], heads] -= self.bias[:, None]
        query[copies[3], heads] = 0
        maps = weights(query, key, scale, causal)
        maps[copies[2], heads] = self.constant
        return maps @ value


def weights(query: Tensor, key: Tensor, scale: float, causal: bool) -> Float[Tensor, "copy head query key"]:
    """Return attention weights."""
    scores = scale * query @ key.mT
    return (mask_future(scores) if causal else scores).softmax(-1)


def change_heads(checkpoint: checkpoints.Checkpoint, device: torch.device) -> Float[np.ndarray, "way layer head"]:
    """Return the mean over texts of what each change of each head does to a model: a gpt2-mini, or a BERT."""
    predicts = load(checkpoint).causal
    model = pretrained.load(checkpoint, task="lm" if predicts else "base", device=device)
    texts = (windows(checkpoint) if predicts else cut(read_texts(checkpoint))).to(device)
    biases = [layer.b_Q for layer in load(model).layers]
    queries, maps = observe(model, texts)
    by_layer = []
    for layer, bias in enumerate(biases):
        change = Change(layer, queries[layer], bias, maps[layer])
        by_layer.append(torch.stack([effects(model, text, change) for text in texts]).mean(0))
    return torch.stack(by_layer, 1).cpu().numpy()


def windows(checkpoint: checkpoints.Checkpoint) -> Int[Tensor, "text position"]:
    """Return windows of the book's passages, as long as gpt2-mini's context."""
    text = "\n\n".join(passages())
    return gpt2_mini.windows(gpt2_mini.encode(pretrained.tokenizer(checkpoint), text), WINDOWS)[:, :-1]


def cut(texts: Sequence[Int[Tensor, " position"]]) -> Int[Tensor, "text position"]:
    """Cut the texts to the length of the shortest, so that a map can be averaged over them."""
    length = min(map(len, texts))
    return torch.stack([text[:length] for text in texts])


@torch.no_grad()
def observe(model: torch.nn.Module, texts: Int[Tensor, "text position"]) -> tuple[list[Tensor], list[Tensor]]:
    """Return by layer the mean query and the mean map of each head, over all texts."""
    seen = Observe()
    with attention_hooks.with_attention(model, seen):
        model(texts)
    order = sorted(seen.queries)
    return [seen.queries[i].mean((0, 2)) for i in order], [seen.maps[i].mean(0) for i in order]


@torch.no_grad()
def effects(model: torch.nn.Module, text: Int[Tensor, " position"], change: Change) -> Float[Tensor, "way head"]:
    """Return what each change does to one text: the rise of the loss in nats, or ``1 - cos`` of the embedding."""
    heads = len(change.query)
    copies = text.expand(len(WAYS) * heads + 1, -1)
    with attention_hooks.with_attention(model, change):
        output = model(copies)
    if hasattr(output, "logits"):
        following = copies[:, 1:]
        losses = cross_entropy(output.logits[:, :-1].mT, following, reduction="none").mean(1)
        result = losses[:-1] - losses[-1]
    else:
        embeddings = output.last_hidden_state.double().mean(1)
        result = 1 - cosine_similarity(embeddings[:-1], embeddings[-1:])
    return result.reshape(len(WAYS), heads)
