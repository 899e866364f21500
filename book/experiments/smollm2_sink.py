"""What the first token of a text is to SmolLM2: its share, its value, and the loss when its weight is taken or shared.

The first row sees only itself and is left as it is, so the sink is made as before; what is changed is what the others
take from it. For the same reason the first row's values depend on its token alone: every token of the vocabulary stands
first, once, in a text of its own, to see which are turned into the one vector.
"""

import json
from collections.abc import Collection

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity

from analysis.models import attention_hooks, pretrained
from analysis.transformer.attention import mask_future
from book.experiments.rotary_smollm2 import MODEL
from book.lab.ablation import choose_sink, draw_as_much, leave_short, renormalise, scale_up
from book.lab.smollm2 import LENGTH, LONG, attend, choose_texts, lose, run_from
from book.publish.records import Experiment, Result, Value

TEXTS = ("six texts", "six other texts", "two long texts")
"""Of 64 tokens, those the blocks were chosen on; as many that were not looked at; of 256 tokens."""
BLOCKS = {
    "all": range(30),
    "0 to 2": range(3),
    "3 to 9": range(3, 10),
    "12 to 17": range(12, 18),
    "18 to 23": range(18, 24),
    "24 to 29": range(24, 30),
}
"""Layers that are changed together. In 10 and 11 the first token is a token like others."""
SINGLE, FEW = ("deleted", "shared", "at random"), 2
"""What is done layer by layer, and on how many texts."""
TOGETHER = ("deleted", "shared", "turned up", "doubled", "at random", "of other texts")
"""What is done in several layers at once: "of other texts" changes the first token's value and no weight."""
FROM, BATCH, ELSEWHERE = 12, 512, 0.5
"""The layer from which on the vector is asked for; tokens that run together; the cosine under which one is named."""


def compute(device: torch.device) -> Result:
    """What the first token is to SmolLM2: its share, its value, and the loss when its weight is deleted or shared.

    Watch the first token in every head, then change one layer at a time, and several on three sets of texts.
    """
    words = pretrained.tokenizer(MODEL)
    network = pretrained.load(MODEL, task="lm", device=device)
    chosen = choose_texts(words, LENGTH), choose_texts(words, LENGTH, first=1), choose_texts(words, LONG)
    sets = [ids.to(device) for ids in chosen]
    arrays = watch(network, sets[0]) | change_layers(network, sets[1][::3][:FEW])
    found = [change_blocks(network, ids) for ids in sets]
    arrays |= {name: np.array([of[name] for of in found]) for name in found[0]}
    single = {name: np.array(of, np.float32) for name, of in arrays.items()}
    return Result({}, single, {name: 0.05 if "loss" in name else 5e-3 for name in single})


@torch.no_grad()
def watch(network, ids: Tensor) -> dict[str, np.ndarray]:
    """Return what every head gives the first token and gets from it.

    Returns
    -------
    dict
        ``share (layer, head)`` of the attention of all later rows; ``length (layer, head)`` of its value over the mean
        of the others'; ``same (layer, head)``, the cosine of its value and the mean of those of the other texts, and
        ``same_others`` that of the tokens at the same later positions.
    """
    found: dict[str, list[Tensor]] = {}

    def look(layer, query, key, value, *, scale, causal=False, lengths=None):
        maps = mask_future(scale * query @ key.mT).softmax(-1)
        norms, alike = value.norm(dim=-1), cosine_similarity(value, mean_of_others(value), dim=-1)
        of_layer = {
            "share": maps[:, :, 1:, 0].mean(-1),
            "length": norms[..., 0] / norms[..., 1:].mean(-1),
            "same": alike[..., 0],
            "same_others": alike[..., 1:].mean(-1),
        }
        for name, of in of_layer.items():
            found.setdefault(name, []).append(of.mean(0))
        return maps @ value

    with attention_hooks.with_attention(network, look):
        network(ids, use_cache=False)
    return {name: torch.stack(of).cpu().numpy() for name, of in found.items()}


def mean_of_others(values: Float[Tensor, "text ..."]) -> Float[Tensor, "text ..."]:
    """Return for each text the mean over the others, position by position.

    >>> mean_of_others(torch.tensor([0.0, 2.0, 4.0])).tolist()
    [3.0, 2.0, 1.0]
    """
    return (values.sum(0) - values) / (len(values) - 1)


def change_maps(way: str, layers: Collection[int], taken: dict[int, float] | None = None):
    """Return an attention in which some layers do something else with the weight on the first token.

    Parameters
    ----------
    way
        One of :data:`SINGLE` or :data:`TOGETHER`.
    taken
        Takes up the mean weight that later rows give the first token, by layer, before it is changed.
    """
    generator = torch.Generator().manual_seed(0)

    def change(layer, query, key, value, *, scale, causal=False, lengths=None):
        maps = mask_future(scale * query @ key.mT).softmax(-1)
        if taken is not None:
            taken[layer] = maps[:, :, 1:, 0].mean().item()
        output = maps @ value
        if layer in layers:
            output[:, :, 1:] = changed(way, maps, value, generator)[:, :, 1:]
        return output

    return change


def changed(
    way: str, maps: Tensor, value: Tensor, generator: torch.Generator
) -> Float[Tensor, "text head row channel"]:
    """Return what the rows of a layer get when something else is done with the first token's weight."""
    sink = maps * choose_sink(maps)
    match way:
        case "deleted":
            return leave_short(maps, sink) @ value
        case "shared":
            return renormalise(maps, sink) @ value
        case "turned up":
            return scale_up(maps, sink) @ value
        case "doubled":
            return (2 * maps - sink) @ value
        case "at random":
            return leave_short(maps, draw_as_much(maps, sink[..., :1], generator)) @ value
        case "of other texts":
            other = value.clone()
            other[:, :, 0] = mean_of_others(value[:, :, 0])
            return maps @ other
    raise ValueError(f"way must be one of {', '.join({*SINGLE, *TOGETHER})}, got {way!r}")


def compare(network, x: Tensor, start: int, ids: Tensor, whole: Tensor, *, attention) -> tuple[list[float], float]:
    """Return the loss of each text with another attention, and how far its later rows turn at the end, 1 - cosine."""
    last = run_from(network, x, start, attention)[-1]
    turned = 1 - cosine_similarity(last[:, 1:], whole[:, 1:], dim=-1).mean().item()
    return lose(network, last, ids).tolist(), turned


def change_layers(network, ids: Tensor) -> dict[str, list]:
    """Return ``whole (text)`` and by layer ``loss (way, layer, text)`` and ``turn (way, layer)``."""
    *states, whole = run_from(network, network.base_model.embed_tokens(ids), 0, attend)
    found = [
        [compare(network, x, layer, ids, whole, attention=change_maps(way, {layer})) for layer, x in enumerate(states)]
        for way in SINGLE
    ]
    return {
        "whole": lose(network, whole, ids).tolist(),
        "loss": [[loss for loss, _ in of_way] for of_way in found],
        "turn": [[turn for _, turn in of_way] for of_way in found],
    }


def change_blocks(network, ids: Tensor) -> dict:
    """Change blocks of layers in all ways.

    Returns
    -------
    dict
        ``block_whole``, the mean loss as trained; ``block_loss`` and ``block_turn (block, way)``, means over texts;
        ``taken (way, layer)``, the weight on the first token where all layers are changed.
    """
    *states, whole = run_from(network, network.base_model.embed_tokens(ids), 0, attend)
    found, taken = [], []
    for block, layers in BLOCKS.items():
        of_block = []
        for way in TOGETHER:
            weight = {}
            change = change_maps(way, layers, weight)
            of_block.append(compare(network, states[layers[0]], layers[0], ids, whole, attention=change))
            if block == "all":
                taken.append([weight[layer] for layer in layers])
        found.append(of_block)
    return {
        "block_whole": lose(network, whole, ids).mean().item(),
        "block_loss": [[np.mean(loss) for loss, _ in of_block] for of_block in found],
        "block_turn": [[turn for _, turn in of_block] for of_block in found],
        "taken": taken,
    }


def compare_first_tokens(device: torch.device) -> Result:
    """Which first tokens SmolLM2 turns into its one vector: every token of the vocabulary.

    Compare the values of every first token with the mean of those that begin twelve texts.
    """
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


EXPERIMENTS = {
    "smollm2-sink": Experiment(compute, models=(MODEL,), minutes=6, seed=0),
    "smollm2-first-token": Experiment(compare_first_tokens, models=(MODEL,), minutes=5, seed=0),
}
