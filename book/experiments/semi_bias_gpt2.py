"""GPT-2's semi-bias over its positions, from attention, LayerNorm and positions; no token table is needed.

Everything in float64. ``sigma(e + p)`` depends on the token, which the parameters without a token table cannot give:
``WIDTHS`` lists the widths of a token, in units of the median position's, for which ``sigma^2 = sigma_p^2 + token^2``.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.folding import fold_norm
from analysis.decomposition.terms import key_direction, semi_bias
from analysis.maps.locality import position_only, position_scores
from analysis.models import checkpoints
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.statistics.correlation import recency
from analysis.transformer.layernorm import sigma
from book.lab.first_layer import along_axes, map_error, rewriting_errors
from book.publish.records import Experiment, Result, Value
from book.studies.shared.ladder import measure_controls

WIDTHS = (0.0, 1.0, 2.0)
DRAWS = 1000
EVERY = 8


def compute(device: torch.device) -> Result:
    """Measure GPT-2."""
    return measure(checkpoints.find("gpt2"), device)


def measure(ck: checkpoints.Checkpoint, device: torch.device) -> Result:
    """Measure the semi-bias of every head: raw, folded, divided by sigma; locality, nulls, all layers, equality."""
    model = load(ck, dtype=torch.float64)
    layers = [layer.to(device) for layer in model.plain_layers()]
    norms = [model.norm("attention", i).to(device) for i in range(len(layers))]
    p = model.positions.to(device)
    folded, width = fold_norm(layers[0], norms[0]), sigma(p, norms[0].eps)
    arrays = {
        "sigma_p": width,
        "norm_p": p.norm(dim=1),
        "semi_raw": semi_bias(p, layers[0]),
        "semi_folded": semi_bias(p, folded),
        "semi_sigma": semi_bias(p / width[:, None], folded),
        "semi_query_bias": semi_bias(p, replace(folded, b_Q=layers[0].b_Q)),
    }
    arrays |= _table(p) | _locality(p, width, folded) | _null(p / width[:, None], folded)
    arrays |= _directions(p, layers[0], folded) | _effective(p, layers, norms) | _ladder(ck, p, layers, norms)
    values, tolerances = _equality(p, layers[0], norms[0]), {}
    packed = {}
    for name, tensor in arrays.items():
        array = tensor.cpu().numpy()
        packed[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        scale = float(np.abs(packed[name]).max()) if array.dtype.kind == "f" else 0.0
        tolerances[name] = 1e-5 * max(scale, 1e-3) if scale else 0.0
    return Result(values, packed, tolerances)


def _table(p) -> dict:
    """Return the position table, every 8th row in 255 steps, and its principal components without the last row."""
    limit = p.abs().flatten().kthvalue(int(0.995 * p.numel())).values
    steps = (p[::EVERY] / limit).clamp(-1, 1).mul(127).round().to(torch.int8)
    scores, S = along_axes(p[:-1], 6)
    return {
        "table_steps": steps,
        "table_limit": limit[None],
        "pc_share": (S**2 / (S**2).sum())[:32],
        "pc_scores": scores,
        "pc_recency": recency(scores.T),
    }


def near(positions: int) -> int:
    """Return how many keys count as near: 50, or a quarter of a short context."""
    return max(1, min(50, positions // 4))


def _locality(p, width, folded) -> dict:
    found = []
    for times in WIDTHS:
        own, both = position_scores(p, (width**2 + (times * width.median()) ** 2).sqrt(), folded)
        found.append(position_only(own, both, (3, near(len(p))), first=near(len(p))))
        if times == 1.0:
            peak = found[-1].peak.to(torch.int16)
    return {"mass": torch.stack([f.mass for f in found]), "uniform": found[0].uniform, "peak": peak}


def _null(y, folded) -> dict:
    """Draw random b_Q with the real W_K: how monotone is a random head over these positions?"""
    g = torch.Generator().manual_seed(0)
    b = torch.randn(DRAWS, *folded.b_Q.shape, generator=g, dtype=torch.float64).to(y.device)
    b *= (folded.b_Q.norm(dim=1) / math.sqrt(folded.channel))[:, None]
    observed = semi_bias(y, folded)
    rho, spread = [], []
    for h in range(folded.heads):
        keys = y @ folded.W_K[h] / math.sqrt(folded.channel)
        drawn = b[:, h] @ keys.T
        rho.append(recency(drawn))
        spread.append(drawn.std(1))
    rho, spread = torch.stack(rho), torch.stack(spread)
    return {
        "rho": recency(observed),
        "null_quantiles": rho.abs().quantile(
            torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64, device=rho.device), dim=1
        ),
        "null_share": (rho.abs() >= recency(observed).abs()[:, None]).double().mean(1),
        "spread_ratio": observed.std(1) / spread.median(1).values,
    }


def _effective(p, layers: list[AttentionLayer], norms) -> dict:
    """Return, of every layer's effective semi-bias over sigma(p): rank correlation, spread, and the lead of key 0.

    The lead is over the mean of the other positions. The untrained last position is left out.
    """
    scores = torch.stack(
        [semi_bias(p / sigma(p, norm.eps)[:, None], fold_norm(layer, norm)) for layer, norm in zip(layers, norms)]
    )[..., :-1]
    return {
        "effective_rho": recency(scores),
        "effective_std": scores.std(-1),
        "first_lead": scores[..., 0] - scores[..., 1:].mean(-1),
        "first_beaten_by": (scores[..., 1:] > scores[..., :1]).sum(-1).to(torch.int16),
    }


def _ladder(ck, p, layers, norms) -> dict:
    """Measure the same on the controls, ``(rung, seed, layer, head)``; their LayerNorms are the trained ones."""
    model = load(ck)

    def draw(seed):
        return [random_attention_layer(model, i, seed, torch.float64).to(p.device) for i in range(len(layers))]

    names = ("effective_rho", "effective_std", "first_lead")

    def measured(network):
        effective = _effective(p, network, norms)
        return np.stack([effective[name].cpu().numpy() for name in names])

    stacked = measure_controls(make_controls(layers, draw), measured)
    return {f"ladder_{name}": torch.from_numpy(stacked[:, :, k]) for k, name in enumerate(names)}


def _directions(p, layer, folded) -> dict:
    """Return each key direction's share in the table's first axes, and the cosines of the heads' key directions.

    Beside them what random query biases give with the same keys: quantiles of the share in the third axis, and of
    the size of the cosine of two heads' directions.
    """
    axes = torch.linalg.svd(p[:-1] - p[:-1].mean(0), full_matrices=False)[2][:6]
    unit = torch.nn.functional.normalize(key_direction(folded), dim=1)
    g = torch.Generator().manual_seed(2)
    b = torch.randn(DRAWS, *folded.b_Q.shape, generator=g, dtype=torch.float64).to(p.device)
    drawn = torch.einsum("nhc,hmc->nhm", b, folded.W_K)
    drawn = drawn / drawn.norm(dim=-1, keepdim=True)
    levels = torch.tensor([0.5, 0.95], dtype=torch.float64, device=p.device)
    cosines = torch.einsum("nhm,ngm->nhg", drawn, drawn).abs()
    return {
        "direction_share": unit.matmul(axes.T).square(),
        "direction_cosines": unit @ unit.T,
        "random_share": (drawn @ axes[2]).square().quantile(levels, dim=0),
        "random_cosines": cosines.quantile(levels, dim=0),
    }


def _equality(p, layer, ln) -> dict[str, Value]:
    """Hold the rewriting to transformers' module on the real layer; tokens are drawn, as wide as a position.

    The map of the semi-bias is held to it at every position, all else at the first 100.
    """
    first = p[:100]
    g = torch.Generator().manual_seed(1)
    e = torch.randn(first.shape, generator=g, dtype=torch.float64).to(p.device) * sigma(first).median()
    errors = rewriting_errors(e, first, layer, ln) | {"map": map_error(p, layer)}
    return {f"error_{name}": Value(gap, tolerance=1e-12 if gap < 1e-11 else 1e-9) for name, gap in errors.items()}


EXPERIMENT = Experiment(
    "GPT-2's semi-bias over its positions: layer 0, the attention positions alone would give, nulls, every layer and "
    "its controls, equality",
    compute,
    models=("gpt2",),
    minutes=0.2,
    seed=0,
)
