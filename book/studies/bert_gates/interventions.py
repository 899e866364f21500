"""Heads silenced, made uniform or levelled, and biases exchanged: what the sentence and its maps owe to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from analysis.data import texts
from analysis.models import attention_hooks, checkpoints, pretrained
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Experiment, Result, Value
from book.studies.bert_gates import query_bias
from book.studies.bert_gates.gate_census import (
    CLOSED,
    GateCensus,
    Ratio,
    bound_ratio,
    number_phrase,
    ratio_of,
    share_phrase,
)

# ---- What each head of MiniLM contributes to the sentence embedding: one head at a time silenced or made uniform

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


def measure_effects(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
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
        effect, whole = measure_effects(model, tokenizer, passages)
        arrays |= {f"{prefix}{way}": effect[..., i].astype(np.float32) for i, way in enumerate(WAYS)}
        unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
        apart = (1 - unit @ unit.T)[np.triu_indices(len(unit), 1)]
        values[f"{prefix}between_texts"] = Value(float(apart.mean()), 1e-4, n=len(apart))
    return Result(values, arrays, dict.fromkeys(arrays, 1e-4))


# ---- Closed heads silenced or levelled, and biases exchanged: what the sentence and its maps owe to them

OWN_TEXTS, OWN_WORDS = 2, 100
MOSTLY = 0.5  # a head is closed from this share of its maps on

ByHead = Float[np.ndarray, "layer head"]


@dataclass(frozen=True)
class Medians:
    """Median of 1 - cos over closed heads, over all others, and over the others of layer 0; nan where there is none."""

    level_closed: float
    level_other: float
    level_peers: float
    zero_closed: float
    zero_other: float
    zero_peers: float


@dataclass(frozen=True)
class Ablation:
    """The closed share of every head, and how far the embedding moves (1 - cos, mean over texts) without it.

    ``effects`` has for the trained model and the control what silencing a head (``zero``) and levelling its map
    (``uniform``) do.
    """

    source: str
    closed: Mapping[str, ByHead]
    effects: Mapping[str, Mapping[str, ByHead]]
    closed_heads: int
    closed_in_first_layer: int
    others_in_first_layer: int
    medians: Medians


@dataclass(frozen=True)
class AblationNumbers(Numbers):
    """The medians in the page's text."""

    level_closed: str
    level_other: str
    level_peers: str
    zero_closed: str
    zero_other: str
    zero_peers: str


def measure_ablation(inputs: Inputs, census: GateCensus) -> tuple[Ablation, AblationNumbers]:
    """Take the effects from their record, or ablate the heads of a reader's model, and compare closed heads."""
    if inputs.departs:
        effects, source = ablate_heads(inputs), "Computed just now."
    else:
        record, source = live_or_record("bert-gates-ablation", inputs)
        effects = {
            which: {way: record.array(prefix + way).mean(0) for way in ("zero", "uniform")}
            for which, prefix in (("trained", ""), ("control", "control_"))
        }
    closed = {which: scores[..., CLOSED] for which, scores in census.scores.items()}
    ablation = compare_closed_heads(source, closed, effects)
    phrases = {name: number_phrase(value, ".4f") for name, value in vars(ablation.medians).items()}
    return ablation, AblationNumbers(**phrases)


def compare_closed_heads(
    source: str, closed: Mapping[str, ByHead], effects: Mapping[str, Mapping[str, ByHead]]
) -> Ablation:
    """Compare the trained model's closed heads with all others, and with the others of layer 0."""
    is_closed = closed["trained"] >= MOSTLY
    is_peer = ~is_closed
    is_peer[1:] = False
    groups = {"closed": is_closed, "other": ~is_closed, "peers": is_peer}
    medians = Medians(
        **{
            f"{name}_{group}": median(effects["trained"][way][heads])
            for name, way in (("level", "uniform"), ("zero", "zero"))
            for group, heads in groups.items()
        }
    )
    return Ablation(source, closed, effects, int(is_closed.sum()), int(is_closed[0].sum()), int(is_peer.sum()), medians)


def ablate_heads(inputs: Inputs) -> dict[str, dict[str, np.ndarray]]:
    """Silence and level each head of a reader's model and of its control on a few short texts."""
    checkpoint, effects = checkpoints.find(inputs.model), {}
    tokenizer = pretrained.tokenizer(checkpoint)
    passages = texts.passages(longest=OWN_WORDS, count=OWN_TEXTS, source=inputs.texts)
    for which, seed in (("trained", None), ("control", 0)):
        model = pretrained.load(checkpoint, control_seed=seed, device=inputs.device)
        effect, _ = measure_effects(model, tokenizer, passages)
        effects[which] = {"zero": effect[..., 0].mean(0), "uniform": effect[..., 1].mean(0)}
    return effects


def median(values: np.ndarray) -> float:
    """Return the median, or nan where there is no value."""
    return float(np.median(values)) if values.size else np.nan


EXCHANGE_TEXTS, EXCHANGE_WORDS = 4, 100


@dataclass(frozen=True)
class BiasExchange:
    """The share of the attention on columns, by maps (all, mostly directional, the control's) and query bias."""

    source: str
    columns: Mapping[str, Ratio]


@dataclass(frozen=True)
class BiasNumbers(Numbers):
    """The share of the attention on columns in the page's text, in per cent."""

    columns_texts: int
    columns_own: str
    columns_none: str
    columns_random: str
    mostly_own: str
    mostly_none: str
    mostly_random: str
    control_own: str
    control_lent: str


def measure_bias_exchange(inputs: Inputs) -> tuple[BiasExchange, BiasNumbers]:
    """Take the shares from their record, or exchange the biases of a reader's model."""
    if inputs.departs:
        result, source = exchange_biases(inputs), "Computed just now."
    else:
        result, source = live_or_record("bert-gates-query-bias", inputs)
    columns = {name: bound_ratio(ratio_of(value)) for name, value in result.values.items() if name != "maps_mostly"}
    shares = {name: share_phrase(ratio.value, digits=1 if "control" in name else 0) for name, ratio in columns.items()}
    numbers = BiasNumbers(columns["columns_own"].texts, **shares)
    return BiasExchange(source, columns), numbers


def exchange_biases(inputs: Inputs) -> Result:
    """Exchange the biases of a reader's model and of its control on a few short texts."""
    checkpoint = checkpoints.find(inputs.model)
    passages = texts.passages(longest=EXCHANGE_WORDS, count=EXCHANGE_TEXTS, source=inputs.texts)
    pair = [pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for seed in (None, 0)]
    return query_bias.survey(*pair, pretrained.tokenizer(checkpoint), passages)


EXPERIMENTS = {
    "ablation": Experiment(
        summary="effect of each head of MiniLM and of its control on the sentence embedding",
        models=("minilm",),
        compute=compute,
        minutes=3,
        seed=SEED,
    )
}
