"""The models with rotary positions, trained: how their biases grow, and what they lose without a part of the scores.

Three variants and several seeds of each: all coordinates turned, a quarter of them, and no bias anywhere. Another
machine rounds otherwise and its run drifts away from this one, so the tolerances are wide: what has to repeat is the
finding. Beside them gpt2-mini, in which the key bias cancels.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from analysis.core.files import claim_folder
from analysis.core.positions import Rotary
from analysis.models import checkpoints, pretrained
from analysis.models.families import from_module
from analysis.surveys.records import Experiment, Result, Value
from analysis.surveys.rotary_probe import make_probe
from analysis.training import gpt2_mini, neox_mini
from analysis.transformer.rotary_scaling import interpolate_positions, ntk_aware, yarn
from book.studies.rotary_bias.parts import WAYS, Scores, cut, evaluate

RUNS = (("neox-mini", 0), ("neox-mini", 1), ("neox-mini-unbiased", 0))
LENGTHS = (128, 256, 512, 1024)
STRETCH, STRETCHED = 4.0, 512
LONG_TOKENS, HEAD_WINDOWS = 16 * 1024 + 1, 16
SCALINGS = ("none", "linear", "ntk", "yarn")
TRACED = ("held_out", "held_out_no_query_bias", "held_out_no_key_bias", "query_bias", "key_bias", "query_bias_folded",
          "key_bias_folded", "query_mean", "key_mean")
COUNTED = ("bias", "mean")
"""From where a part is counted: from the biases themselves, or from the mean query and key, biases included."""


def compute(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model."""
    corpus = gpt2_mini.read_corpus()
    by_run = [_measure_run(name, seed, corpus, device) for name, seed in RUNS]
    arrays = {key: np.stack([measured[key] for measured in by_run]).astype(np.float32) for key in by_run[0]}
    arrays["step"] = by_run[0]["step"].astype(np.int64)
    arrays |= _measure_gpt2(corpus, device)
    values = {f"loss {name} {seed}": Value(float(arrays["held_out"][k, -1]), tolerance=0.05, unit="nats per token")
              for k, (name, seed) in enumerate(RUNS)}
    return Result(values, arrays, dict.fromkeys(arrays.keys() - {"step"}, 20.0))


def train(name: str, seed: int, corpus: gpt2_mini.Corpus, device: torch.device) -> Path:
    """Train one model where that has not been done, and return its folder."""
    out = Path("runs", f"rotary-bias-{name}-{seed}")
    with claim_folder(out, f"training of {name}"):
        neox_mini.train(out, name, seed=seed, device=str(device), probe=make_probe(corpus.windows), corpus=corpus)
    return out


def _measure_run(name: str, seed: int, corpus: gpt2_mini.Corpus, device: torch.device) -> dict[str, np.ndarray]:
    folder = train(name, seed, corpus, device)
    _, trace = gpt2_mini.read_trace(folder)
    model = load(folder, device)
    rotary = from_module(model).positions(0)
    measured = {key: trace[key] for key in (*TRACED, "step")}
    both = [[(torch.from_numpy(trace[f"query_{kind}"][-1, i]), torch.from_numpy(trace[f"key_{kind}"][-1, i]))
             for i in range(gpt2_mini.LAYERS)] for kind in COUNTED]
    measured["without"] = np.array([[evaluate(model, corpus.windows, Scores(biases, rotary, drop))[0]
                                     for drop in WAYS.values()] for biases in both])
    few, long = corpus.windows[::len(corpus.windows) // HEAD_WINDOWS], corpus.held_out[:LONG_TOKENS]
    measured["by_head"] = np.array([_by_head(model, few, biases, rotary) for biases in both])
    measured["previous"] = np.stack([_previous(model, few, biases, rotary) for biases in both])
    measured["longer"] = np.array([evaluate(model, cut(long, length), batch=4) for length in LENGTHS])
    measured["stretched"] = np.array([evaluate(_stretch(model, rotary, scaling), cut(long, STRETCHED), batch=4)
                                      for scaling in SCALINGS])
    return measured


def load(folder: Path, device: torch.device) -> nn.Module:
    """Load a model that was trained here, with attention that can be replaced."""
    from transformers import GPTNeoXForCausalLM
    from transformers.utils import logging
    logging.disable_progress_bar()
    model = GPTNeoXForCausalLM.from_pretrained(folder, local_files_only=True, attn_implementation="eager")
    return model.eval().requires_grad_(False).to(device)


def _by_head(model: nn.Module, windows: Tensor, biases: list, rotary: Rotary | None) -> list[list[float]]:
    """Return the rise of the loss with one head's kernel left out."""
    whole = evaluate(model, windows, Scores(biases, rotary))[0]
    return [[evaluate(model, windows, Scores(biases, rotary, ("kernel",), (layer, head)))[0] - whole
             for head in range(gpt2_mini.HEADS)] for layer in range(gpt2_mini.LAYERS)]


def _previous(model: nn.Module, windows: Tensor, biases: list, rotary: Rotary | None) -> np.ndarray:
    """Return the mean attention to the previous position: way, layer, head."""
    scores = Scores(biases, rotary, watch=True)
    evaluate(model, windows, scores)
    return torch.stack([scores.previous[i] / scores.rows[i] for i in sorted(scores.rows)], 1).cpu().numpy()


def _stretch(model: nn.Module, rotary: Rotary, scaling: str) -> nn.Module:
    """Give the model's rotation other frequencies, in place."""
    changed = {"none": lambda: rotary, "linear": lambda: interpolate_positions(rotary, STRETCH),
               "ntk": lambda: ntk_aware(rotary, STRETCH) if len(rotary.frequencies) > 1 else rotary,
               "yarn": lambda: yarn(rotary, STRETCH, gpt2_mini.CONTEXT)}[scaling]()
    embedding = model.gpt_neox.rotary_emb
    embedding.inv_freq.copy_(changed.frequencies.to(embedding.inv_freq))
    embedding.attention_scaling = changed.attention_factor
    return model


def _measure_gpt2(corpus: gpt2_mini.Corpus, device: torch.device) -> dict[str, np.ndarray]:
    """Leave parts out of gpt2-mini, whose positions are learned: two of them cancel."""
    model = pretrained.load(checkpoints.find("gpt2-mini"), task="lm", device=device)
    biases = [(layer.b_Q, layer.b_K) for layer in from_module(model)]
    return {"gpt2_without": np.array([evaluate(model, corpus.windows, Scores(biases, None, drop))[0]
                                      for drop in WAYS.values()], np.float32)}


def seeds_of(name: str, runs: Iterable[tuple[str, int]] = RUNS) -> list[int]:
    """Return where the seeds of a variant stand among the runs.

    >>> seeds_of("b", [("a", 0), ("b", 0), ("b", 1)])
    [1, 2]
    """
    return [k for k, (variant, _) in enumerate(runs) if variant == name]


EXPERIMENT = Experiment(
    models=("gpt2-mini",), compute=compute, minutes=60.0, seed=0,
    summary="How query and key bias grow in neox-mini and its variants, and what the models lose without their parts")
