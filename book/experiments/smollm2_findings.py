"""What our findings about small models and MiniLM are in SmolLM2: shares of the scores, rank, cone, entropy, 4 bits.

Everything that needs no loss is measured in two random networks as well: as initialised, and with matrices as large as
the trained ones.
"""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from analysis.maps import attribution
from analysis.models import attention_hooks, pretrained
from analysis.models.controls import LARGE, RANDOM, make_controls
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.representations.rank_collapse import residual
from analysis.transformer.attention import mask_future
from book.experiments.rotary_smollm2 import MODEL, of_others, read_layers, split
from book.experiments.smollm2_induction import silence
from book.lab.smollm2 import LENGTH, attend, choose_texts, lose, run_from
from book.publish.records import Experiment, Result, Value

PARTS = ("content", "semi-bias", "query side", "kernel")
"""Of a score: both words; the mean query and the key's word; the query's word and the mean key; both means."""
NETWORKS = ("trained", RANDOM, LARGE)
TEXTS, SPLIT = 4, 2
"""Texts that are measured, and those whose scores are split."""
SHORT, EVERY = 32, slice(1, None, 3)
"""Tokens of a text on which a head is silenced, and the layers whose heads are."""
NOISES = 3
"""Draws of an error as large as that of the rounding."""


def compute(device: torch.device) -> Result:
    """What findings about small models and MiniLM are in SmolLM2, and what 4 bits change.

    Measure the four networks, silence every head of the trained one, and shake its weights.
    """
    network = pretrained.load(MODEL, task="lm", device=device)
    ids = choose_texts(pretrained.tokenizer(MODEL), LENGTH)[:TEXTS].to(device)
    controls = make_controls(network, levels=NETWORKS[1:], seeds=[0])
    found = [measure(network, ids), *(measure(control.network, ids) for control in controls)]
    arrays = {name: np.stack([of[name] for of in found]) for name in found[0]}
    arrays["silenced"], whole = silence_each(network, ids[:, :SHORT])
    arrays |= shake(network, ids)
    single = {name: np.array(of, np.float32) for name, of in arrays.items()}
    return Result({"short loss": Value(whole, 5e-3)}, single, dict.fromkeys(single, 5e-3))


@torch.no_grad()
def measure(network, ids: Tensor) -> dict[str, np.ndarray]:
    """Return what needs no loss, means over texts.

    Returns
    -------
    dict
        In nats ``parts (layer, head, part)`` of the divergence from even attention, and ``parts_later``, the same where
        no row sees the first token; ``entropy (layer, head)``, relative; ``residual`` and ``cosine (state)`` of the
        rows from the second on before every layer and after the last; ``without_mlp``, residual and cosine with its own
        last state where no MLP writes.
    """
    found: dict[str, list] = {}
    keys = torch.arange(2, ids.shape[1] + 1, device=ids.device).double().log()
    for layer, queries, keys_of_layer in read_layers(network, ids):
        parts = split(queries, keys_of_layer, (of_others(queries), of_others(keys_of_layer)), layer)
        visible = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        divergence = attribution.divergence(parts["whole"][:, :, 1:], visible[1:]).double()
        found.setdefault("entropy", []).append((1 - divergence / keys).mean((0, -1)))
        content = parts["whole"] - sum(parts[name] for name in PARTS[1:])
        of_texts = torch.stack([content, *(parts[name] for name in PARTS[1:])])[:, :SPLIT]
        for name, first, start in (("parts", 0, 1), ("parts_later", 1, 2)):
            rows = of_texts[:, :, :, start:, first:]
            split_rows = attribution.attribute_divergence(rows, visible[start:, first:])
            found.setdefault(name, []).append(split_rows.parts.mean((1, -1)).T)
    x = network.base_model.embed_tokens(ids)
    with without_mlps(network):
        without = run_from(network, x, 0, attend)[-1][:, 1:]
    states = run_from(network, x, 0, attend)
    later = [state[:, 1:] for state in states]
    found["residual"] = [residual(state).mean() for state in later]
    found["cosine"] = [mean_pairwise_cosine(state).mean() for state in later]
    found["without_mlp"] = [residual(without).mean(), cosine_similarity(without, later[-1], dim=-1).mean()]
    return {name: torch.stack(of).double().cpu().numpy() for name, of in found.items()}


@contextmanager
def without_mlps(network) -> Iterator[None]:
    """Let no MLP write anything."""
    with ExitStack() as stack:
        for layer in network.base_model.layers:
            handle = layer.mlp.register_forward_hook(lambda module, given, output: torch.zeros_like(output))
            stack.callback(handle.remove)
        yield


def silence_each(network, ids: Tensor) -> tuple[Float[np.ndarray, "layer head"], float]:
    """Return by how many nats per token the loss rises without each head of :data:`EVERY` layer; the loss with all."""
    *states, whole = run_from(network, network.base_model.embed_tokens(ids), 0, attend)
    loss, heads = lose(network, whole, ids).mean().item(), range(network.config.num_attention_heads)
    rises = [
        [
            lose(network, run_from(network, x, layer, silence([(layer, head)]))[-1], ids).mean().item() - loss
            for head in heads
        ]
        for layer, x in list(enumerate(states))[EVERY]
    ]
    return np.array(rises), loss


def in_blocks(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights in blocks of 32, the smallest of each block, and the step between two of its 16 values."""
    blocks = weight.reshape(-1, 32)
    low, high = blocks.amin(1, keepdim=True), blocks.amax(1, keepdim=True)
    return blocks, low, (high - low) / 15


def round_weight(weight: Tensor) -> Tensor:
    """Round a weight to 4 bits, as the file of SmolLM2 has been (Q4_1).

    >>> round_weight(torch.arange(32.0)[None])[0, :5]
    tensor([0.0000, 0.0000, 2.0667, 2.0667, 4.1333])
    """
    blocks, low, step = in_blocks(weight)
    return (low + ((blocks - low) / step.clamp_min(1e-30)).round() * step).view_as(weight)


def shake_weight(weight: Tensor, generator: torch.Generator) -> Tensor:
    """Add to a rounded weight an error as large as its rounding can have been: anything up to half a step, alike."""
    blocks, _, step = in_blocks(weight)
    return (blocks + step * (torch.rand(blocks.shape, generator=generator).to(blocks) - 0.5)).view_as(weight)


def change_weights(network, change) -> torch.nn.Module:
    """Return a copy of a model with the weights of all matrices in its layers changed."""
    changed = copy.deepcopy(network)
    for layer in attention_hooks.layers(changed):
        for module in layer.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.data = change(module.weight.data)
    return changed


@torch.no_grad()
def see(network, ids: Tensor) -> tuple[Float[Tensor, "layer text head query key"], Tensor]:
    """Return all maps of a model, and its last state."""
    maps = []

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        scores = scale * query @ key.mT
        maps.append((mask_future(scores) if causal else scores).softmax(-1))
        return maps[-1] @ value

    with attention_hooks.with_attention(network, attend):
        last = network.base_model(ids).last_hidden_state
    return torch.stack(maps), last


def moved(one: Tensor, other: Tensor) -> Float[Tensor, "layer head"]:
    """Return the share of the attention that lies on other keys, mean over texts and rows."""
    return (one - other).abs().sum(-1).mean((1, 3)) / 2


def shake(network, ids: Tensor) -> dict[str, np.ndarray]:
    """Return what 4 bits change: known in MiniLM, which is rounded here, and estimated in SmolLM2, which is shaken.

    Returns
    -------
    dict
        ``rounding_error (model)``, root mean square of the error over that of the weights, in SmolLM2 of the shaking;
        ``moved (draw, layer, head)`` and ``shaken_loss (draw)`` of SmolLM2, the first draw without a change;
        ``minilm_moved`` and ``minilm_turned (rounded or shaken after that)``.
    """
    generator = torch.Generator().manual_seed(0)
    maps, last = see(network, ids)
    moves, losses = [], [lose(network, last, ids).mean().item()]
    for _ in range(NOISES):
        shaken, of_shaken = see_changed(network, ids, lambda weight: shake_weight(weight, generator))
        moves.append(moved(shaken, maps).cpu())
        losses.append(lose(network, of_shaken, ids).mean().item())
    minilm = pretrained.load("minilm", device=ids.device)
    words = pretrained.tokenizer("minilm")
    read = choose_texts(words, LENGTH).to(ids.device)
    rounded = change_weights(minilm, round_weight)
    runs = [see(each, read) for each in (minilm, rounded)]
    runs.append(see_changed(rounded, read, lambda weight: shake_weight(weight, generator)))
    pairs = list(pairwise(runs))
    errors = [
        relative_error(network, lambda weight: shake_weight(weight, generator)),
        relative_error(minilm, round_weight),
    ]
    return {
        "rounding_error": np.array(errors),
        "moved": torch.stack(moves).numpy(),
        "shaken_loss": np.array(losses),
        "minilm_moved": np.array([moved(new[0], old[0]).mean().item() for old, new in pairs]),
        "minilm_turned": np.array(
            [1 - cosine_similarity(old[1].mean(1), new[1].mean(1), dim=-1).mean().item() for old, new in pairs]
        ),
    }


def see_changed(network, ids: Tensor, change) -> tuple[Tensor, Tensor]:
    """Return maps and last state of a model with changed weights, of which no copy is kept."""
    return see(change_weights(network, change), ids)


def relative_error(network, change) -> float:
    """Return the root mean square of a change of the weights over that of the weights."""
    sizes = torch.zeros(2, dtype=torch.float64)
    for layer in attention_hooks.layers(network):
        for module in layer.modules():
            if isinstance(module, torch.nn.Linear):
                weight = module.weight.data
                sizes += torch.stack([each.double().square().sum().cpu() for each in (change(weight) - weight, weight)])
    return (sizes[0] / sizes[1]).sqrt().item()


EXPERIMENT = Experiment(compute, models=(MODEL, "minilm"), minutes=15, seed=0)
