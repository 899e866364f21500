"""What experiments on SmolLM2 share: texts of a length, and its layers run one by one with another attention."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from analysis.data.texts import passages
from analysis.models import attention_hooks
from analysis.transformer.attention import mask_future
from book.experiments.rotary_smollm2 import PROSE, take
from book.lab.documents import load_documents

LENGTH, LONG = 64, 256
LENGTHS = {16: 12, LENGTH: 6, LONG: 2}
"""Tokens of a text, and how many texts: prose of three kinds, and of the longest those of a manual."""


def choose_texts(words, length: int, first: int = 0) -> Int[Tensor, "text position"]:
    """Return texts of so many tokens, as many of each kind; others if another is the first."""
    texts = passages() if length == LONG else [each.text for each in load_documents(*PROSE)]
    ids = take(words, texts, length)
    return ids[first :: len(ids) // LENGTHS[length]][: LENGTHS[length]]


def attend(layer, query, key, value, *, scale, causal=False, lengths=None) -> Tensor:
    """Attend as the model does."""
    return mask_future(scale * query @ key.mT).softmax(-1) @ value


@torch.no_grad()
def run_from(network, x: Float[Tensor, "text position model"], start: int, attention) -> list[Tensor]:
    """Run the layers from one on with an attention; return what each reads, and the last state after its norm."""
    base, states = network.base_model, [x]
    places = torch.arange(x.shape[1], device=x.device)[None]
    turns = base.rotary_emb(x, places)
    with attention_hooks.with_attention(network, attention):
        for layer in base.layers[start:]:
            output = layer(states[-1], attention_mask=None, position_ids=places, position_embeddings=turns)
            states.append(output[0] if isinstance(output, tuple) else output)
    return [*states[:-1], base.norm(states[-1])]


@torch.no_grad()
def lose(network, last: Tensor, ids: Int[Tensor, "text position"]) -> Float[Tensor, " text"]:
    """Return the loss of each text, in nats per token."""
    return cross_entropy(network.lm_head(last[:, :-1]).mT, ids[:, 1:], reduction="none").mean(-1)
