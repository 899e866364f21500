"""Does the query bias make the columns? MiniLM's maps with its own ``b_Q``, with none, and with another of its length.

Layer by layer on the inputs of the unchanged model, so that only the terms of the score that hold ``b_Q`` differ; and
in a MiniLM that runs with the biases changed in the weights of all layers, so that every layer reads what the changed
layers before it left.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from analysis.data import texts
from analysis.maps import gates, streaming
from analysis.models import attention_hooks, checkpoints, pretrained
from analysis.models.reading import load
from analysis.statistics.intervals import mean_interval
from book.lab.census import MOSTLY
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result, Value

TEXTS, WORDS, SEED = 12, 200, 0
LONGEST = 128  # tokens of a document; passages are read whole
SEEDS = range(3)  # of random biases
DIRECTIONAL = gates.GATES.index("directional")
WAYS = ("own", "none", "random")
"""Which ``b_Q``: the model's, zero, or a random direction of the same length in every head."""
CONTROL_WAYS = ("own", "lent")
"""In the control, whose own is zero: that, or the trained model's."""


class Exchange:
    """Attention that also reads its maps as they would be with other query biases; its output stays the model's.

    Parameters
    ----------
    own
        The biases of the model, ``(head, channel)`` by layer.
    others
        What to put in their place, by name; ``found`` gets ``(way, layer, head, gate)``.
    """

    def __init__(self, own: Sequence[Tensor], others: Mapping[str, Sequence[Tensor]]):
        """Start with nothing read."""
        self.own, self.others = own, others
        self.found = torch.zeros(len(others), len(own), len(own[0]), len(gates.GATES), dtype=torch.float64)

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend as the model does, and read the maps each bias would have made."""
        for way, biases in enumerate(self.others.values()):
            exchanged = query[0] + (biases[layer] - self.own[layer])[:, None]
            scores = torch.einsum("hqc,hkc->hqk", exchanged, key[0]) * scale
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf)
            self.found[way, layer] = gates.read_gates(scores.softmax(-1), causal=causal).scores.cpu()
        attend = streaming.visit_maps(lambda *_: None)
        return attend(layer, query, key, value, scale=scale, causal=causal, lengths=lengths)


def exchange(
    model: torch.nn.Module, tokenizer, passages: Sequence[str], others: Mapping[str, Sequence[Tensor]]
) -> np.ndarray:
    """Read all maps of the passages under each query bias: ``(text, way, layer, head, gate)``."""
    found = []
    for text in passages:
        inputs = tokenizer(
            text, truncation=True, max_length=model.config.max_position_embeddings, return_tensors="pt"
        ).to(model.device)
        attention = Exchange([layer.b_Q for layer in load(model).layers], others)
        with torch.no_grad(), attention_hooks.with_attention(model, attention):
            model(**inputs)
        found.append(attention.found)
    return torch.stack(found).numpy()


def draw_as_long(biases: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Draw biases in random directions, head by head as long as the given ones.

    >>> drawn, = draw_as_long([torch.tensor([[3.0, 4.0], [0.0, 1.0]])], 0)
    >>> drawn.norm(dim=-1).round(decimals=4).tolist()
    [5.0, 1.0]
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(b.shape, generator=generator).to(b) for b in biases]
    return [
        torch.nn.functional.normalize(d, dim=-1) * b.norm(dim=-1, keepdim=True)
        for b, d in zip(biases, drawn, strict=True)
    ]


def survey(
    model: torch.nn.Module, control: torch.nn.Module, tokenizer, passages: Sequence[str], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Exchange the biases of a model, and lend them to its control: two arrays ``(text, way, layer, head, gate)``."""
    own = [layer.b_Q for layer in load(model).layers]
    biases = {"own": own, "none": [0 * b for b in own], "random": draw_as_long(own, seed)}
    lent = {"own": [layer.b_Q for layer in load(control).layers], "lent": own}
    return exchange(model, tokenizer, passages, biases), exchange(control, tokenizer, passages, lent)


def columns(trained: np.ndarray, lent: np.ndarray, mostly: float) -> dict[str, np.ndarray]:
    """Return shares of columns by text: of all maps, of those with at least ``mostly`` at first, and of the control."""
    own, borrowed = trained[..., DIRECTIONAL], lent[..., DIRECTIONAL]
    chosen = own[:, 0] >= mostly
    found = {}
    for i, way in enumerate(WAYS):
        found[f"columns_{way}"] = own[:, i].mean((1, 2))
        found[f"mostly_{way}"] = np.array([c[m].mean() for c, m in zip(own[:, i], chosen, strict=True) if m.any()])
    return found | {f"control_{way}": borrowed[:, i].mean((1, 2)) for i, way in enumerate(CONTROL_WAYS)}


def exchange_by_layer(device: torch.device) -> Result:
    """Columns of MiniLM with its query biases, without them, and with others.

    Exchange the biases of MiniLM, and lend them to its control; shares of columns with intervals over texts.
    """
    found = checkpoints.find("minilm")
    model, control = (pretrained.load(found, control_seed=seed, device=device) for seed in (None, SEED))
    passages = texts.passages(longest=WORDS)[:TEXTS]
    trained, lent = survey(model, control, pretrained.tokenizer(found), passages, SEED)
    values = {"maps_mostly": Value(int((trained[:, 0, ..., DIRECTIONAL] >= MOSTLY).sum()), 20)}
    for name, by_text in columns(trained, lent, MOSTLY).items():
        interval = mean_interval(by_text)
        values[name] = Value(round(interval.value, 9), 0.01, interval.low, interval.high, n=len(by_text))
    arrays = {"scores": trained.mean(0), "control_scores": lent.mean(0)}
    return Result(values, {name: a.astype(np.float32) for name, a in arrays.items()}, dict.fromkeys(arrays, 0.02))


def run_without(device: torch.device) -> Result:
    """Columns of a MiniLM that runs without its query biases, or with random ones as long.

    Return shares of columns ``(text, way)``, own, none and random by seed; and how far a text's vector turns.
    """
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


EXPERIMENTS = {
    "bert-gates-query-bias": Experiment(exchange_by_layer, models=("minilm",), minutes=3, seed=SEED),
    "bert-gates-without-query-bias": Experiment(run_without, models=("minilm",), minutes=2, seed=0),
}
