"""Columns of a MiniLM that runs without its query biases, or with random ones as long.

The biases are changed in the weights of all layers, so that every layer reads what the changed layers before it left.
The record ``bert-gates-query-bias`` has each layer alone, on the inputs of the unchanged model.
"""

import numpy as np
import torch

from analysis.data import texts
from analysis.maps import gates
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.experiments.bert_gates_query_bias import TEXTS, WORDS
from book.lab.bias_exchange import DIRECTIONAL, draw_as_long
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

LONGEST = 128  # tokens of a document; passages are read whole
SEEDS = range(3)  # of random biases


def compute(device: torch.device) -> Result:
    """Return shares of columns ``(text, way)``, own, none and random by seed; and how far a text's vector turns."""
    found = checkpoints.find("minilm")
    tokenizer, network = pretrained.tokenizer(found), pretrained.load(found, device=device)
    own = [layer.b_Q.clone() for layer in load(network).layers]
    passages = texts.passages(longest=WORDS)[:TEXTS]
    documents = [document.text for document in load_documents()]
    shares, whole = {"passages": [], "documents": []}, {}
    turned = {"passages": [], "documents": []}
    for biases in [own, [0 * b for b in own], *(draw_as_long(own, seed) for seed in SEEDS)]:
        set_query_biases(network, biases)
        for name, read, longest in (
            ("passages", passages, network.config.max_position_embeddings),
            ("documents", documents, LONGEST),
        ):
            measured, vectors = columns_of(network, tokenizer, read, longest)
            shares[name].append(measured)
            cosine = (vectors * whole.setdefault(name, vectors)).sum(-1)
            turned[name].append((1 - cosine).numpy(force=True))
    arrays = {name: np.array(by_way, np.float32).T for name, by_way in shares.items()}
    arrays |= {f"{name} turned": np.array(by_way, np.float32).T for name, by_way in turned.items()}
    return Result({}, arrays, dict.fromkeys(shares, 0.01) | {f"{name} turned": 1e-3 for name in shares})


@torch.no_grad()
def set_query_biases(network: torch.nn.Module, biases: list[torch.Tensor]) -> None:
    """Write the biases ``(head, channel)`` of all layers into the weights of a BERT."""
    for block, bias in zip(network.encoder.layer, biases, strict=True):
        block.attention.self.query.bias.copy_(bias.flatten())


def columns_of(network: torch.nn.Module, tokenizer, read: list[str], longest: int) -> tuple[list[float], torch.Tensor]:
    """Return by text the share of the attention on columns, and the text's vector, of length 1."""
    shares, vectors = [], []
    for text in read:
        inputs = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt").to(network.device)
        with torch.no_grad():
            output = network(**inputs, output_attentions=True)
        maps = torch.cat(output.attentions)
        shares.append(gates.read_gates(maps).scores[..., DIRECTIONAL].mean().item())
        vectors.append(torch.nn.functional.normalize(output.last_hidden_state[0].mean(0), dim=0))
    return shares, torch.stack(vectors)


EXPERIMENT = Experiment(
    "Columns of a MiniLM that runs without its query biases, or with random ones as long",
    compute,
    models=("minilm",),
    minutes=2,
    seed=0,
)
