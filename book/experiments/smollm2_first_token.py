"""Which first tokens does SmolLM2 turn into its one vector? Every token of the vocabulary stands first, once.

The first row of a text sees only itself, so its values depend on its token alone, and one text a token tries them all.
"""

import json

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity

from analysis.models import attention_hooks, pretrained
from book.experiments.rotary_smollm2 import MODEL
from book.lab.smollm2 import LENGTH, choose_texts
from book.publish.records import Experiment, Result, Value

FROM, BATCH, ELSEWHERE = 12, 512, 0.5
"""The layer from which on the vector is asked for; tokens that run together; the cosine under which one is named."""


def compute(device: torch.device) -> Result:
    """Compare the values of every first token with the mean of those that begin twelve texts."""
    words, network = pretrained.tokenizer(MODEL), pretrained.load(MODEL, task="lm", device=device)
    starts = torch.cat([choose_texts(words, LENGTH, first=first)[:, 0] for first in (0, 1)]).unique()
    least = try_all(network, starts.to(device)).cpu()
    named = [words.decode([token]) for token in (least < ELSEWHERE).nonzero()[:, 0].tolist()]
    values = {"starts": Value(len(starts)), "elsewhere": Value(json.dumps(named))}
    return Result(values, {"least": least.numpy().astype(np.float16)}, {"least": 5e-3})


def try_all(network, starts: Int[Tensor, " start"]) -> Float[Tensor, " token"]:
    """Return for each token of the vocabulary the least cosine of its values with the mean of some tokens' values."""
    mean = values_of(network, starts).mean(0)
    every = torch.arange(network.config.vocab_size, device=starts.device).split(BATCH)
    return torch.cat([least_cosine(values_of(network, tokens), mean) for tokens in every])


@torch.no_grad()
def values_of(network, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token layer head channel"]:
    """Return the values of texts of a single token, from :data:`FROM` on."""
    found = []

    def keep(layer, query, key, value, *, scale, causal=False, lengths=None):
        if layer >= FROM:
            found.append(value[:, :, 0])
        return value  # a row that sees only itself attends to itself

    with attention_hooks.with_attention(network, keep):
        network.base_model(tokens[:, None], use_cache=False)
    return torch.stack(found, 1)


def least_cosine(values: Float[Tensor, "token layer head channel"], mean: Tensor) -> Float[Tensor, " token"]:
    """Return each token's smallest cosine with the mean over layers and heads.

    >>> least_cosine(torch.tensor([[[[1.0, 0.0]], [[3.0, 4.0]]]]), torch.tensor([[[2.0, 0.0]], [[1.0, 0.0]]]))
    tensor([0.6000])
    """
    return cosine_similarity(values, mean, dim=-1).flatten(1).amin(1)


EXPERIMENT = Experiment(
    "Which first tokens SmolLM2 turns into its one vector: every token of the vocabulary",
    compute,
    models=(MODEL,),
    minutes=5,
    seed=0,
)
