"""What the first token of a text is to SmolLM2: its share, its value, and the loss when its weight is taken or shared.

The first row sees only itself and is left as it is, so the sink is made as before; what is changed is what the others
take from it.
"""

from collections.abc import Callable, Collection

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from analysis.data.texts import passages
from analysis.models import attention_hooks, pretrained
from analysis.transformer.attention import mask_future
from book.experiments.rotary_smollm2 import MODEL, PROSE, take
from book.lab.ablation import choose_sink, draw_as_much, leave_short, renormalise, scale_up
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

LENGTH, LONG = 64, 256
LENGTHS = {16: 12, LENGTH: 6, LONG: 2}
"""Tokens of a text, and how many texts: prose of three kinds, and of the longest those of a manual."""
BLOCKS = {"all": range(30), "first three": range(3), "between": range(3, 24), "last six": range(24, 30)}
"""Layers that are changed together."""
SINGLE = ("deleted", "shared", "doubled", "at random")
"""What is done layer by layer."""
TOGETHER = ("deleted", "shared", "turned up", "at random", "of other texts")
"""What is done in several layers at once: "of other texts" changes the first token's value and no weight."""
Change = Callable[[int, Tensor, Tensor], Tensor]


def compute(device: torch.device) -> Result:
    """Watch the first token in every head, then change one layer at a time, and several at several lengths."""
    words = pretrained.tokenizer(MODEL)
    network = pretrained.load(MODEL, task="lm", device=device)
    ids = {length: choose_texts(words, length).to(device) for length in LENGTHS}
    arrays = watch(network, ids[LENGTH]) | change_layers(network, ids[LENGTH])
    loss, turn, taken = zip(*(change_blocks(network, of_length) for of_length in ids.values()), strict=True)
    arrays |= {"block_loss": np.array(loss), "block_turn": np.array(turn), "block_taken": np.array(taken)}
    single = {name: np.array(of, np.float32) for name, of in arrays.items()}
    return Result({}, single, {name: 0.05 if "loss" in name else 5e-3 for name in single})


def choose_texts(words, length: int) -> Int[Tensor, "text position"]:
    """Return texts of so many tokens, as many of each kind."""
    texts = passages() if length == LONG else [each.text for each in load_documents(*PROSE)]
    ids = take(words, texts, length)
    return ids[:: len(ids) // LENGTHS[length]][: LENGTHS[length]]


@torch.no_grad()
def watch(network, ids: Tensor) -> dict[str, np.ndarray]:
    """Return what every head gives the first token and gets from it.

    Returns
    -------
    dict
        ``share (layer, head)`` of the attention of all later rows; ``length (layer, head)`` of its value over the mean
        of the others'; ``same (layer, head)``, the cosine of its value and the mean of those of the other texts, and
        ``same_others`` that of the tokens at the same later positions; ``rank`` and ``rank_without (layer, head)``, the
        stable rank of what the later rows get, with the part of the first token and without.
    """
    found: dict[str, list[Tensor]] = {}

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        maps = mask_future(scale * query @ key.mT).softmax(-1)
        output, part = maps @ value, maps[..., :1] * value[:, :, :1]
        norms, alike = value.norm(dim=-1), cosine_similarity(value, mean_of_others(value), dim=-1)
        of_layer = {
            "share": maps[:, :, 1:, 0].mean(-1),
            "length": norms[..., 0] / norms[..., 1:].mean(-1),
            "same": alike[..., 0],
            "same_others": alike[..., 1:].mean(-1),
            "rank": stable_rank(output[:, :, 1:]),
            "rank_without": stable_rank((output - part)[:, :, 1:]),
        }
        for name, of in of_layer.items():
            found.setdefault(name, []).append(of.mean(0))
        return output

    with attention_hooks.with_attention(network, attend):
        network(ids, use_cache=False)
    return {name: torch.stack(of).cpu().numpy() for name, of in found.items()}


def attend(layer, query, key, value, *, scale, causal=False, lengths=None) -> Tensor:
    """Attend as the model does."""
    return mask_future(scale * query @ key.mT).softmax(-1) @ value


def mean_of_others(values: Float[Tensor, "text ..."]) -> Float[Tensor, "text ..."]:
    """Return for each text the mean over the others, position by position.

    >>> mean_of_others(torch.tensor([0.0, 2.0, 4.0])).tolist()
    [3.0, 2.0, 1.0]
    """
    return (values.sum(0) - values) / (len(values) - 1)


def stable_rank(rows: Float[Tensor, "*any row channel"]) -> Float[Tensor, "*any"]:
    """Return the squared Frobenius norm over the squared spectral norm, from 1 up."""
    return rows.square().sum((-2, -1)) / torch.linalg.matrix_norm(rows, 2).square()


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

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        maps = mask_future(scale * query @ key.mT).softmax(-1)
        if taken is not None:
            taken[layer] = maps[:, :, 1:, 0].mean().item()
        output = maps @ value
        if layer in layers:
            output[:, :, 1:] = changed(way, maps, value, generator)[:, :, 1:]
        return output

    return attend


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


def change_blocks(network, ids: Tensor) -> tuple[list, list, list]:
    """Return the mean loss by block and way, as trained before all ways; the turn; and the weight by layer, too."""
    x, rows, weight = network.base_model.embed_tokens(ids), [], []
    whole = run_from(network, x, 0, attend)[-1]
    for layers in BLOCKS.values():
        of_block = [(lose(network, whole, ids).tolist(), 0.0)]
        for way in TOGETHER:
            weight.append({})
            of_block.append(compare(network, x, 0, ids, whole, attention=change_maps(way, layers, weight[-1])))
        rows.append(of_block)
    taken = np.array([[of_way[layer] for layer in sorted(of_way)] for of_way in weight])
    loss = [[np.mean(of_texts) for of_texts, _ in of_block] for of_block in rows]
    turn = [[turned for _, turned in of_block] for of_block in rows]
    return loss, turn, taken.reshape(len(BLOCKS), len(TOGETHER), -1).tolist()


EXPERIMENT = Experiment(
    "What the first token is to SmolLM2: its share, its value, and the loss when its weight is deleted or shared",
    compute,
    models=(MODEL,),
    minutes=15,
    awaits="a computation of a quarter of an hour",
    seed=0,
)
