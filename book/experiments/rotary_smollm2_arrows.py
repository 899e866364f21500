"""The kernels of SmolLM2's previous-token heads as arrows that turn: one arrow for each pair of coordinates.

The two constant vectors are a head's mean query and mean key over all the prose of ``rotary-smollm2``, as in that
record's ``curve``; the heads are its twelve strongest.
"""

import numpy as np
import torch

from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models import pretrained
from book.experiments.rotary_smollm2 import LENGTH, MODEL, PROSE, read_layers, take
from book.lab.documents import load_documents
from book.publish import experiments
from book.publish.records import Experiment, Result


def compute(device: torch.device) -> Result:
    """The kernels of SmolLM2's previous-token heads as arrows that turn.

    Read ``length`` and ``angle (head, pair)``, in nats and radians, ``turn`` in radians per token, and ``head``.
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


EXPERIMENT = Experiment(compute, models=(MODEL,), minutes=1.0, seed=0)
