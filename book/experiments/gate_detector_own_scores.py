"""What the gate detector says of MiniLM's own scores with its keys, or keys and queries, at random positions: a null.

Rows of real maps are not independent: the scores are products of short queries and keys, so they have low rank and
popular keys. Here all of that is kept. Each head's queries and keys are those of a text, and only their order is drawn.
What is then read as a diagonal or as a block is not there by position.
"""

import numpy as np
import torch

from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project, softmax
from book.lab.documents import load_documents
from book.lab.map_counts import PRESENT
from book.publish.records import Experiment, Result

LONGEST, SEED = 96, 0  # tokens of a document
ORDERS = ("as they are", "keys shuffled", "queries and keys shuffled")


def compute(device: torch.device) -> Result:
    """Return, over documents, orders and gates, shares of the attention, and of the maps that have 5 % on the gate."""
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = pretrained.load(checkpoint, device=device), pretrained.tokenizer(checkpoint)
    layers, shares, present = load(network).plain_layers(), [], []
    for seed, document in enumerate(load_documents()):
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        generator = torch.Generator().manual_seed(SEED + seed)
        scores = torch.stack([read_orders(x, layer, generator) for x, layer in zip(states, layers)])
        shares.append(scores.mean((0, 2)).numpy(force=True))
        present.append((scores >= PRESENT).double().mean((0, 2)).numpy(force=True))
    arrays = {"shares": np.array(shares, np.float32), "present": np.array(present, np.float32)}
    return Result({}, arrays, dict.fromkeys(arrays, 0.02))


def read_orders(x: torch.Tensor, layer, generator: torch.Generator) -> torch.Tensor:
    """Read the maps of one layer in each of the orders: scores ``(order, head, gate)``."""
    queries, keys = project(x, layer.W_Q, layer.b_Q), project(x, layer.W_K, layer.b_K)
    maps = softmax(queries @ keys.mT / layer.channel**0.5)
    key_order, query_order = (draw_orders(len(maps), len(x), generator).to(x.device) for _ in range(2))
    shuffled = torch.stack([one[:, order] for one, order in zip(maps, key_order)])
    both = torch.stack([one[order] for one, order in zip(shuffled, query_order)])
    return torch.stack([gates.read_gates(each).scores for each in (maps, shuffled, both)])


def draw_orders(heads: int, n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw an order of the positions for each head.

    >>> draw_orders(2, 3, torch.Generator().manual_seed(0)).sort(-1).values
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    return torch.rand(heads, n, generator=generator).argsort(-1)


EXPERIMENT = Experiment(
    "The gate detector on MiniLM's own scores with keys, or queries and keys, in a random order",
    compute,
    models=("minilm",),
    minutes=1,
    seed=SEED,
)
