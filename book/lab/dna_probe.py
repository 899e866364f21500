"""When, in training, the variant classifier's cone, its sharp rows and its gates appear.

:func:`make_probe` looks at a classifier that is being trained, on fixed sequences and layer by layer; the trace that
it leaves lies beside the published model.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn

from analysis.maps import entropy, gates, streaming
from analysis.models import attention_hooks
from analysis.representations import anisotropy
from book.lab.training.dna_classifier import Data

WORKERS = 2
LOOKS = (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1)
"""When to look, as shares of a training: often where most happens."""


def at(steps: int) -> tuple[int, ...]:
    """Return the numbers of updates after which to look, for a training of ``steps``.

    >>> at(10)
    (0, 1, 2, 3, 4, 5, 6, 8, 10)
    """
    return tuple(sorted({round(share * steps) for share in LOOKS}))


def make_probe(data: Data) -> Callable[[int, nn.Module], dict[str, np.ndarray]]:
    """Return ``probe(step, model)`` for ``dna_classifier.train``, on the first validation sequence of two classes.

    They are the first two in alphabetical order; the same ones every time.
    """
    first: dict[str, int] = {}
    for i in data.parts.validation:
        first.setdefault(data.genes[i].label, int(i))
    coded = [data.encode([data.genes[first[label]]]) for label in sorted(first)[:2]]
    return lambda step, model: look(model, coded)


def look(model: nn.Module, coded: Sequence[dict[str, Tensor]]) -> dict[str, np.ndarray]:
    """Measure cone, entropy and gates of a classifier on a few encoded sequences, a layer at a time, in float32.

    Reading gates is what takes long, so of each sequence every ``len(coded)``-th head is read: all heads once.

    Returns
    -------
    dict
        By layer: ``cone``, the length of the sum of the rows that the layer wrote, and ``resultant``, that of the mean
        unit row (0 to 1), means over sequences; ``entropy``, of a row as a share of ln n, over heads too;
        ``gates`` ``(layer, gate)``, the mean share of attention over heads, in the order of ``gates.GATES``.

    "The geometry of BERT", sections 4 and 5.
    """
    layers, every = model.config.num_hidden_layers, len(coded)
    found = {name: np.zeros(layers) for name in ("cone", "resultant", "entropy")}
    shares = np.zeros((layers, len(gates.GATES)))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two maps at once are faster than two threads on one
    try:
        with ThreadPoolExecutor(WORKERS) as pool, torch.no_grad():
            for turn, inputs in enumerate(coded):

                def visit(layer: int, maps: Tensor, turn: int = turn) -> None:
                    found["entropy"][layer] += float(entropy.relative_entropy(maps).mean()) / every
                    parts = [part for part in maps[0, turn::every].tensor_split(WORKERS) if len(part)]
                    read = pool.map(_count, parts)
                    shares[layer] += sum(read) / maps.shape[1]

                def hidden(layer: int, states: Tensor) -> None:
                    rows = states[0].float()
                    found["cone"][layer] += float(anisotropy.cone_index(rows)) / every
                    found["resultant"][layer] += float(anisotropy.resultant_length(rows)) / every

                with attention_hooks.with_attention(model, streaming.visit_maps(visit), hidden):
                    model(**{name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")})
    finally:
        torch.set_num_threads(threads)
    return {**found, "gates": shares}


@torch.no_grad()
def _count(maps: Tensor) -> np.ndarray:
    """Add up the gate shares of some maps; off their own thread's gradients."""
    return gates.read_gates(maps.float()).scores.double().sum(0).cpu().numpy()
