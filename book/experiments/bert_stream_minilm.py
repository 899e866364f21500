"""What a BERT layer mixes: couplings of blocks, the MLP's interactions, what can be read back, with the control.

`survey` does it for any model of the BERT family; the record is MiniLM on the bundled passages.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from analysis.core.weights import EncoderLayer
from analysis.data import texts
from analysis.decomposition import block_mixing
from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.representations import anisotropy
from analysis.transformer import head_layout
from analysis.transformer.activations import LayerActivations
from analysis.transformer.encoder import run_layer
from analysis.transformer.layernorm import apply_norm
from analysis.transformer.mlp import apply_mlp
from book.lab.ridge_regression import explained, fit_ridge
from book.publish.records import Experiment, Result

POINTS, SAMPLES, PAIRS = 4, 1500, 12
READ_TEXTS, READ_TOKENS = 12, 128
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
COUPLINGS = ("skip", "LN", "W_O", "W_O and LN", "MLP", "MLP and skip", "MLP, skip and LN")
READ_BACK = (
    ("heads", "attention_output"),
    ("heads", "first"),
    ("heads", "second"),
    ("first", "mlp_output"),
    ("first", "second"),
    ("first", "shuffled"),
    ("heads", "x"),
    ("heads", "x and second"),
    ("heads", "x and mean"),
    ("heads", "x, mean and second"),
)
"""What is read back from which station; ``x`` is what the layer read, of which its heads are functions, ``mean`` the
mean of that over the text: what every word's heads could know of the text."""


def survey(name: str, passages: Sequence[str], device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure a model and its control on the passages; arrays by name, the control's after ``control_``.

    With fewer than three passages nothing is read back (one fits, one chooses the ridge, one is held out), and with one
    head there are no two blocks to interact: the numbers are nan then.
    """
    checkpoint = checkpoints.find(name)
    tokenizer = pretrained.tokenizer(checkpoint)
    found = {}
    for prefix, seed in (("", None), ("control_", 0)):
        model = pretrained.load(checkpoint, control_seed=seed, device=device)
        states = extraction.hidden_states(model, tokenizer, passages)
        by_layer = [
            measure_layer([text[level] for text in states], layer, seed=level)
            for level, layer in enumerate(load(model).encoder_layers())
        ]
        found.update({prefix + key: np.stack([layer[key] for layer in by_layer]) for key in by_layer[0]})
        short = [text[:, :READ_TOKENS] for text in states[:READ_TEXTS]]
        found[prefix + "residual"] = _read(model, short)
    return found


def measure_layer(read: Sequence[Tensor], layer: EncoderLayer, seed: int) -> dict[str, np.ndarray]:
    """Measure one layer on what it read, one tensor a text."""
    passed = [run_layer(x, layer) for x in read]
    exact, generator = layer.to(torch.float64), torch.Generator().manual_seed(seed)
    rows = {
        station: torch.cat([getattr(p, station) for p in passed]).double()
        for station in ("x", "heads", "attention_output", "first", "mlp_output", "second")
    }
    measured = {
        "coupling": _couple(rows, exact, generator),
        **_measure_mlp(rows, exact, generator),
        "read_back": _read_back(passed, rows, layer.attention.heads, generator),
        "cosine": _align(passed),
    }
    return {key: np.asarray(value) for key, value in measured.items()}


def _couple(rows: dict[str, Tensor], layer: EncoderLayer, generator: torch.Generator) -> np.ndarray:
    """Return the couplings (map, to, source) in the order of ``COUPLINGS``, each with sum 1."""
    heads, W_O = layer.attention.heads, head_layout.stack(layer.attention.W_O)
    picked = torch.randperm(len(rows["x"]), generator=generator)[:POINTS].tolist()
    total = [torch.zeros(heads, heads, dtype=torch.float64, device=W_O.device) for _ in COUPLINGS]

    def added(row):
        return apply_mlp(row[None], layer.mlp)[0]

    for i in picked:
        x, y, z = rows["x"][i], rows["heads"][i][None], rows["first"][i][None]

        def through_W_O(row, x=x):
            return row @ W_O + layer.attention.b_O + x

        maps = (
            (lambda row, x=x: row + x, y),
            (lambda row, x=x: apply_norm(row + x, layer.norm_attention), y),
            (through_W_O, y),
            (lambda row, f=through_W_O: apply_norm(f(row), layer.norm_attention), y),
            (added, z),
            (lambda row: row + added(row), z),
            (lambda row: apply_norm(row + added(row), layer.norm_mlp), z),
        )
        for k, (function, at) in enumerate(maps):
            total[k] += block_mixing.block_coupling(function, at, heads)
    return torch.stack([t / t.sum() for t in total]).cpu().numpy()


def _measure_mlp(rows: dict[str, Tensor], layer: EncoderLayer, generator: torch.Generator) -> dict[str, float]:
    """Hold the MLP to what (5.14) makes of it: the product of its matrices, sums over blocks, linear maps."""
    x, y, mlp, heads = rows["first"], rows["mlp_output"], layer.mlp, layer.attention.heads

    def function(row):
        return apply_mlp(row, mlp)

    product = mlp.W_in @ mlp.W_out
    constant = mlp.b_in @ mlp.W_out + mlp.b_out
    picked = x[torch.randperm(len(x), generator=generator)[:SAMPLES]]
    half = min(200, len(picked) // 2)
    a, b = picked[:half], picked[-half:]
    mixed = []
    for _ in range(PAIRS if heads > 1 else 0):
        i, j = torch.randperm(heads, generator=generator)[:2].tolist()
        crossed = block_mixing.interaction(function, a, b, heads, (i, j)).norm(dim=-1)
        swapped = head_layout.split(a, heads).clone()
        swapped[i] = head_layout.split(b, heads)[i]
        mixed.append((crossed / (function(head_layout.concatenate(swapped)) - function(a)).norm(dim=-1)).mean().item())
    odd = torch.arange(len(x), device=x.device) % 2 == 1
    fitted = fit_ridge(x[~odd], y[~odd], x[odd], 1e-6)
    return {
        "product_error": ((x @ product + constant - y).norm() / y.norm()).item(),
        "linear": explained(fitted, y[odd]).item(),
        "additive": block_mixing.additive_share(function, picked, heads, generator),
        "additive_linear": block_mixing.additive_share(lambda row: row @ product, picked, heads, generator),
        "interaction": float(np.mean(mixed)) if mixed else math.nan,
        "relu_error": ((apply_mlp(x, mlp, torch.relu) - y).norm() / y.norm()).item(),
        "least_singular": torch.linalg.svdvals(torch.func.jacrev(function)(x[:1]).squeeze())[-1].item(),
    }


def _read_back(
    passed: Sequence[LayerActivations], rows: dict[str, Tensor], heads: int, generator: torch.Generator
) -> np.ndarray:
    """Read blocks back by ridge regression: share explained on unseen texts, (pair, block), pairs as ``READ_BACK``.

    Every third text is held out, every third of the others chooses the ridge.
    """
    text = torch.cat([torch.full((len(p.x),), i, device=p.x.device) for i, p in enumerate(passed)])
    test, choose = text % 3 == 0, text % 9 == 1
    train = ~test & ~choose
    if len(passed) < 3:
        return np.full((len(READ_BACK), heads), math.nan)
    mean = torch.cat([p.x.double().mean(0, keepdim=True).expand_as(p.x) for p in passed])
    rows = rows | {
        "x and mean": torch.cat([rows["x"], mean], -1),
        "x, mean and second": torch.cat([rows["x"], mean, rows["second"]], -1),
        "shuffled": rows["second"][torch.randperm(len(text), generator=generator)],
        "x and second": torch.cat([rows["x"], rows["second"]], -1),
    }
    found = []
    for what, station in READ_BACK:
        x, y = rows[station], rows[what]

        def quality(ridge, x=x, y=y):
            return explained(fit_ridge(x[train], y[train], x[choose], ridge), y[choose])

        best = max(RIDGES, key=quality)
        predicted = head_layout.split(fit_ridge(x[~test], y[~test], x[test], best), heads)
        found.append([explained(p, q).item() for p, q in zip(predicted, head_layout.split(y[test], heads))])
    return np.array(found)


def _align(passed: Sequence[LayerActivations]) -> np.ndarray:
    """Return the mean pairwise cosine (text, activation): read, after LayerNorm 1, added by the MLP, written."""
    return np.array(
        [
            [anisotropy.mean_pairwise_cosine(rows).item() for rows in (p.x, p.first, p.mlp_output, p.second)]
            for p in passed
        ]
    )


def _read(model: torch.nn.Module, states: Sequence[Tensor]) -> np.ndarray:
    """Return what the gate reader leaves unexplained, and what it calls closed: (share, text, layer, head)."""
    layers = load(model).encoder_layers()
    maps = [torch.stack([run_layer(x, layer).attention for x, layer in zip(text, layers)]) for text in states]
    readings = [gates.read_gates(m) for m in maps]
    return np.stack([[r.score(gate).cpu().numpy() for r in readings] for gate in ("residual", "closed")])


def _tolerance(name: str) -> float:
    """Say how far an array may differ on another machine: estimates hang on which unit of float32 rows came out."""
    name = name.removeprefix("control_")
    return {"coupling": 1e-3, "product_error": 1e-2, "least_singular": 1e-4, "residual": 0.05}.get(name, 5e-3)


def compute(device: torch.device) -> Result:
    """Couplings of blocks, interactions in the MLP and what can be read back, MiniLM and its control."""
    arrays = survey("minilm", texts.passages(), device)
    return Result(
        arrays={key: value.astype(np.float32) for key, value in arrays.items()},
        tolerances={key: _tolerance(key) for key in arrays},
    )


EXPERIMENT = Experiment(compute, models=("minilm",), minutes=2.5, seed=0)
