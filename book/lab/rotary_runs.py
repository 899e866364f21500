"""The models trained for the page on rotary positions: which there are, and what is measured of each.

Its loss without parts of the scores, in all heads and in one; what the parts explain; its loss at any length.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from analysis.core.files import claim_folder
from analysis.core.positions import Rotary
from analysis.models import checkpoints, pretrained, reading
from analysis.transformer.rotary_scaling import interpolate_positions, ntk_aware, rotary_frequencies, yarn
from book.lab.rotary_ablation import (
    biases_of,
    choose_windows,
    cut,
    evaluate,
    lose_heads,
    lose_parts,
    lose_pieces,
    mean_query_and_key,
)
from book.lab.rotary_probe import make_probe
from book.lab.rotary_shares import SHARE_TOKENS, SHARE_WINDOWS, split_attention
from book.lab.training import gpt2_mini, neox_mini

SEEDS = 3
PARALLEL = ("neox-mini", "neox-mini-partial", "neox-mini-unbiased")
RUNS = tuple((name, seed) for name in PARALLEL for seed in range(SEEDS))
"""Variant and seed, of blocks whose attention and MLP are parallel."""
SEQUENTIAL = tuple(("neox-mini-sequential", seed) for seed in range(SEEDS))
"""The same where the MLP follows attention."""
LENGTHS = (128, 256, 512, 1024)
STRETCH, STRETCHED = 4.0, 512
LONG_TOKENS = 16 * 1024 + 1
SCALINGS = ("as trained", "linear", "NTK", "YaRN")
TRACED = [
    "held_out",
    "held_out_no_query_bias",
    "held_out_no_key_bias",
    "query_bias",
    "key_bias",
    "query_mean",
    "key_mean",
]


def seeds_of(name: str, runs: Iterable[tuple[str, int]] = RUNS) -> list[int]:
    """Return where the seeds of a variant stand among the runs.

    >>> seeds_of("b", [("a", 0), ("b", 0), ("b", 1)])
    [1, 2]
    """
    return [k for k, (variant, _) in enumerate(runs) if variant == name]


def rotary_of(name: str) -> Rotary:
    """Return how a variant turns its queries and keys.

    >>> [rotary_of(name).coordinates for name in ("neox-mini", "neox-mini-partial")]
    [16, 4]
    """
    channel = gpt2_mini.WIDTH // gpt2_mini.HEADS
    return Rotary(rotary_frequencies(round(channel * neox_mini.VARIANTS[name].rotary)), channel)


def measure_runs(
    runs: Sequence[tuple[str, int]], corpus: gpt2_mini.Corpus, device: torch.device
) -> dict[str, np.ndarray]:
    """Train what is not yet trained and measure every model; arrays are by run."""
    by_run = [measure_run(train(name, seed, corpus, device), corpus, device) for name, seed in runs]
    arrays = {key: np.stack([measured[key] for measured in by_run]).astype(np.float32) for key in by_run[0]}
    return arrays | {"step": by_run[0]["step"].astype(np.int64)}


def final_losses(runs: Sequence[tuple[str, int]], arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return every run's last loss on the held-out text, by name and seed.

    >>> final_losses([("a", 1)], {"held_out": np.array([[4.0, 3.0]])})
    {'loss a 1': 3.0}
    """
    return {f"loss {name} {seed}": float(arrays["held_out"][k, -1]) for k, (name, seed) in enumerate(runs)}


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
