"""What reading MiniLM's maps hangs on: how much attention makes a gate; how strong columns are, and if in bundles."""

import numpy as np
import torch

from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import SHARP, make_controls
from analysis.models.reading import load
from analysis.transformer.attention import attend
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

LONGEST, EACH = 128, 1  # tokens of a document, and documents of every kind for the controls
THRESHOLDS = (0.02, 0.05, 0.1)  # of a map's attention


def compute(device: torch.device) -> Result:
    """Return shares of the maps by threshold, of MiniLM ``(document, ...)`` and of random W_Q and W_K as large.

    These are ``(seed, ...)``. Then of both the mean share of a map's attention on its strongest column; and by document
    the shares of MiniLM's columns that stand in bundles: of what columns carry, and of their number.
    """
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = pretrained.load(checkpoint, device=device), pretrained.tokenizer(checkpoint)
    documents, fewer = ([each.text for each in load_documents(each=count)] for count in (None, EACH))
    trained = [read_maps(network, tokenizer, text) for text in documents]
    controls = make_controls(
        network, lambda seed: pretrained.load(checkpoint, control_seed=seed, device=device), levels=(SHARP,)
    )
    random = [[read_maps(each.network, tokenizer, text)[:2] for text in fewer] for each in controls]
    holding, strongest, bundled = zip(*trained)
    arrays = {
        "trained": np.array(holding),
        "random": np.array([np.mean([holding for holding, _ in seed], 0) for seed in random]),
        "strongest": np.array(strongest),
        "strongest of random": np.array([np.mean([strongest for _, strongest in seed]) for seed in random]),
        "in bundles": np.array(bundled),
    }
    arrays = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, arrays, dict.fromkeys(arrays, 0.02))


def read_maps(network: torch.nn.Module, tokenizer, text: str) -> tuple[list[float], float, tuple[float, float]]:
    """Return the share of a text's maps with a gate, by threshold, and the mean attention on a map's strongest column.

    Then the shares of its columns in bundles.
    """
    (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
    maps = torch.cat([attend(x, layer).attention for x, layer in zip(states, load(network).plain_layers())])
    reading = gates.read_gates(maps)
    largest = reading.scores[:, : len(gates.PATTERNS)].amax(1)
    holding = [(largest >= threshold).double().mean().item() for threshold in THRESHOLDS]
    return holding, reading.columns.amax(1).mean().item(), in_bundles(reading.columns)


def in_bundles(columns: torch.Tensor) -> tuple[float, float]:
    """Return the share of what columns carry ``(map, key)`` on a column with a column right beside it, and of columns.

    >>> in_bundles(torch.tensor([[0.5, 0.0, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]]))
    (0.25, 0.5)
    """
    line = columns > 0
    around = torch.nn.functional.pad(line, (1, 1))
    bundled = line & (around[:, :-2] | around[:, 2:])
    shares = (columns * bundled).sum() / columns.sum().clamp_min(1e-9), bundled.sum() / line.sum().clamp_min(1)
    return shares[0].item(), shares[1].item()


EXPERIMENT = Experiment(
    "Maps of MiniLM and of large random weights with a gate, by the share of the attention that makes one; their "
    "strongest columns, and columns in bundles",
    compute,
    models=("minilm",),
    minutes=2,
    seed=0,
)
