"""Whether SmolLM2's previous-token heads are two constant vectors: attention and loss with nothing but their kernel.

The constants of a head are its mean query and its mean key before they are turned, of other passages than the one that
is looked at. A score is then content, semi-bias, query side and kernel, and the kernel is the part without any word.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary
from analysis.data.texts import passages
from analysis.decomposition.rotary_kernel import distance_kernel, pair_channels, unpair_channels
from analysis.models import attention_hooks, pretrained, reading
from analysis.models.extraction import attention_inputs
from analysis.transformer.attention import mask_future, project
from analysis.transformer.rotary import rotate
from book.lab.documents import load_documents
from book.publish import experiments
from book.publish.records import Experiment, Result, Value

MODEL = "smollm2"
LENGTH, LONG = 64, 256
"""Tokens of a passage."""
LONGER = 6
"""Passages of the longer kind."""
PROSE, CODE = ("technical prose", "legal prose", "narrative"), "program code"
STRONGEST = 12
FAST = 8
"""The fastest pairs of coordinates: each turns by more than a radian within 18 tokens, of 32 pairs."""
SCORES = ("whole", "no kernel", "no semi-bias", "no query side", "kernel", "fast pairs", "slow pairs")
SOURCES = ("code", "one position", "random", "random angles")
"""Other constants in the place of the mean query and key of other prose."""
DRAWS = 4
"""Sets of twelve other heads, of all layers and of the same layers."""
Constants = tuple[Float[Tensor, "passage head channel"], Float[Tensor, "passage head channel"]]


def compute(device: torch.device) -> Result:
    """What SmolLM2's previous-token heads do with nothing but two constant vectors.

    Measure all heads on 18 pieces of prose, the strongest on code and on longer passages, and the loss.
    """
    words = pretrained.tokenizer(MODEL)
    network = pretrained.load(MODEL, task="lm", device=device)
    prose, code = (take(words, [each.text for each in load_documents(*kinds)]) for kinds in (PROSE, (CODE,)))
    long = take(words, passages(), LONG)[:LONGER]
    arrays, kernels = measure_heads(network, prose.to(device), code.to(device))
    strongest = choose(arrays["previous"][0])
    arrays |= {"strongest": np.array(strongest), "long": measure_long(network, long.to(device), prose.to(device))}
    arrays["map"] = draw_maps(network, prose[-6:].to(device), strongest[0], kernels)
    losses = lose_words(network, prose.to(device), strongest, kernels)
    arrays |= {name: np.array(of) for name, of in losses.items()}
    values = {"prose": Value(len(prose)), "code": Value(len(code)), "long": Value(len(long))}
    tolerances = {name: 5e-3 for name, of in arrays.items() if of.dtype.kind == "f"}
    single = {name: of.astype(np.float32) if of.dtype.kind == "f" else of for name, of in arrays.items()}
    return Result(values, single, tolerances)


def take(words, texts: Sequence[str], length: int = LENGTH) -> Int[Tensor, "passage position"]:
    """Return the first tokens of each text that has so many."""
    ids = [words(text).input_ids[:length] for text in texts]
    return torch.tensor([each for each in ids if len(each) == length])


@torch.no_grad()
def read_layers(network: torch.nn.Module, ids: Tensor):
    """Yield each layer with its queries and keys before they are turned: ``(passage, head, position, channel)``."""
    states = network.base_model(ids, output_hidden_states=True, use_cache=False).hidden_states
    layers = reading.load(network).layers
    for layer, x in zip(layers, attention_inputs(network, states), strict=True):
        keys = project(x, layer.W_K, layer.b_K)
        yield layer, project(x, layer.W_Q, layer.b_Q), keys.repeat_interleave(layer.heads // keys.shape[1], 1)


def of_others(rows: Float[Tensor, "passage head position channel"]) -> Float[Tensor, "passage head channel"]:
    """Return for each passage the mean over all positions of the others.

    >>> of_others(torch.tensor([0.0, 2.0, 4.0]).view(3, 1, 1, 1)).flatten().tolist()
    [3.0, 2.0, 1.0]
    """
    means = rows.mean(-2)
    return (means.sum(0) - means) / (len(means) - 1)


def split(queries: Tensor, keys: Tensor, constants: Constants, layer: AttentionLayer) -> dict[str, Tensor]:
    """Return the whole scores, and of their parts those that the two constants are in."""
    rotary = layer.positions
    query, key, of_query, of_key = (
        rotate(rows, rotary) for rows in (queries, keys, *(each[:, :, None].expand_as(queries) for each in constants))
    )
    kernel = of_query @ of_key.mT
    parts = {
        "whole": query @ key.mT,
        "kernel": kernel,
        "semi-bias": of_query @ (key - of_key).mT,
        "query side": (query - of_query) @ of_key.mT,
    }
    return {name: layer.scale * scores for name, scores in parts.items()}


def around_the_kernel(parts: Mapping[str, Tensor]) -> Float[Tensor, "score ..."]:
    """Return the whole scores, these without the kernel, and the kernel alone."""
    return torch.stack([parts["whole"], parts["whole"] - parts["kernel"], parts["kernel"]])


def kernel_of(constants: Constants, layer: AttentionLayer, positions: int) -> Float[Tensor, "passage head query key"]:
    """Return what two constants add to the scores."""
    query, key = (rotate(each[:, :, None].expand(-1, -1, positions, -1), layer.positions) for each in constants)
    return layer.scale * query @ key.mT


def some_pairs(constants: Constants, rotary: Rotary, keep: slice) -> Constants:
    """Return the constants with some of their pairs of coordinates only."""
    kept = torch.zeros(len(rotary.frequencies), device=constants[0].device)
    kept[keep] = 1
    return tuple(unpair_channels(pair_channels(each, rotary) * kept, rotary) for each in constants)


def with_random_angles(constants: Constants, rotary: Rotary, generator: torch.Generator) -> Constants:
    """Return the constants with every pair of the query turned by an angle of its own: amplitudes stay as they are."""
    query, key = constants
    pairs = pair_channels(query, rotary)
    angle = 2 * torch.pi * torch.rand(pairs.shape, generator=generator).to(query.device)
    return unpair_channels(pairs * torch.polar(torch.ones_like(angle), angle), rotary), key


def previous(scores: Float[Tensor, "passage head query key"]) -> Float[Tensor, "passage head"]:
    """Return the mean attention of the queries from the second on to the word before.

    >>> round(previous(torch.zeros(1, 1, 3, 3)).item(), 4)  # a half and a third
    0.4167
    """
    return mask_future(scores).softmax(-1).diagonal(-1, -2, -1).mean(-1)


def itself(scores: Tensor) -> Tensor:
    """Return the mean attention of the queries from the second on to their own position."""
    return mask_future(scores).softmax(-1).diagonal(0, -2, -1)[..., 1:].mean(-1)


def first(scores: Tensor) -> Tensor:
    """Return the mean attention to the first token, of queries for which it is not the word before."""
    return mask_future(scores).softmax(-1)[..., 2:, 0].mean(-1)


def other_constants(
    queries: Tensor,
    keys: Tensor,
    own: Constants,
    of_code: Constants,
    layer: AttentionLayer,
    *,
    generator: torch.Generator,
) -> dict[str, Constants]:
    """Return what stands in the place of the means of other prose, one draw for each passage, by :data:`SOURCES`."""
    count, _, positions, _ = queries.shape
    other = torch.arange(count).roll(1)  # the passage before it
    place = torch.randint(1, positions, (count,), generator=generator)  # not the first token, which is a sink
    drawn = [torch.randn(each.shape, generator=generator).to(each) for each in own]
    scaled = [new * (each.norm(dim=-1) / new.norm(dim=-1))[..., None] for new, each in zip(drawn, own, strict=True)]
    return {
        "code": of_code,
        "one position": (queries[other, :, place], keys[other, :, place]),
        "random": (scaled[0], scaled[1]),
        "random angles": with_random_angles(own, layer.positions, generator),
    }


def measure_heads(network, prose: Tensor, code: Tensor) -> tuple[dict[str, np.ndarray], list[Constants]]:
    """Return what every head gives to the word before, by passage, and the constants of every layer.

    Returns
    -------
    dict
        ``previous (score, layer, head)``, the mean over prose, ``itself`` and ``first`` of whole, no kernel and kernel;
        ``by_passage (score, passage, layer, head)`` of these three; ``other (source, with, layer, head)``, without the
        kernel of other constants and of it alone, and ``other_most``, the largest of a passage; ``on_code (score,
        layer, head)``, where the constants are those of prose; ``curve (layer, head, distance)``, the kernel of the
        means of all prose.
    """
    generator, found, constants = torch.Generator().manual_seed(0), {}, []
    for (layer, queries, keys), (_, code_queries, code_keys) in zip(
        read_layers(network, prose), read_layers(network, code), strict=True
    ):
        own, rotary = (of_others(queries), of_others(keys)), layer.positions
        constants.append(own)
        parts = split(queries, keys, own, layer)
        alone = [
            split(queries, keys, some_pairs(own, rotary, keep), layer)["kernel"]
            for keep in (slice(FAST), slice(FAST, None))
        ]
        less = [parts["whole"] - parts[name] for name in ("kernel", "semi-bias", "query side")]
        three = around_the_kernel(parts)
        means = [each.mean((0, 2)) for each in (queries, keys)]
        on_code = tuple(each.expand(len(code), -1, -1) for each in means)
        of_code = tuple(each.mean((0, 2)).expand(len(prose), -1, -1) for each in (code_queries, code_keys))
        in_code = split(code_queries, code_keys, on_code, layer)
        others = [
            split(queries, keys, each, layer)["kernel"]
            for each in other_constants(queries, keys, own, of_code, layer, generator=generator).values()
        ]
        other = torch.stack([previous(torch.stack([parts["whole"] - kernel, kernel])) for kernel in others])
        kernel = distance_kernel(*means, rotary)
        of_layer = {
            "previous": previous(torch.stack([parts["whole"], *less, parts["kernel"], *alone])).mean(1),
            "itself": itself(three).mean(1),
            "first": first(three).mean(1),
            "by_passage": previous(three),
            "other": other.mean(2),
            "other_most": other.amax(2),
            "on_code": previous(around_the_kernel(in_code)).mean(1),
            "curve": kernel.at(torch.arange(float(LENGTH), device=queries.device)),
        }
        for name, of in of_layer.items():
            found.setdefault(name, []).append(of.cpu())
    place = {"curve": 0}  # where the layers stand: before the heads
    return {name: torch.stack(of, place.get(name, -2)).numpy() for name, of in found.items()}, constants


def choose(previous: Float[np.ndarray, "layer head"], count: int = STRONGEST) -> list[tuple[int, int]]:
    """Return the heads that give most to the word before, the strongest first.

    >>> choose(np.array([[0.1, 0.9], [0.5, 0.2]]))[:2]
    [(0, 1), (1, 0)]
    """
    order = np.argsort(previous, axis=None)[::-1][:count]
    return [tuple(map(int, np.unravel_index(place, previous.shape))) for place in order]


def measure_long(network, long: Tensor, prose: Tensor) -> Float[np.ndarray, "score layer head"]:
    """Return the same of longer passages, with the constants of the short ones: whole, no kernel, kernel."""
    found = []
    means = [tuple(each.mean((0, 2)) for each in rows[1:]) for rows in read_layers(network, prose)]
    for (layer, queries, keys), of_layer in zip(read_layers(network, long), means, strict=True):
        parts = split(queries, keys, tuple(each.expand(len(long), -1, -1) for each in of_layer), layer)
        found.append(previous(around_the_kernel(parts)).mean(1).cpu())
    return torch.stack(found, 1).numpy()


def draw_maps(network, ids: Tensor, head: tuple[int, int], constants: Sequence[Constants], shown: int = 20):
    """Return the first rows of one head's map on the first passage: whole, no kernel, kernel."""
    for number, (layer, queries, keys) in enumerate(read_layers(network, ids)):
        if number == head[0]:
            own = tuple(each[-len(ids) :] for each in constants[number])
            parts = split(queries, keys, own, layer)
    scores = around_the_kernel(parts)[:, 0, head[1]]
    return mask_future(scores).softmax(-1)[:, :shown, :shown].cpu().numpy()


def change_heads(change: Callable[[int, Tensor], Tensor], heads: Mapping[int, Sequence[int]]):
    """Return an attention for `attention_hooks.with_attention` that changes the weights of some heads, by layer.

    Parameters
    ----------
    change
        Called with the layer and its scores ``(passage, head, query, key)``; returns scores, or weights of 0.
    """

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        scores = scale * query @ key.mT
        weights = mask_future(scores).softmax(-1)
        if chosen := list(heads.get(layer, ())):
            weights[:, chosen] = change(layer, scores)[:, chosen]
        return weights @ value

    return attend


@torch.no_grad()
def lose_words(network, ids: Tensor, strongest: Sequence[tuple[int, int]], constants: Sequence[Constants]):
    """Return the loss in nats per token, and where the scores of twelve heads are replaced.

    Returns
    -------
    dict
        ``loss``: as trained, and of the strongest heads with the kernel alone, without it, with random angles, with
        equal weights, and silent. ``loss_others (of, draw)``: of as many other heads with their kernels alone, drawn
        from all layers and from the layers of the strongest.
    """
    layers = list(reading.load(network).layers)
    generator = torch.Generator().manual_seed(0)
    turned = [with_random_angles(each, layers[0].positions, generator) for each in constants]

    def kernel_map(layer, of):
        return kernel_of(of[layer], layers[layer], ids.shape[1])

    ways = {
        "kernel": lambda layer, scores: mask_future(kernel_map(layer, constants)).softmax(-1),
        "no kernel": lambda layer, scores: mask_future(scores - kernel_map(layer, constants)).softmax(-1),
        "random angles": lambda layer, scores: mask_future(kernel_map(layer, turned)).softmax(-1),
        "equal": lambda layer, scores: mask_future(torch.zeros_like(scores)).softmax(-1),
        "silent": lambda layer, scores: torch.zeros_like(scores),
    }

    def loss(heads, way=None):
        by_layer: dict[int, list[int]] = {}
        for layer, head in heads:
            by_layer.setdefault(layer, []).append(head)
        with attention_hooks.with_attention(network, change_heads(ways.get(way), by_layer)):
            logits = network(ids, use_cache=False).logits[:, :-1]
        return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item()

    heads = range(layers[0].heads)
    every = [(layer, head) for layer in range(len(layers)) for head in heads if (layer, head) not in strongest]
    drawn = np.random.default_rng(0)
    others = [
        [draw_heads(pool, len(strongest), drawn) for _ in range(DRAWS)]
        for pool in (every, [each for each in every if each[0] in {layer for layer, _ in strongest}])
    ]
    return {
        "loss": [loss(()), *(loss(strongest, way) for way in ways)],
        "loss_others": [[loss(each, "kernel") for each in draws] for draws in others],
    }


def draw_heads(pool: Sequence[tuple[int, int]], count: int, drawn: np.random.Generator) -> list[tuple[int, int]]:
    """Draw heads, each at most once."""
    return [pool[place] for place in drawn.choice(len(pool), count, replace=False)]


def read_arrows(device: torch.device) -> Result:
    """The kernels of SmolLM2's previous-token heads as arrows that turn.

    One arrow for each pair of coordinates of the twelve strongest heads, with the mean query and the mean key over all
    the prose, as in ``curve``: ``length`` and ``angle (head, pair)``, in nats and radians, ``turn`` in radians per
    token, and ``head``.
    """
    words, network = pretrained.tokenizer(MODEL), pretrained.load(MODEL, device=device)
    prose = take(words, [each.text for each in load_documents(*PROSE)], LENGTH).to(device)
    kernels = [
        distance_kernel(queries.mean((0, 2)), keys.mean((0, 2)), layer.positions)
        for layer, queries, keys in read_layers(network, prose)
    ]
    strongest = experiments.load("rotary-smollm2").array("strongest")
    arrays = {
        "length": np.stack([kernels[layer].amplitude[head].numpy(force=True) for layer, head in strongest]),
        "angle": np.stack([kernels[layer].phase[head].numpy(force=True) for layer, head in strongest]),
        "turn": kernels[0].frequencies.numpy(force=True),
    }
    single = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, single | {"head": strongest.astype(np.uint8)}, dict.fromkeys(single, 5e-3))


EXPERIMENTS = {
    "rotary-smollm2": Experiment(compute, models=(MODEL,), minutes=4, seed=0),
    "rotary-smollm2-arrows": Experiment(read_arrows, models=(MODEL,), minutes=1.0, seed=0),
}
