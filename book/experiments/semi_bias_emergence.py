"""When, in training, the semi-bias points along the positions, and where several seeds of gpt2-mini end.

Seed 0 is the bundled model and is read from its trace, the others are trained where no finished run is found
(``book.lab.gpt2_mini_runs``). Another machine rounds otherwise and its run drifts away from this one, so
the tolerances are wide: what has to repeat is the finding. How often each token occurs in the training text is the
control for the norm of its embedding; the text is what this Python carries, so another version counts a little
differently.
"""

from pathlib import Path

import numpy as np
import torch

from analysis.data import texts
from analysis.decomposition.terms import semi_bias
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency
from book.lab import first_layer
from book.lab.first_layer import FirstLayer, attention_of_positions, overlap_with_text
from book.lab.gpt2_mini_runs import SEEDS, find_run
from book.lab.ladder import measure_controls
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value

KEPT = ("held_out", "loss", "rank_correlation", "size", "rank_correlation_folded", "size_folded")


def compute(device: torch.device) -> Result:
    """The semi-bias of seeds of gpt2-mini, head by head: at 60 steps of training, at its end, in controls.

    Collect the traces of the seeds, and when half of layer 0's heads prefer later keys for good; and their ends.
    """
    folders = [find_run(seed, device) for seed in SEEDS]
    traces = [gpt2_mini.read_trace(folder)[1] for folder in folders]
    arrays = {name: np.stack([trace[name] for trace in traces]) for name in KEPT}
    values = {}
    for seed, rho in zip(SEEDS, arrays["rank_correlation"][:, :, 0]):
        values[f"held_out_{seed}"] = Value(float(arrays["held_out"][seed, -1]), tolerance=0.05, unit="nats a token")
        values[f"recent_heads_{seed}"] = Value(int((rho[-1] > 0.5).sum()), tolerance=2, n=rho.shape[1])
        values[f"appears_{seed}"] = Value(settled(traces[0]["step"], rho), tolerance=200, unit="steps")
    frequency = torch.tensor(count_tokens(device).arrays["per_million"])
    ends = [measure(folder, frequency, device) for folder in folders]
    arrays |= {name: np.stack([end[name] for end in ends]) for name in ends[0]}
    arrays["ladder"] = measure_ladder(folders[0], device)
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    wide = dict.fromkeys(arrays, 0.5) | dict.fromkeys(("loss", "losses"), 1.0)
    wide |= dict.fromkeys((name for name in arrays if name.startswith(("rank", "size", "tilt", "tokens"))), 2.0)
    return Result(values, {"step": traces[0]["step"], **arrays}, wide | {"ladder": 1e-3})


def settled(steps: np.ndarray, rho: np.ndarray, above: float = 0.5) -> int:
    """Return the first probed step from which on at least half of the heads have ``rho > above``; -1 for none.

    >>> settled(np.array([0, 1, 2, 4]), np.array([[0.0], [0.9], [0.1], [0.9]]))
    4
    """
    below = (rho > above).mean(1) < 0.5
    after = int(np.flatnonzero(below).max(initial=-1)) + 1
    return int(steps[after]) if after < len(steps) else -1


WINDOWS = 32  # of held-out text
TEXTS = 8  # windows on which the attention is compared with that of positions alone
MEASURES = ("correlation", "spread", "mass of T^p", "mass of both")


def tilt(layer: FirstLayer) -> np.ndarray:
    """Return of ``T^p`` the rank correlation with the position and the spread in nats, and how near attention lies.

    Returns
    -------
    np.ndarray
        ``(measure, head)`` in the order of :data:`MEASURES`; a head without any semi-bias has a correlation of 0.
    """
    own, positions = attention_of_positions(layer)
    mass = positions.mass[1]
    return torch.stack([recency(own).nan_to_num(), own.std(-1), mass[0], mass[2]]).cpu().numpy()


@torch.no_grad()
def measure(folder: Path, frequency: torch.Tensor, device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure a trained gpt2-mini.

    Returns
    -------
    dict
        ``tilt`` as above; ``overlap (head,)`` of the attention on text with that of positions alone; ``tokens
        (2, head)``, the rank correlations of token norm and semi-bias, plain and at equal frequency; ``losses (2,)`` on
        the passages in nats per token, as trained and without ``b_Q`` in the first layer.
    """
    checkpoint = checkpoints.find(str(folder))
    layer = first_layer.read(checkpoint, device=device)
    ids = gpt2_mini.encode(pretrained.tokenizer(checkpoint), "\n\n".join(texts.passages()))
    windows = gpt2_mini.windows(ids, WINDOWS).to(device)
    model = pretrained.load(checkpoint, task="lm", dtype=torch.float64, device=device)
    norm, scores = layer.tokens.norm(dim=1), semi_bias(layer.tokens, layer.weights)
    tokens = [
        [rank_correlation(norm, head).value for head in scores],
        [partial_rank_correlation(norm, head, frequency.to(norm)) for head in scores],
    ]
    return {
        "tilt": tilt(layer),
        "overlap": overlap_with_text(layer, windows[:TEXTS, :-1])[0].cpu().numpy(),
        "tokens": np.array(tokens),
        "losses": np.array([first_layer.loss_without(model, windows, part) for part in (None, "b_Q")]),
    }


def measure_ladder(folder: Path, device: torch.device | str = "cpu") -> np.ndarray:
    """Return ``tilt`` of the controls, ``(level, seed, measure, head)``.

    Only the matrices of the first layer are exchanged: LayerNorm, positions and tokens stay the trained ones, and so
    do, in the last level, the biases. What the first two have of a semi-bias comes from the LayerNorm's bias.
    """
    checkpoint = checkpoints.find(str(folder))
    trained, model = first_layer.read(checkpoint, device=device), load(checkpoint)

    def draw(seed: int):
        return random_attention_layer(model, 0, seed, torch.float64).to(device)

    def measured(weights) -> np.ndarray:
        return tilt(FirstLayer(weights, trained.ln, trained.positions, trained.tokens))

    return measure_controls(make_controls(trained.weights, draw), measured)


def count_tokens(device: torch.device) -> Result:
    """How often each token of gpt2-mini occurs in its training text."""
    ck = checkpoints.find("gpt2-mini")
    ids = pretrained.tokenizer(ck).backend_tokenizer.encode(texts.corpus()).ids
    counts = np.bincount(ids, minlength=len(load(ck).tokens))
    return Result(
        {
            "tokens": Value(len(ids), tolerance=0.1 * len(ids), unit="tokens"),
            "never": Value(int((counts == 0).sum()), tolerance=100, n=len(counts), unit="tokens"),
        },
        {"per_million": (1e6 * counts / len(ids)).astype(np.float32)},
        {"per_million": 2e3},
    )


EXPERIMENTS = {
    "semi-bias-emergence": Experiment(compute, models=("gpt2-mini",), minutes=25.0, seed=SEEDS[-1]),
    "semi-bias-token-counts": Experiment(count_tokens, models=("gpt2-mini",), minutes=0.6),
}
