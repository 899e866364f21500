"""Does the query bias make the columns? MiniLM's maps with its own ``b_Q``, with none, and with another of its length.

Layer by layer on unchanged inputs, so that only the four terms of the score that hold ``b_Q`` differ.
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
from book.publish.records import Experiment, Result, Value
from book.studies.shared.census import MOSTLY

TEXTS, WORDS, SEED = 12, 200, 0
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


def survey(model: torch.nn.Module, control: torch.nn.Module, tokenizer, passages: Sequence[str]) -> Result:
    """Exchange the biases of a model, and lend them to its control; shares of columns with intervals over texts."""
    own = [layer.b_Q for layer in load(model).layers]
    seeded = torch.Generator().manual_seed(SEED)
    drawn = [torch.randn(b.shape, generator=seeded).to(b) for b in own]
    turned = [
        torch.nn.functional.normalize(d, dim=-1) * b.norm(dim=-1, keepdim=True) for b, d in zip(own, drawn, strict=True)
    ]
    trained = exchange(model, tokenizer, passages, {"own": own, "none": [0 * b for b in own], "random": turned})
    lent = exchange(control, tokenizer, passages, {"own": [layer.b_Q for layer in load(control).layers], "lent": own})
    columns = trained[..., gates.GATES.index("directional")]
    mostly = columns[:, 0] >= MOSTLY
    values = {"maps_mostly": Value(int(mostly.sum()), 20)}
    for i, way in enumerate(WAYS):
        values[f"columns_{way}"] = _value(columns[:, i].mean((1, 2)))
        values[f"mostly_{way}"] = _value(
            np.array([c[m].mean() for c, m in zip(columns[:, i], mostly, strict=True) if m.any()])
        )
    for i, way in enumerate(CONTROL_WAYS):
        values[f"control_{way}"] = _value(lent[:, i, ..., gates.GATES.index("directional")].mean((1, 2)))
    arrays = {"scores": trained.mean(0), "control_scores": lent.mean(0)}
    return Result(values, {name: a.astype(np.float32) for name, a in arrays.items()}, dict.fromkeys(arrays, 0.02))


def _value(by_text: np.ndarray) -> Value:
    if len(by_text) < 2:  # a model without such maps, or one text with some
        return Value(
            float(by_text.mean()) if len(by_text) else float("nan"), 0.01, float("nan"), float("nan"), n=len(by_text)
        )
    interval = mean_interval(by_text)
    return Value(round(interval.value, 9), 0.01, interval.low, interval.high, n=len(by_text))


def compute(device: torch.device) -> Result:
    """Exchange the biases of MiniLM."""
    found = checkpoints.find("minilm")
    model, control = (pretrained.load(found, control_seed=seed, device=device) for seed in (None, SEED))
    return survey(model, control, pretrained.tokenizer(found), texts.passages(longest=WORDS)[:TEXTS])


EXPERIMENT = Experiment(
    summary="columns of MiniLM with its query biases, without them, and with others",
    models=("minilm",),
    compute=compute,
    minutes=3,
    seed=SEED,
)
