"""What silencing or levelling each head of MiniLM does to documents, beside its entropy; and in the controls."""

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from analysis.maps import entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import EncoderLayer, encode, run_layer
from book.lab.ablation import change_each_head
from book.lab.document_ladder import survey_documents
from book.publish.records import Experiment, Result

LONGEST = 64  # tokens of a document
WAYS = ("silenced", "levelled")
"""A head's output is set to 0, or its maps to 1/n."""


def compute(device: torch.device) -> Result:
    """Silencing or levelling each head of MiniLM on documents, with the entropy of its maps; and in its controls."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        return measure_heads(states[0], load(network).encoder_layers())

    return survey_documents(measure, each_of_controls=1, device=device)


def measure_heads(x: Tensor, layers: list[EncoderLayer]) -> dict[str, np.ndarray]:
    """Measure every head on one text, whose embedded tokens are ``x``.

    Returns
    -------
    dict
        ``(layer, head)``: ``silenced`` and ``levelled``, 1 minus the cosine of the mean rows at the end, with the head
        as it is and changed; ``entropy``, that of the rows of its map relative to ln n. ``(layer)``: ``silenced link``
        and ``levelled link``, the rank correlation of these with the entropy over the heads of the layer.
    """
    end = encode(x, layers)[-1].double().mean(0)
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*WAYS, "entropy")}
    for place, layer in enumerate(layers):
        maps = run_layer(x, layer).attention
        found["entropy"].append(entropy.relative_entropy(maps).mean(-1).numpy(force=True))
        for way, instead in zip(WAYS, (0, 1 / maps.shape[-1]), strict=True):
            rows = change_each_head(x, layers[place:], instead)
            effect = 1 - torch.cosine_similarity(rows.double().mean(-2), end, dim=-1)
            found[way].append(effect.numpy(force=True))
        x = run_layer(x, layer).second
    arrays = {name: np.stack(by_layer) for name, by_layer in found.items()}
    links = {
        f"{way} link": np.array(
            [spearmanr(*of_layer).statistic for of_layer in zip(arrays[way], arrays["entropy"], strict=True)]
        )
        for way in WAYS
    }
    return arrays | links


EXPERIMENT = Experiment(compute, models=("minilm",), minutes=8, seed=0)
