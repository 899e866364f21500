"""What each head of MiniLM contributes to the sentence embedding: one head at a time silenced or made uniform."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from analysis.data import texts
from analysis.models import attention_hooks, checkpoints, pretrained
from book.publish.records import Experiment, Result, Value

TEXTS, WORDS, SEED = 8, 100, 0
WAYS = ("zero", "uniform")


class Ablate:
    """Attention that changes one layer: sequence ``2 h`` of a batch loses head ``h``, ``2 h + 1`` gets it uniform.

    The last sequence is left as it is.
    """

    def __init__(self, layer: int):
        """Choose the layer."""
        self.layer = layer

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend; ``lengths`` must be ``None``: the sequences are copies of one."""
        output = scaled_dot_product_attention(query, key, value, scale=scale, is_causal=causal)
        if layer == self.layer:
            heads = torch.arange(value.shape[1], device=value.device)
            output[2 * heads, heads] = 0
            output[2 * heads + 1, heads] = (
                value[2 * heads + 1, heads].mean(-2, keepdim=True).expand(-1, value.shape[-2], -1)
            )
        return output


def effects(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Measure ``1 - cos`` between embeddings with and without each change: ``(text, layer, head, way)``.

    The unchanged embeddings come second. An embedding is the mean of the last hidden states, as MiniLM is used.
    """
    heads, found, whole = model.config.num_attention_heads, [], []
    for text in passages:
        inputs = tokenizer(
            text, truncation=True, max_length=model.config.max_position_embeddings, return_tensors="pt"
        ).to(model.device)
        copies = {name: tensor.expand(2 * heads + 1, -1) for name, tensor in inputs.items()}
        by_layer = []
        for layer in range(model.config.num_hidden_layers):
            with torch.no_grad(), attention_hooks.with_attention(model, Ablate(layer)):
                embedding = model(**copies).last_hidden_state.mean(1)
            by_layer.append(distance(embedding[:-1], embedding[-1]).reshape(heads, 2))
        found.append(torch.stack(by_layer))
        whole.append(embedding[-1])
    return torch.stack(found).cpu().numpy(), torch.stack(whole).cpu().numpy()


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Return ``1 - cos`` of rows with one vector, in float64."""
    return 1 - torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=-1)


def compute(device: torch.device) -> Result:
    """Silence or level each head of the trained model and of its control."""
    found = checkpoints.find("minilm")
    tokenizer, passages = pretrained.tokenizer(found), texts.passages(longest=WORDS)[:TEXTS]
    values, arrays = {}, {}
    for prefix, seed in (("", None), ("control_", SEED)):
        model = pretrained.load(found, control_seed=seed, attention="sdpa", device=device)
        effect, whole = effects(model, tokenizer, passages)
        arrays |= {f"{prefix}{way}": effect[..., i].astype(np.float32) for i, way in enumerate(WAYS)}
        unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
        apart = (1 - unit @ unit.T)[np.triu_indices(len(unit), 1)]
        values[f"{prefix}between_texts"] = Value(float(apart.mean()), 1e-4, n=len(apart))
    return Result(values, arrays, dict.fromkeys(arrays, 1e-4))


EXPERIMENT = Experiment(
    summary="effect of each head of MiniLM and of its control on the sentence embedding",
    models=("minilm",),
    compute=compute,
    minutes=3,
    seed=SEED,
)
