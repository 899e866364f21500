"""What is recorded of the shares: GPT-2 without tokens, heads that lose a part, the ladder of controls, and seeds."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from analysis.core.attention_layer import Norm
from analysis.data.texts import passages
from analysis.decomposition.folding import fold_norm
from analysis.models import attention_hooks, checkpoints, extraction, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import attend, mask_future
from analysis.transformer.layernorm import sigma
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value
from book.studies.one_score_four_parts import parts
from book.studies.one_score_four_parts.parts import FAMILIES, distances, inputs, split_layer
from book.studies.shared.gpt2_mini_runs import SEEDS, find_run
from book.studies.shared.ladder import measure_controls

POSITIONS, SHOWN = 128, 64


def read_gpt2(ck: checkpoints.Checkpoint, *, control: bool = False, device: torch.device | str = "cpu"):
    """Return the folded first layer and what of its input positions make."""
    model = load(ck, dtype=torch.float64)
    if control:
        g = torch.Generator().manual_seed(0)
        p = 0.02 * torch.randn(model.config.max_position_embeddings, model.width, generator=g, dtype=torch.float64)
        ones = torch.ones(model.width, dtype=torch.float64)
        layer, ln = random_attention_layer(model, 0, dtype=torch.float64), Norm(ones, 0 * ones)
    else:
        p, layer, ln = model.positions, model.layers[0].plain(), model.norm("attention")
    layer, ln, p = layer.to(device), ln.to(device), p.to(device)
    width = sigma(p, ln.eps)
    width = (width**2 + width.median() ** 2).sqrt()
    return fold_norm(layer, ln), (p / width[:, None])[:POSITIONS]


def measure_gpt2(device) -> Result:
    """Measure the layer and its control."""
    arrays, values = {}, {}
    for prefix in ("", "control_"):
        layer, x = read_gpt2(checkpoints.find("gpt2"), control=bool(prefix), device=device)
        maps = attend(x, layer).attention
        whole, parts, _, _, gap = split_layer([x], layer, True)
        values[f"{prefix}gap"] = Value(gap, tolerance=1e-9)
        arrays |= {
            f"{prefix}divergence": whole,
            f"{prefix}parts": parts,
            f"{prefix}distance": distances(maps, torch.arange(len(x), device=device), causal=True).cpu().numpy(),
        }
        nearest = arrays[f"{prefix}distance"].argmin(0)
        if not prefix:
            arrays["maps"] = maps[nearest, :SHOWN, :SHOWN].to(torch.float16).cpu().numpy()
    tolerances = {name: 1e-3 if name == "maps" else 1e-6 for name in arrays}
    values["families"] = Value(len(FAMILIES))
    return Result(values, {name: np.asarray(a) for name, a in arrays.items()}, tolerances)


MODELS = ("minilm", "gpt2-mini")
WINDOWS = 24
WAYS = ("mean query", "no query bias", "constant map", "uniform")


class Observe:
    """Attention as it is, which keeps each layer's queries and maps."""

    def __init__(self):
        """Start with nothing seen."""
        self.queries: dict[int, Tensor] = {}
        self.maps: dict[int, Tensor] = {}

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend, and keep what was seen."""
        self.queries[layer], self.maps[layer] = query, weights(query, key, scale, causal)
        return self.maps[layer] @ value


class Change:
    """Attention in which copy ``way * heads + h`` of a text has head ``h`` of one layer changed; the last is left."""

    def __init__(
        self,
        layer: int,
        query: Float[Tensor, "head channel"],
        bias: Float[Tensor, "head channel"],
        constant: Float[Tensor, "head query key"],
    ):
        """Take the mean query, the query bias and the mean map of each head of the layer."""
        self.layer, self.query, self.bias, self.constant = layer, query, bias, constant

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend."""
        if layer != self.layer:
            return weights(query, key, scale, causal) @ value
        heads = torch.arange(query.shape[1], device=query.device)
        copies = [way * len(heads) + heads for way in range(len(WAYS))]
        query = query.clone()
        query[copies[0], heads] = self.query[:, None]
        query[copies[1], heads] -= self.bias[:, None]
        query[copies[3], heads] = 0
        maps = weights(query, key, scale, causal)
        maps[copies[2], heads] = self.constant
        return maps @ value


def weights(query: Tensor, key: Tensor, scale: float, causal: bool) -> Float[Tensor, "copy head query key"]:
    """Return attention weights."""
    scores = scale * query @ key.mT
    return (mask_future(scores) if causal else scores).softmax(-1)


def measure(checkpoint: checkpoints.Checkpoint, device: torch.device) -> Float[np.ndarray, "way layer head"]:
    """Return the mean over texts of what each change of each head does to a model: a gpt2-mini, or a BERT."""
    predicts = load(checkpoint).causal
    model = pretrained.load(checkpoint, task="lm" if predicts else "base", device=device)
    texts = (windows(checkpoint) if predicts else cut(inputs(checkpoint))).to(device)
    biases = [layer.b_Q for layer in load(model).layers]
    queries, maps = observe(model, texts)
    by_layer = []
    for layer, bias in enumerate(biases):
        change = Change(layer, queries[layer], bias, maps[layer])
        by_layer.append(torch.stack([effects(model, text, change) for text in texts]).mean(0))
    return torch.stack(by_layer, 1).cpu().numpy()


def windows(checkpoint: checkpoints.Checkpoint) -> Int[Tensor, "text position"]:
    """Return windows of the book's passages, as long as gpt2-mini's context."""
    text = "\n\n".join(passages())
    return gpt2_mini.windows(gpt2_mini.encode(pretrained.tokenizer(checkpoint), text), WINDOWS)[:, :-1]


def cut(texts: Sequence[Int[Tensor, " position"]]) -> Int[Tensor, "text position"]:
    """Cut the texts to the length of the shortest, so that a map can be averaged over them."""
    length = min(map(len, texts))
    return torch.stack([text[:length] for text in texts])


@torch.no_grad()
def observe(model: torch.nn.Module, texts: Int[Tensor, "text position"]) -> tuple[list[Tensor], list[Tensor]]:
    """Return by layer the mean query and the mean map of each head, over all texts."""
    seen = Observe()
    with attention_hooks.with_attention(model, seen):
        model(texts)
    order = sorted(seen.queries)
    return [seen.queries[i].mean((0, 2)) for i in order], [seen.maps[i].mean(0) for i in order]


@torch.no_grad()
def effects(model: torch.nn.Module, text: Int[Tensor, " position"], change: Change) -> Float[Tensor, "way head"]:
    """Return what each change does to one text: the rise of the loss in nats, or ``1 - cos`` of the embedding."""
    heads = len(change.query)
    copies = text.expand(len(WAYS) * heads + 1, -1)
    with attention_hooks.with_attention(model, change):
        output = model(copies)
    if hasattr(output, "logits"):
        following = copies[:, 1:]
        losses = cross_entropy(output.logits[:, :-1].mT, following, reduction="none").mean(1)
        result = losses[:-1] - losses[-1]
    else:
        embeddings = output.last_hidden_state.double().mean(1)
        result = 1 - cosine_similarity(embeddings[:-1], embeddings[-1:])
    return result.reshape(len(WAYS), heads)


def intervene(device: torch.device) -> Result:
    """Change every head of both models."""
    arrays = {name: measure(checkpoints.find(name), device).astype(np.float32) for name in MODELS}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


TEXTS = 3
MEASURES = ("divergence", "content", "common", "semi-bias")


def measure_ladder(device: torch.device) -> Result:
    """Return nats by layer, mean of heads, rows and texts: of the trained model, and ``(rung, seed, ...)``."""
    checkpoint = checkpoints.find("minilm")
    texts = [ids.to(device) for ids in inputs(checkpoint)[:TEXTS]]
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def measure(network):
        return nats(network, texts)

    arrays = {"trained": measure(trained), "controls": measure_controls(make_controls(trained, draw), measure)}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


@torch.no_grad()
def nats(network: torch.nn.Module, texts: list[torch.Tensor]) -> Float[np.ndarray, "layer measure"]:
    """Return divergence, content, common part and semi-bias of each layer, in the order of ``MEASURES``."""
    runs = [network(ids[None], output_hidden_states=True).hidden_states for ids in texts]
    read = [extraction.attention_inputs(network, [state[0] for state in states]) for states in runs]
    rows = []
    for layer, weights in enumerate(load(network).plain_layers()):
        divergence, parts, *_ = split_layer([xs[layer] for xs in read], weights, False)
        rows.append([divergence.mean(), *parts[:, :3].mean(0)])
    return np.array(rows)


def measure_seeds(device: torch.device) -> Result:
    """Return ``divergence``, ``parts``, ``first`` and ``effects`` as the survey and the interventions do, by seed."""
    by_seed = [measure_seed(checkpoints.find(str(find_run(seed, device))), device) for seed in SEEDS]
    arrays = {name: np.stack([each[name] for each in by_seed]).astype(np.float32) for name in by_seed[0]}
    return Result({}, arrays, dict.fromkeys(arrays, 0.5))


def measure_seed(checkpoint: checkpoints.Checkpoint, device: torch.device) -> dict[str, np.ndarray]:
    """Measure one seed."""
    survey = parts.survey(checkpoint, device=device)
    return {
        "divergence": survey.divergence,
        "parts": survey.parts,
        "first": survey.first,
        "effects": measure(checkpoint, device),
    }


EXPERIMENTS = {
    "gpt2": Experiment(
        "GPT-2's first layer, positions alone: nearest prototypes, parts' shares",
        measure_gpt2,
        models=("gpt2",),
        minutes=0.2,
        seed=0,
    ),
    "interventions": Experiment(
        "What MiniLM and gpt2-mini lose with one head's queries, query bias or map made constant",
        intervene,
        models=MODELS,
        minutes=1.0,
        seed=0,
    ),
    "ladder": Experiment(
        "What content, common part and semi-bias explain in MiniLM and in its controls",
        measure_ladder,
        models=("minilm",),
        minutes=2.0,
        seed=0,
    ),
    "seeds": Experiment(
        "What the parts of the score explain in several seeds of gpt2-mini, and what their loss says",
        measure_seeds,
        models=("gpt2-mini",),
        minutes=25.0,
        seed=SEEDS[-1],
    ),
}
