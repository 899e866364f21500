"""What content, common part and semi-bias explain: by layer in controls, by length and by seed, and in GPT-2.

GPT-2's first layer is read without tokens: a position stands in the LayerNorm with a token of the median width.
"""

import numpy as np
import torch
from jaxtyping import Float

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.data import texts
from analysis.decomposition.folding import fold_norm
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import sigma
from book.lab.gpt2_mini_runs import SEEDS, find_run
from book.lab.head_changes import change_heads
from book.lab.ladder import measure_controls
from book.lab.score_survey import FAMILIES, PARTS, PASSAGES, TOKENS, distances, read_texts, split_layer, survey
from book.publish.records import Experiment, Result, Value

MODELS = ("minilm", "gpt2-mini")
MEASURES = ("divergence", *PARTS)
TEXTS = 3  # of the ladder
LENGTHS = (16, 32, TOKENS, 128, 200, 400)  # tokens
POSITIONS, SHOWN = 128, 64  # of GPT-2


def survey_ladder(device: torch.device) -> Result:
    """What content, common part and semi-bias explain in MiniLM and in its controls.

    Return nats by layer, mean of heads, rows and texts: of the trained model, and ``(level, seed, ...)``.
    """
    checkpoint = checkpoints.find("minilm")
    texts = [ids.to(device) for ids in read_texts(checkpoint)[:TEXTS]]
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def measure(network):
        return nats(network, texts)

    arrays = {"trained": measure(trained), "controls": measure_controls(make_controls(trained, draw), measure)}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


def nats(network: torch.nn.Module, texts: list[torch.Tensor]) -> Float[np.ndarray, "layer measure"]:
    """Return divergence, content, common part and semi-bias of each layer, in the order of ``MEASURES``."""
    read, rows = [layer_inputs(network, ids) for ids in texts], []
    for number, layer in enumerate(load(network).plain_layers()):
        split = split_layer([xs[number] for xs in read], layer, causal=False)
        rows.append([split.divergence.mean(), *split.parts[:, : len(PARTS)].mean(0)])
    return np.array(rows)


def survey_lengths(device: torch.device) -> Result:
    """The parts' shares in MiniLM's attention, by how much of a text is read.

    Split the divergence of every layer on the first tokens of the same passages.
    """
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    model = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    layers = load(model).plain_layers()
    read = [tokenizer(text, truncation=True, max_length=LENGTHS[-1])["input_ids"] for text in texts.passages()]
    long = [ids for ids in read if len(ids) == LENGTHS[-1]][:PASSAGES]
    found = []
    for length in LENGTHS:
        states = [layer_inputs(model, torch.tensor([*ids[: length - 1], ids[-1]]).to(device)) for ids in long]
        by_layer = [[of_text[number] for of_text in states] for number in range(len(layers))]
        found.append(
            [
                [split_layer(xs, layer, causal=False, first=first).by_text for xs, layer in zip(by_layer, layers)]
                for first in (True, False)
            ]
        )
    parts = np.array(found)[..., : len(PARTS)].sum(4).transpose(1, 0, 3, 2, 4)  # (keys, length, text, layer, part)
    arrays = {"lengths": np.array(LENGTHS), "parts": parts[0], "parts of the others": parts[1]}
    return Result({}, arrays, {"parts": 1e-6, "parts of the others": 1e-6})


@torch.no_grad()
def layer_inputs(model: torch.nn.Module, ids: torch.Tensor) -> list[torch.Tensor]:
    """Return the inputs of every layer on one text."""
    return [state[0] for state in model(ids[None], output_hidden_states=True).hidden_states[:-1]]


def survey_seeds(device: torch.device) -> Result:
    """What the parts of the score explain in several seeds of gpt2-mini, and what their loss says.

    Return ``divergence``, ``parts``, ``first`` and ``effects`` as the survey and the changes do, by seed.
    """
    by_seed = [measure_seed(checkpoints.find(str(find_run(seed, device))), device) for seed in SEEDS]
    arrays = {name: np.stack([each[name] for each in by_seed]).astype(np.float32) for name in by_seed[0]}
    return Result({}, arrays, dict.fromkeys(arrays, 0.5))


def measure_seed(checkpoint: checkpoints.Checkpoint, device: torch.device) -> dict[str, np.ndarray]:
    """Measure one seed."""
    found = survey(checkpoint, device=device)
    return {name: found[name] for name in ("divergence", "parts", "first")} | {
        "effects": change_heads(checkpoint, device)
    }


def change_models(device: torch.device) -> Result:
    """What MiniLM and gpt2-mini lose with one head's queries, query bias or map made constant.

    Change every head of both models; ``(way, layer, head)`` each.
    """
    arrays = {name: change_heads(checkpoints.find(name), device).astype(np.float32) for name in MODELS}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


def read_first_layer(
    checkpoint: checkpoints.Checkpoint, *, control: bool = False, device: torch.device | str = "cpu"
) -> tuple[AttentionLayer, torch.Tensor]:
    """Return the folded first layer, or a random one, and what of its input positions make."""
    model = load(checkpoint, dtype=torch.float64)
    if control:
        draws = torch.Generator().manual_seed(0)
        shape = model.config.max_position_embeddings, model.width
        positions = 0.02 * torch.randn(shape, generator=draws, dtype=torch.float64)
        ones = torch.ones(model.width, dtype=torch.float64)
        layer, norm = random_attention_layer(model, 0, dtype=torch.float64), Norm(ones, 0 * ones)
    else:
        positions, layer, norm = model.positions, model.layers[0].plain(), model.norm("attention")
    layer, norm, positions = layer.to(device), norm.to(device), positions.to(device)
    width = sigma(positions, norm.eps)
    width = (width**2 + width.median() ** 2).sqrt()
    return fold_norm(layer, norm), (positions / width[:, None])[:POSITIONS]


def survey_gpt2(device: torch.device) -> Result:
    """GPT-2's first layer, positions alone: nearest prototypes, parts' shares."""
    arrays, values = {}, {}
    for prefix in ("", "control_"):
        layer, x = read_first_layer(checkpoints.find("gpt2"), control=bool(prefix), device=device)
        maps = attend(x, layer).attention
        split = split_layer([x], layer, causal=True)
        values[f"{prefix}gap"] = Value(split.gap, tolerance=1e-9)
        arrays |= {
            f"{prefix}divergence": split.divergence,
            f"{prefix}parts": split.parts,
            f"{prefix}distance": distances(maps, torch.arange(len(x), device=device), causal=True).cpu().numpy(),
        }
        nearest = arrays[f"{prefix}distance"].argmin(0)
        if not prefix:
            arrays["maps"] = maps[nearest, :SHOWN, :SHOWN].to(torch.float16).cpu().numpy()
    tolerances = {name: 1e-3 if name == "maps" else 1e-6 for name in arrays}
    values["families"] = Value(len(FAMILIES))
    return Result(values, {name: np.asarray(array) for name, array in arrays.items()}, tolerances)


EXPERIMENTS = {
    "one-score-four-parts-ladder": Experiment(survey_ladder, models=("minilm",), minutes=2.0, seed=0),
    "one-score-four-parts-lengths": Experiment(survey_lengths, models=("minilm",), minutes=2, seed=0),
    "one-score-four-parts-seeds": Experiment(survey_seeds, models=("gpt2-mini",), minutes=25.0, seed=SEEDS[-1]),
    "one-score-four-parts-interventions": Experiment(change_models, models=MODELS, minutes=1.0, seed=0),
    "one-score-four-parts-gpt2": Experiment(survey_gpt2, models=("gpt2",), minutes=0.2, seed=0),
}
