"""What a layer of MiniLM mixes on documents of four kinds, and what the layers of its controls mix.

Cosines are by document. The rest is measured on the rows of all documents together, and in the trained network on
those of every kind as well. What can be read back is read on all documents in every network: a reader that learns from
fewer of them finds less.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from analysis.core.weights import EncoderLayer
from analysis.decomposition.block_mixing import additive_share, block_coupling, interaction, off_diagonal_share
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import SEEDS, make_controls
from analysis.models.reading import load
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.transformer.activations import LayerActivations
from analysis.transformer.attention_only import composition_scores
from analysis.transformer.encoder import run_layer
from analysis.transformer.head_layout import concatenate, split, stack
from analysis.transformer.layernorm import apply_norm, normalise
from analysis.transformer.mlp import apply_mlp
from book.lab.document_ladder import CONTROLS, LADDER
from book.lab.documents import KINDS, load_documents
from book.lab.ridge_regression import explained, fit_ridge
from book.publish.records import Experiment, Result

LONGEST, EACH = 128, 3  # tokens of a document, and documents of every kind for the controls
SAMPLES, PAIRS, POINTS = 240, 4, 1  # rows for shares of variance, pairs of blocks, rows for Jacobians
RIDGE = 0.1
STATIONS = ("read", "first LayerNorm", "second without the MLP", "second LayerNorm", "plain first", "plain second")
POOLED = ("additive", "linear", "interaction", "coupling of W_O", "coupling of the MLP", "peak")
READ = (("heads", "x"), ("heads", "second"), ("heads", "x and second"), ("first", "second"))


def compute(device: torch.device) -> Result:
    """What a layer of MiniLM mixes, and what the layers of the ladder of its controls mix."""
    checkpoint, arrays = checkpoints.find("minilm"), {}
    tokenizer = pretrained.tokenizer(checkpoint)

    def load(seed: int | None) -> torch.nn.Module:
        return pretrained.load(checkpoint, control_seed=seed, device=device)

    arrays |= measure_network(load(None), tokenizer, by_kind=True)
    controls = make_controls(load(None), load, levels=LADDER)
    means = [measure_network(control.network, tokenizer, each=EACH) for control in controls]
    for name in means[0]:
        values = np.stack([one[name].mean(0) for one in means])
        arrays[name + CONTROLS] = values.reshape(len(SEEDS), len(LADDER), *values.shape[1:]).swapaxes(0, 1)
    return Result({}, {name: values.astype(np.float32) for name, values in arrays.items()}, dict.fromkeys(arrays, 0.02))


def measure_network(
    network: torch.nn.Module, tokenizer, *, each: int | None = None, by_kind: bool = False
) -> dict[str, np.ndarray]:
    """Measure one network.

    Returns
    -------
    dict
        ``cosine`` (document, layer, activation); ``pooled`` (group, layer, measure), of which the first group is all
        documents and the others, with ``by_kind``, those of each kind; ``read`` (1, layer, pair).
    """
    chosen = {document.text for document in load_documents(each=each)}
    texts = [document.text for document in load_documents()]
    states = extraction.hidden_states(network, tokenizer, texts, LONGEST)
    layers = load(network).encoder_layers()
    whole = [[run_layer(text[level], layer) for text in states] for level, layer in enumerate(layers)]
    by_layer = [[passed for passed, text in zip(of_texts, texts) if text in chosen] for of_texts in whole]
    cosines = [[_cosines(passed, layer) for passed in of_texts] for of_texts, layer in zip(by_layer, layers)]
    pooled = []
    for level, (of_texts, layer) in enumerate(zip(by_layer, layers)):
        groups, peak = [of_texts, *(_by_kind(of_texts) if by_kind else ())], _peak(layers[level - 1], layer)
        pooled.append([[*pool(group, layer.to(torch.float64)), peak] for group in groups])
    read = [read_back(of_texts) for of_texts in whole]
    return {
        "cosine": np.array(cosines).swapaxes(0, 1),
        "pooled": np.array(pooled).swapaxes(0, 1),
        "read": np.array(read)[None],
    }


def _by_kind(of_texts: Sequence[LayerActivations]) -> list[Sequence[LayerActivations]]:
    each = len(of_texts) // len(KINDS)
    return [of_texts[k * each : (k + 1) * each] for k in range(len(KINDS))]


def _cosines(passed: LayerActivations, layer: EncoderLayer) -> list[float]:
    """Return the mean cosine of two rows after each step in ``STATIONS``; without an MLP its output is 0."""
    rows = (
        passed.x,
        passed.first,
        apply_norm(passed.first, layer.norm_mlp),
        passed.second,
        normalise(passed.before_first),
        normalise(passed.before_second),
    )
    return [mean_pairwise_cosine(r).item() for r in rows]


def pool(of_texts: Sequence[LayerActivations], layer: EncoderLayer) -> list[float]:
    """Return the first measures of ``POOLED``."""
    seeded, heads, mlp = torch.Generator().manual_seed(0), layer.attention.heads, layer.mlp
    rows = {name: torch.cat([getattr(p, name) for p in of_texts]).double() for name in ("x", "heads", "first")}
    picked = torch.randperm(len(rows["x"]), generator=seeded)
    x, first = rows["x"], rows["first"]

    def function(row: Tensor) -> Tensor:
        return apply_mlp(row, mlp)

    fit, test = picked[: len(picked) // 2], picked[len(picked) // 2 :]
    linear = explained(fit_ridge(first[fit], function(first[fit]), first[test], 1e-3), function(first[test])).item()
    additive = additive_share(function, first[picked[:SAMPLES]], heads, seeded)
    a, b = first[picked[: SAMPLES // 2]], first[picked[SAMPLES // 2 : SAMPLES]]
    mixed = []
    for _ in range(PAIRS):
        i, j = torch.randperm(heads, generator=seeded)[:2].tolist()
        swapped = split(a, heads).clone()
        swapped[i] = split(b, heads)[i]
        effect = (function(concatenate(swapped)) - function(a)).norm(dim=-1)
        mixed.append((interaction(function, a, b, heads, (i, j)).norm(dim=-1) / effect).mean().item())
    W_O, b_O = stack(layer.attention.W_O), layer.attention.b_O
    joined, through = torch.zeros(2, heads, heads, dtype=torch.float64, device=x.device)
    for i in picked[:POINTS].tolist():
        joined += block_coupling(
            lambda row, i=i: apply_norm(row @ W_O + b_O + x[i], layer.norm_attention), rows["heads"][i][None], heads
        )
        through += block_coupling(
            lambda row: apply_norm(row + function(row[None])[0], layer.norm_mlp), first[i][None], heads
        )
    return [
        additive,
        linear,
        float(np.mean(mixed)),
        *(off_diagonal_share(total / total.sum()) for total in (joined, through)),
    ]


def _peak(before: EncoderLayer, layer: EncoderLayer) -> float:
    """Return the largest composition score with the heads of the layer before over the median one."""
    scores = composition_scores(before.attention.W_O, layer.attention.W_Q)
    return (scores.max() / scores.median()).item()


def read_back(of_texts: Sequence[LayerActivations]) -> list[float]:
    """Read ``READ`` back on every third document, fitted on the others."""
    rows = {name: [getattr(p, name).double() for p in of_texts] for name in ("x", "heads", "first", "second")}
    rows["x and second"] = [torch.cat(both, 1) for both in zip(rows["x"], rows["second"])]
    fit, test = (
        {name: torch.cat([x for i, x in enumerate(texts) if (i % 3 == 0) == held_out]) for name, texts in rows.items()}
        for held_out in (False, True)
    )
    return [
        explained(fit_ridge(fit[station], fit[what], test[station], RIDGE), test[what]).item() for what, station in READ
    ]


EXPERIMENT = Experiment(compute, models=("minilm",), minutes=8, seed=0)
