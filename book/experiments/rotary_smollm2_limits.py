"""How far SmolLM2's previous-token heads are two constant vectors: orders of removal, 4 bits, languages, other kernels.

The parts of a score and their names are those of :mod:`book.experiments.rotary_smollm2`, whose twelve heads these are.
"""

from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.models import pretrained
from analysis.transformer.rotary import rotate
from book.experiments.rotary_smollm2 import (
    LENGTH,
    MODEL,
    PROSE,
    around_the_kernel,
    choose,
    kernel_of,
    of_others,
    previous,
    read_layers,
    split,
    take,
)
from book.experiments.smollm2_findings import change_weights, in_blocks, shake_weight
from book.lab.documents import LANGUAGES, load_documents
from book.publish.records import Experiment, Result

PARTS = ("kernel", "semi-bias", "query side", "content")
"""The last is what the others leave of the whole."""
COALITIONS = tuple(product((False, True), repeat=len(PARTS)))
SHAKES = 4
"""Draws of an error as large as that of the rounding."""
COARSER = 3
"""Bits of a weight, where the file has 4."""
DIGITS = "digits"


def compute(device: torch.device) -> Result:
    """Measure the heads of the model, of shaken copies and of a coarser one, and on other languages and digits."""
    words = pretrained.tokenizer(MODEL)
    network = pretrained.load(MODEL, task="lm", device=device)
    texts = {kind: [each.text for each in load_documents(kind)] for kind in LANGUAGES} | {DIGITS: write_digits()}
    prose, *others = (
        take(words, each).to(device) for each in ([each.text for each in load_documents(*PROSE)], *texts.values())
    )
    arrays = {"coalitions": weigh_parts(network, prose), "changed": change(network, prose)}
    strongest = choose(arrays["coalitions"][-1])
    arrays |= {
        "other_text": np.stack([speak(network, each, prose) for each in others]),
        "other_means": np.stack([see(network, prose, each) for each in others]),
        "swapped": swap(network, prose, strongest),
    }
    single = {name: of.astype(np.float32) for name, of in arrays.items()}
    return Result({}, single | {"strongest": np.array(strongest)}, dict.fromkeys(single, 5e-3))


def write_digits(rows: int = 6) -> list[str]:
    """Return rows of random digits, each of which is a token.

    >>> write_digits(1)[0][:5]
    '86523'
    """
    drawn = np.random.default_rng(0).integers(10, size=(rows, LENGTH))
    return ["".join(map(str, row)) for row in drawn]


def means_of(rows: Float[Tensor, "passage head position channel"], count: int) -> Float[Tensor, "passage head channel"]:
    """Return the mean of all passages, for each of so many others."""
    return rows.mean((0, 2)).expand(count, -1, -1)


def weigh_parts(network, ids: Int[Tensor, "passage position"]) -> Float[np.ndarray, "coalition layer head"]:
    """Return the attention to the word before where only some parts of the score are there, by :data:`COALITIONS`."""
    found = []
    for layer, queries, keys in read_layers(network, ids):
        parts = split(queries, keys, (of_others(queries), of_others(keys)), layer)
        parts["content"] = parts["whole"] - sum(parts[name] for name in PARTS[:-1])
        every = torch.stack([parts[name] for name in PARTS])
        kept = (every[list(each)].sum(0) for each in COALITIONS)
        found.append(torch.stack([previous(scores).mean(0) for scores in kept]).cpu())
    return torch.stack(found, 1).numpy()


def see(network, ids: Tensor, of: Tensor | None = None) -> Float[np.ndarray, "score layer head"]:
    """Return the attention to the word before: whole, no kernel, kernel.

    Parameters
    ----------
    of
        Texts whose means are the constants; the other passages of ``ids`` by default.
    """
    found = []
    for (layer, queries, keys), (_, *others) in zip(
        read_layers(network, ids), read_layers(network, ids if of is None else of), strict=True
    ):
        own = [of_others(each) if of is None else means_of(each, len(ids)) for each in others]
        parts = split(queries, keys, (own[0], own[1]), layer)
        found.append(previous(around_the_kernel(parts)).mean(1).cpu())
    return torch.stack(found, 1).numpy()


def speak(network, ids: Tensor, prose: Tensor) -> Float[np.ndarray, "means score layer head"]:
    """Return the same of other texts, with means of their own kind and with those of English prose."""
    return np.stack([see(network, ids), see(network, ids, prose)])


def coarsen(weight: Tensor) -> Tensor:
    """Round a weight to :data:`COARSER` bits in the blocks of the file: 8 values from the smallest to the largest.

    >>> coarsen(torch.arange(32.0)[None])[0, :5]
    tensor([0.0000, 0.0000, 0.0000, 4.4286, 4.4286])
    """
    blocks, low, step = in_blocks(weight)
    step = step * 15 / (2**COARSER - 1)
    return (low + ((blocks - low) / step.clamp_min(1e-30)).round() * step).view_as(weight)


def change(network, ids: Tensor) -> Float[np.ndarray, "way score layer head"]:
    """Return the same of models with other weights: with one more error of the rounding's size, and in fewer bits."""
    generator = torch.Generator().manual_seed(0)
    ways = [lambda weight: shake_weight(weight, generator)] * SHAKES + [coarsen]
    return np.stack([see(change_weights(network, way), ids) for way in ways])


def swap(network, ids: Tensor, strongest) -> Float[np.ndarray, "with head layer other"]:
    """Return the attention to the word before of the strongest heads with the kernel of each head in place of theirs.

    First without it, then with it alone. A head's own kernel is among them.
    """
    layers = list(read_layers(network, ids))
    kernels = [kernel_of((of_others(queries), of_others(keys)), layer, ids.shape[1]) for layer, queries, keys in layers]
    alone = torch.stack([previous(each).mean(0) for each in kernels])
    without = []
    for number, head in strongest:
        layer, queries, keys = layers[number]
        query, key = (rotate(each[:, head : head + 1], layer.positions) for each in (queries, keys))
        whole = layer.scale * query @ key.mT
        without.append(torch.stack([previous(whole - kernel).mean(0) for kernel in kernels]))
    return torch.stack([torch.stack(without), alone.expand(len(strongest), -1, -1)]).cpu().numpy()


EXPERIMENT = Experiment(
    compute,
    "How far SmolLM2's previous-token heads are two constant vectors: orders, bits, languages, other heads' kernels",
    models=(MODEL,),
    minutes=4,
    seed=0,
)
