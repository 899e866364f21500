"""Induction in SmolLM2: random tokens repeated once, what its heads look at, and the loss with heads silenced."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from analysis.models import attention_hooks, pretrained
from analysis.transformer.attention import mask_future
from book.experiments.rotary_smollm2 import MODEL, choose, draw_heads
from book.publish.records import Experiment, Result

LENGTH, SEQUENCES = 32, 8
"""Tokens before they are repeated, and sequences of them."""
SPECIAL = 17
"""Tokens of SmolLM2 from the first on that stand for no text."""
SILENCED = 3
DRAWS = 4
"""Sets of as many other heads of the same layers."""


def compute(device: torch.device) -> Result:
    """Induction heads of SmolLM2 on random tokens that are repeated.

    Score all heads, and silence those of the highest induction scores and as many others.
    """
    network = pretrained.load(MODEL, task="lm", device=device)
    ids = repeat(network.config.vocab_size).to(device)
    arrays = measure(network, ids)
    single = {name: of if of.dtype.kind == "i" else of.astype(np.float32) for name, of in arrays.items()}
    return Result({}, single, {name: 5e-3 for name, of in arrays.items() if of.dtype.kind == "f"})


def repeat(vocab: int, seed: int = 0) -> Int[Tensor, "sequence position"]:
    """Return random tokens, each sequence of them twice."""
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(SPECIAL, vocab, (SEQUENCES, LENGTH), generator=generator)
    return torch.cat([once, once], 1)


@torch.no_grad()
def measure(network, ids: Tensor) -> dict[str, np.ndarray]:
    """Return what the heads look at in the second half, and the loss of every position.

    Returns
    -------
    dict
        ``induction (layer, head)``, the attention to the token after the earlier one; ``previous`` that to the word
        before; ``best``, the heads of the highest induction scores; ``loss (way, position)`` in nats: as it is, with
        these heads silent, and with as many others of the same layers, one row a draw.
    """
    half, found = ids.shape[1] // 2, {}

    def watch(layer, query, key, value, *, scale, causal=False, lengths=None):
        weights = mask_future(scale * query @ key.mT).softmax(-1)
        found[layer] = torch.stack(
            [
                weights.diagonal(1 - half, -2, -1)[..., 1:].mean((0, -1)),  # queries of the second half
                weights.diagonal(-1, -2, -1)[..., half - 1 :].mean((0, -1)),
            ]
        )
        return weights @ value

    losses = [lose(network, ids, watch)]
    induction, previous = torch.stack([found[layer] for layer in sorted(found)], 1).cpu().numpy()
    best = choose(induction, SILENCED)
    losses.append(lose(network, ids, silence(best)))
    drawn = np.random.default_rng(0)
    pool = sorted({(layer, head) for layer, _ in best for head in range(induction.shape[1])} - {*best})
    losses += [lose(network, ids, silence(draw_heads(pool, SILENCED, drawn))) for _ in range(DRAWS)]
    return {"induction": induction, "previous": previous, "best": np.array(best), "loss": np.array(losses)}


def silence(heads: Sequence[tuple[int, int]]):
    """Return an attention in which some heads bring nothing."""

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        output = mask_future(scale * query @ key.mT).softmax(-1) @ value
        output[:, [head for number, head in heads if number == layer]] = 0
        return output

    return attend


def lose(network, ids: Tensor, attend) -> list[float]:
    """Return the mean loss of each position from the second on."""
    with attention_hooks.with_attention(network, attend):
        logits = network(ids, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.mT, ids[:, 1:], reduction="none").mean(0).tolist()


EXPERIMENT = Experiment(compute, models=(MODEL,), minutes=1, seed=0)
