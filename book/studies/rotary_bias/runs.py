"""The models trained for the chapter on rotary positions: which there are, and what is measured of each.

Its loss without parts of the scores, in all heads and in one; what the parts explain; its loss at any length.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from analysis.core.files import claim_folder
from analysis.core.positions import Rotary
from analysis.decomposition.rotary_channels import split_channels
from analysis.models import checkpoints, pretrained, reading
from analysis.transformer.attention import mask_future
from analysis.transformer.rotary_scaling import interpolate_positions, ntk_aware, yarn
from book.lab.rotary_probe import make_probe
from book.lab.training import gpt2_mini, neox_mini
from book.lab.training.gpt2_mini import HEADS, LAYERS
from book.publish.records import Value
from book.studies.rotary_bias.parts import WAYS, Scores, biases_of, cut, evaluate, split_attention

SEEDS = 3
PARALLEL = ("neox-mini", "neox-mini-partial", "neox-mini-unbiased")
RUNS = tuple((name, seed) for name in PARALLEL for seed in range(SEEDS))
"""Variant and seed, of blocks whose attention and MLP are parallel."""
SEQUENTIAL = tuple(("neox-mini-sequential", seed) for seed in range(SEEDS))
"""The same where the MLP follows attention."""
LENGTHS = (128, 256, 512, 1024)
STRETCH, STRETCHED = 4.0, 512
LONG_TOKENS, HEAD_WINDOWS = 16 * 1024 + 1, 16
SHARE_WINDOWS, SHARE_TOKENS = 8, 64
SCALINGS = ("as trained", "linear", "NTK", "YaRN")
Biases = Sequence[tuple[Tensor, Tensor]]
TRACED = (
    "held_out",
    "held_out_no_query_bias",
    "held_out_no_key_bias",
    "query_bias",
    "key_bias",
    "query_mean",
    "key_mean",
)


def seeds_of(name: str, runs: Iterable[tuple[str, int]] = RUNS) -> list[int]:
    """Return where the seeds of a variant stand among the runs.

    >>> seeds_of("b", [("a", 0), ("b", 0), ("b", 1)])
    [1, 2]
    """
    return [k for k, (variant, _) in enumerate(runs) if variant == name]


def measure_runs(
    runs: Sequence[tuple[str, int]], corpus: gpt2_mini.Corpus, device: torch.device
) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Train what is not yet trained and measure every model; arrays are by run.

    Another machine rounds otherwise and its training drifts away from this one, so the tolerance is wide.
    """
    by_run = [measure_run(train(name, seed, corpus, device), corpus, device) for name, seed in runs]
    arrays = {key: np.stack([measured[key] for measured in by_run]).astype(np.float32) for key in by_run[0]}
    arrays["step"] = by_run[0]["step"].astype(np.int64)
    losses = {
        f"loss {name} {seed}": Value(float(arrays["held_out"][k, -1]), tolerance=0.05, unit="nats per token")
        for k, (name, seed) in enumerate(runs)
    }
    return losses, arrays


def train(name: str, seed: int, corpus: gpt2_mini.Corpus, device: torch.device) -> Path:
    """Train one model where that has not been done, and return its folder."""
    out = Path("runs", f"rotary-bias-{name}-{seed}")
    with claim_folder(out, f"training of {name}"):
        neox_mini.train(out, name, seed=seed, device=str(device), probe=make_probe(corpus.windows), corpus=corpus)
    return out


def measure_run(folder: Path, corpus: gpt2_mini.Corpus, device: torch.device) -> dict[str, np.ndarray]:
    """Measure one trained model on held-out text, and take along what its trace holds."""
    _, trace = gpt2_mini.read_trace(folder)
    model = load(folder, device)
    rotary = reading.load(model).layers[0].positions
    measured = {key: trace[key] for key in (*TRACED, "step")}
    both, windows = biases_of(trace), corpus.windows
    few, long = choose_windows(windows), corpus.held_out[:LONG_TOKENS]
    measured["without"] = np.array([lose_parts(model, windows, biases, rotary) for biases in both.values()])
    measured["without_piece"] = np.array([lose_pieces(model, windows, biases, rotary) for biases in both.values()])
    for kind, biases in both.items():
        by_head = lose_heads(model, few, biases, rotary)
        measured |= {f"{name}_{kind}": value for name, value in by_head.items()}
    rows = windows[:SHARE_WINDOWS, :SHARE_TOKENS]
    measured["shares"] = split_attention(model, rows, both, rotary).means()
    measured["longer"] = np.array([evaluate(model, cut(long, length), batch=4) for length in LENGTHS])
    measured["stretched"] = np.array(
        [evaluate(_stretch(model, rotary, scaling), cut(long, STRETCHED), batch=4) for scaling in SCALINGS]
    )
    return measured


def load(folder: Path, device: torch.device) -> nn.Module:
    """Load a model that was trained here, with attention that can be replaced."""
    from transformers import GPTNeoXForCausalLM

    with pretrained.quiet_library():
        model = GPTNeoXForCausalLM.from_pretrained(folder, local_files_only=True, attn_implementation="eager")
    return model.eval().requires_grad_(False).to(device)


def choose_windows(windows: Tensor) -> Tensor:
    """Return :data:`HEAD_WINDOWS` of the held-out windows, spread evenly, for what is measured head by head."""
    return windows[:: len(windows) // HEAD_WINDOWS]


def lose_parts(model: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary | None) -> list[float]:
    """Return the loss without the parts of each of :data:`WAYS`, in all heads."""
    return [evaluate(model, windows, Scores(biases, rotary, drop))[0] for drop in WAYS.values()]


def lose_heads(model: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary | None) -> dict[str, np.ndarray]:
    """Leave out the kernel of one head after another.

    Returns
    -------
    dict
        ``by_head (layer, head)``: the rise of the loss; ``previous (way, layer, head)``: the attention to the previous
        position in each of :data:`WAYS`, from the model's own queries and keys; ``previous_after (layer, head, layer,
        head)``: that attention in the whole model when the kernel of the first head is left out, for heads of later
        layers; what a head's own is then is in ``previous``.
    """
    watched = Scores(biases, rotary, watch=tuple(WAYS))
    whole = evaluate(model, windows, watched)[0]
    rises, after = np.zeros((LAYERS, HEADS)), np.zeros((LAYERS, HEADS, LAYERS, HEADS))
    for head in np.ndindex(rises.shape):
        scores = Scores(biases, rotary, ("kernel",), head, watch=("whole",))
        rises[head] = evaluate(model, windows, scores)[0] - whole
        after[head] = scores.previous_attention()[0].numpy()
    return {"by_head": rises, "previous": watched.previous_attention().numpy(), "previous_after": after}


def lose_pieces(model: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary) -> list[float]:
    """Return the loss without those coordinates of the key vector that are turned, and without the others."""
    losses = []
    for piece in range(2):
        own = [(query, split_channels(key.to(rotary.frequencies), rotary)[piece]) for query, key in biases]
        losses.append(evaluate(model, windows, Scores(own, rotary, WAYS["no key bias"]))[0])
    return losses


def _stretch(model: nn.Module, rotary: Rotary, scaling: str) -> nn.Module:
    """Give the model's rotation other frequencies, in place."""
    changed = {
        "as trained": lambda: rotary,
        "linear": lambda: interpolate_positions(rotary, STRETCH),
        "NTK": lambda: ntk_aware(rotary, STRETCH) if len(rotary.frequencies) > 1 else rotary,
        "YaRN": lambda: yarn(rotary, STRETCH, gpt2_mini.CONTEXT),
    }[scaling]()
    embedding = model.gpt_neox.rotary_emb
    embedding.inv_freq.copy_(changed.frequencies.to(embedding.inv_freq))
    embedding.attention_scaling = changed.attention_factor
    return model


def measure_gpt2(corpus: gpt2_mini.Corpus, device: torch.device) -> dict[str, np.ndarray]:
    """Leave parts out of gpt2-mini, whose positions are learned: two of them cancel."""
    model = pretrained.load(checkpoints.find("gpt2-mini"), task="lm", device=device)
    both = {
        "bias": [(layer.b_Q, layer.b_K) for layer in reading.load(model).layers],
        "mean": mean_query_and_key(model, corpus.windows),
    }
    few, measured = choose_windows(corpus.windows), {}
    measured["gpt2_without"] = np.array([lose_parts(model, corpus.windows, biases, None) for biases in both.values()])
    for kind, biases in both.items():
        by_head = lose_heads(model, few, biases, None)
        measured |= {f"gpt2_{name}_{kind}": value for name, value in by_head.items()}
    return {name: value.astype(np.float32) for name, value in measured.items()}


@torch.no_grad()
def mean_query_and_key(model: nn.Module, windows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the mean query and key of each head and layer over all positions; they are not turned."""
    sums: dict[int, list[Tensor]] = {}

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        sums.setdefault(layer, []).append(torch.stack([query.sum((0, 2)), key.sum((0, 2))]))
        return (mask_future(scale * query @ key.mT)).softmax(-1) @ value

    evaluate(model, windows, attend)
    return [tuple(sum(of_layer) / windows[:, 1:].numel()) for _, of_layer in sorted(sums.items())]
