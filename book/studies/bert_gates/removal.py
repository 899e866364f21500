"""What the cells that the detector named do: MiniLM run without them, gate by gate, from the first layer to the last.

In every layer the map is computed on what the layers before left, read, robbed of the cells that are named after one
gate, and its rows are made to sum to 1 again. For comparison as much of every row is taken from cells at random.
"""

import numpy as np
import torch
from torch import Tensor

from analysis.core.weights import EncoderLayer
from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import run_layer
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

LONGEST, EACH, SEED = 64, 1, 0  # tokens of a document, and documents of every kind


def compute(device: torch.device) -> Result:
    """Return effects ``(document, gate, way)``, ways named and random, and the shares taken ``(document, gate)``."""
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = pretrained.load(checkpoint, device=device), pretrained.tokenizer(checkpoint)
    layers = load(network).encoder_layers()
    effects, shares = [], []
    for index, document in enumerate(load_documents(each=EACH)):
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        own = states[-1].mean(0)
        ended = [
            [
                run_without(states[0], layers, gate, torch.Generator().manual_seed(index) if at_random else None)
                for at_random in (False, True)
            ]
            for gate in range(len(gates.GATES))
        ]
        effects.append(
            [[1 - torch.cosine_similarity(rows.mean(0), own, dim=0).item() for rows, _ in ways] for ways in ended]
        )
        shares.append([ways[0][1] for ways in ended])
    arrays = {"effect": np.array(effects, np.float32), "share": np.array(shares, np.float32)}
    return Result({}, arrays, {"effect": 5e-3, "share": 0.01})


def run_without(
    x: Tensor, layers: list[EncoderLayer], gate: int, generator: torch.Generator | None = None
) -> tuple[Tensor, float]:
    """Run all layers without the cells of one gate, or with a generator without as much at random places.

    Returns
    -------
    tuple
        The rows at the end, and the share of the attention that was taken.
    """
    taken = []
    for layer in layers:
        maps = run_layer(x, layer).attention
        away = gates.read_gates(maps).cells == gate
        if generator is not None:
            away = draw_as_much(maps, (maps * away).sum(-1, keepdim=True), generator)
        taken.append((maps * away).sum(-1).mean().item())
        x = run_layer(x, layer, patched_attention=remove(maps, away)).second
    return x, float(np.mean(taken))


def remove(maps: Tensor, away: Tensor) -> Tensor:
    """Set cells to zero and make rows sum to 1 again; a row that would be left empty stays as it is.

    >>> remove(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[True, False, False]]))
    tensor([[0.0000, 0.6000, 0.4000]])
    """
    rest = maps.masked_fill(away, 0)
    total = rest.sum(-1, keepdim=True)
    return torch.where(total > 1e-6, rest / total.clamp_min(1e-6), maps)


def draw_as_much(maps: Tensor, share: Tensor, generator: torch.Generator) -> Tensor:
    """Choose cells of each row at random until they hold a share of it.

    >>> draw_as_much(torch.full((1, 4), 0.25), torch.tensor([[0.5]]), torch.Generator().manual_seed(0)).sum().item()
    2
    """
    order = torch.rand(maps.shape, generator=generator).to(maps).argsort(-1)
    ordered = maps.gather(-1, order)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(maps, dtype=torch.bool).scatter(-1, order, before < share - 1e-6)


EXPERIMENT = Experiment(
    "MiniLM without the cells that the gate detector named, gate by gate",
    compute,
    models=("minilm",),
    minutes=2,
    seed=SEED,
)
